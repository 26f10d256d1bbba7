"""Options: read once, at the edge, into frozen records, one per stage.

`OPTIONS` is the table: each option's name, reader, default and canonical spelling.  `convert_options` reads what the
command line or a Python caller gives (the option's text, or the natural value) and sorts it into the records;
`atc_cmdline` is what the package records of it.
"""

import hashlib
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum, IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from atcpy.config_files import config_lines, members_of, parse_config, read_text_file
from atcpy.errors import (
    PackageCorrupt,
    ResourceLimit,
    Unsupported,
    UsageError,
    Where,
    did_you_mean,
    raise_all,
    raise_os_error,
)
from atcpy.files import read_file
from atcpy.precision_options import (
    PRECISION_MODES,
    PRECISION_MODES_V2,
    CustomDtypesFile,
    MixList,
    PrecisionMode,
    TextFile,
    check_type_name,
    output_types_text,
    read_customized,
    read_keep_file,
    read_mix_list,
    read_output_types,
    refuse_hifloat8,
)
from atcpy.precision_options import PrecisionOptions as PrecisionOptions
from atcpy.sizes import ANY_SIZE as ANY_SIZE
from atcpy.sizes import MAX_DIM as MAX_DIM
from atcpy.sizes import MAX_RANK as MAX_RANK
from atcpy.sizes import GearKind as GearKind
from atcpy.sizes import Gears as Gears
from atcpy.sizes import MemoryLimit as MemoryLimit
from atcpy.threads import default_threads as default_threads

if TYPE_CHECKING:
    from atcpy.aipp.config import AippConfig

KIB = 1024
MIB = 1024 * KIB


class OoLevel(IntEnum):
    """How much is optimised: O0 nothing that correctness does not need, O1 no fusion, O2 all, O3 as ATC's O3."""

    O0 = 0
    O1 = 1
    O2 = 2
    O3 = 3


class ImplMode(Enum):
    """May a kernel use Winograd and approximations that are within 1e-4 of the output's scale?"""

    HIGH_PERFORMANCE = "high_performance"
    HIGH_PRECISION = "high_precision"


class TopoSortingMode(Enum):
    """The order in which nodes run, by ATC's numbers: breadth first, depth first, from the results back, or that of the
    model.
    """

    BFS = "0"
    DFS = "1"
    RDFS = "2"
    STABLE_RDFS = "3"


class ExternalWeight(Enum):
    """Where constants are, by ATC's numbers: in the package, in a file each beside it, or in one file beside it."""

    INSIDE = "0"
    FILES = "1"
    COMBINED = "2"


class Framework(Enum):
    """What a model is of, by ATC's numbers."""

    TENSORFLOW = "3"
    ONNX = "5"


class Stage(Enum):
    """The stages whose graphs can be dumped, in order."""

    PARSE = "parse"
    PREPARE = "prepare"
    SPLIT = "split"
    OPTIMIZE = "optimize"
    COMPILE = "compile"


class FusionGroup(Enum):
    """The two groups of a fusion switch file."""

    GRAPH = "GraphFusion"
    UB = "UBFusion"


@dataclass(frozen=True, slots=True)
class DimRange:
    """A size that varies from `lo` to `hi`; None is no upper end."""

    lo: int
    hi: int | None

    def __str__(self) -> str:
        return f"{self.lo}~{ANY_SIZE if self.hi is None else self.hi}"


InputDim: TypeAlias = int | DimRange
InputDims: TypeAlias = tuple[InputDim, ...]


@dataclass(frozen=True, slots=True)
class PassSwitches:
    """Which passes the user switched on or off.  A name beats `ALL` of its group; `ALL:off` spares required passes.
    `limits` says of how many matches a pass may rewrite. `priorities` are numbers that ATC would order passes by.
    """

    named: Mapping[str, bool] = field(default_factory=dict)
    groups: Mapping[FusionGroup, bool] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    priorities: Mapping[str, int] = field(default_factory=dict)

    def enabled(
        self, name: str, *, group: FusionGroup = FusionGroup.GRAPH, default: bool = True, required: bool = False
    ) -> bool:
        """Is the pass on?"""
        if name in self.named:
            return self.named[name]
        return default if required else self.groups.get(group, default)

    def over(self, weaker: "PassSwitches") -> "PassSwitches":
        """These switches, and those of `weaker` where these say nothing."""
        return PassSwitches(
            named={**weaker.named, **self.named},
            groups={**weaker.groups, **self.groups},
            limits={**weaker.limits, **self.limits},
            priorities={**weaker.priorities, **self.priorities},
        )


class SplitBy(Enum):
    """How allreduces are put together where the user gives no sizes and no indices."""

    DEFAULT = "default"
    COSTS = "auto"


@dataclass(frozen=True, slots=True)
class Network:
    """What the model of costs of collectives calculates with: seconds to start a message (`alpha`), to send a byte
    (`beta`) and to add one (`gamma`), between so many ranks, and how many numbers one thread multiplies in a second
    (`speed`). The defaults: mpich on two fast cores of one machine.
    """

    alpha: float = 16e-6
    beta: float = 3e-10
    gamma: float = 1e-10
    ranks: int = 2
    speed: float = 100e9

    def between(self, ranks: int) -> "Network":
        """The same between so many ranks; 0 is nobody knows."""
        return replace(self, ranks=ranks) if ranks else self


@dataclass(frozen=True, slots=True)
class AllReduceSplit:
    """How the allreduces of a group become few: by percentages of their bytes, by the last index of each, by the most
    bytes of each, or `by` a rule, of which one knows the `network`. Keys are groups; "" is every group that has none of
    its own.
    """

    by: SplitBy = SplitBy.DEFAULT
    sizes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    indices: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    threshold: int | None = None  # bytes
    network: Network = Network()

    @staticmethod
    def for_group(table: Mapping[str, tuple[float, ...]], group: str) -> tuple[float, ...]:
        """The entry of a group, or the one for all."""
        return table.get(group, table.get("", ()))


class Deadline:
    """The moment after which work stops; polled by passes, folding and the outer loops of long work."""

    __slots__ = ("_clock", "_end", "seconds")

    def __init__(self, seconds: float | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._end = None if seconds is None else clock() + seconds

    def check(self, doing: str) -> None:
        """Raise R0003 if the time is over; `doing` names the pass or the step."""
        if self._end is not None and self._clock() > self._end:
            raise ResourceLimit(
                "R0003", f"the time limit of {self.seconds:g} s is reached in {doing}", hint="raise --timeout"
            )

    def remaining(self) -> float | None:
        """Seconds left, at least 0; None without a limit."""
        return None if self._end is None else max(0.0, self._end - self._clock())


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Time and memory, as asked for; `Deadline` starts to run when the work does."""

    timeout_seconds: float | None = None
    memory_bytes: int | None = None

    def deadline(self) -> Deadline:
        """A deadline that starts now."""
        return Deadline(self.timeout_seconds)

    def memory(self) -> MemoryLimit:
        """The limit given, or that of the machine."""
        return MemoryLimit(self.memory_bytes if self.memory_bytes is not None else default_memory_bytes())


@dataclass(frozen=True, slots=True)
class IterationsPerLoop:
    """What one run of a package repeats: the model, `count` times. `states` maps outputs to the inputs that they are in
    the next iteration; inputs `stepped` have a value for each.
    """

    count: int
    states: Mapping[str, str] = field(default_factory=dict)
    stepped: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ParseOptions:
    """What reading a model needs."""

    input_shape: Mapping[str, InputDims] = field(default_factory=dict)
    gears: Gears | None = None  # the inputs are those of `input_shape`, in its order
    out_nodes: tuple[str, ...] = ()
    static: bool = False
    fold_default_inputs: bool = False
    allow_hardlinks: bool = False
    framework: Framework | None = None  # None: by content
    input_format: str = ""  # that of the framework
    aipp: "AippConfig | None" = None
    signature: str = ""
    tag_set: tuple[str, ...] = ()
    zipmap: bool = True


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """Folding and the engine-neutral rewrites.

    A constant is folded if its result has at most `max_const_bytes` and all together let the weights grow by at most
    the factor `max_growth`. `fold_constants` is what the user asked for: below O1 nothing is folded anyway.
    """

    level: OoLevel = OoLevel.O2
    switches: PassSwitches = PassSwitches()
    fold_constants: bool = True
    remove_dead_branches: bool = True  # those of an If whose condition is constant
    quant_dumpable: bool = False  # QuantizeLinear and DequantizeLinear stay nodes: nothing computes on integers instead
    max_const_bytes: int = 16 * MIB
    max_growth: float = 1.1
    allreduce: AllReduceSplit = AllReduceSplit()
    loop: IterationsPerLoop | None = None
    precision: PrecisionOptions = PrecisionOptions()  # noqa: RUF009


@dataclass(frozen=True, kw_only=True)
class SplitOptions:
    """Engine placement."""

    level: OoLevel = OoLevel.O2
    switches: PassSwitches = PassSwitches()


@dataclass(frozen=True, kw_only=True)
class OptimizeOptions:
    """Formats and fusion."""

    level: OoLevel = OoLevel.O2
    switches: PassSwitches = PassSwitches()
    impl_mode: ImplMode = ImplMode.HIGH_PERFORMANCE
    graph_kernel: bool = True


@dataclass(frozen=True, kw_only=True)
class CompileOptions:
    """Kernel choice, streams and the memory plan."""

    level: OoLevel = OoLevel.O2
    switches: PassSwitches = PassSwitches()
    impl_mode: ImplMode = ImplMode.HIGH_PERFORMANCE
    reuse_memory: bool = True
    unshared: frozenset[str] = frozenset()  # nodes, and types of nodes, whose results have memory of their own
    single_stream: bool = False
    topo_sorting: TopoSortingMode = TopoSortingMode.STABLE_RDFS


@dataclass(frozen=True, kw_only=True)
class DumpOptions:
    """Where each stage writes its graph, and `passes` before and after they run; None writes nothing."""

    directory: Path | None = None
    stages: frozenset[Stage] = frozenset(Stage)
    passes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OpsModule:
    """A module of custom operators: its file, if it has one, the digest, which is what the package records of it, and
    the module or class that a Python caller gave.
    """

    name: str
    path: str
    sha256: str
    target: object = None


@dataclass(frozen=True, kw_only=True)
class ConvertOptions:
    """All that a conversion depends on but the model and the output."""

    soc: str = "Ascend910"
    parse: ParseOptions = ParseOptions()
    prepare: PrepareOptions = PrepareOptions()
    split: SplitOptions = SplitOptions()
    optimize: OptimizeOptions = OptimizeOptions()
    compile: CompileOptions = CompileOptions()
    limits: Limits = Limits()
    dump: DumpOptions = DumpOptions()
    export_compile_stat: int = 0
    skipped_passes: tuple[str, ...] = ()
    custom_ops: tuple[OpsModule, ...] = ()
    deterministic_level: int = 0
    status_check: bool = False
    sign: Path | None = None
    external_weight: ExternalWeight = ExternalWeight.INSIDE
    verify_ir: bool = False
    threads: int | None = None
    atc_cmdline: str = "atcpy convert"


# --------------------------------------------------------------------------------------------------------------------
# Readers: (option, text or natural value) -> value.  Each raises UsageError with ATC's code.


Reader: TypeAlias = Callable[[str, object], Any]


def _counted(count: int, word: str) -> str:
    """`1 gear`, `2 gears`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _expected(option: str, value: object, expected: str, hint: str = "", code: str = "E10001") -> UsageError:
    return UsageError(code, f'--{option}: "{value}" is not {expected}', where=Where(option=option), hint=hint)


def _text(option: str, value: object) -> str:
    if not isinstance(value, str):
        raise _expected(option, value, "a text", code="E10003")
    if not value.strip():
        raise UsageError("E10004", f"--{option} needs a value", where=Where(option=option))
    return value.strip()


_TRUE = frozenset({"1", "t", "true", "y", "yes", "on"})
_FALSE = frozenset({"0", "f", "false", "n", "no", "off"})


def read_bool(option: str, value: object) -> bool:
    """True or false, in any of ATC's spellings."""
    if isinstance(value, bool):
        return value
    if value in (0, 1):
        return value == 1
    word = _text(option, value).lower()
    if word not in _TRUE | _FALSE:
        raise UsageError("E10005", f'--{option}: "{value}" must be true or false', where=Where(option=option))
    return word in _TRUE


def read_zero_or_one(option: str, value: object) -> bool:
    """A switch that ATC writes 0 or 1."""
    if value in (0, 1) or value in ("0", "1"):
        return int(value) == 1
    raise UsageError("E10006", f'--{option}: "{value}" must be 0 or 1', where=Where(option=option))


def read_int(option: str, value: object, lo: int, hi: int) -> int:
    """A whole number from `lo` to `hi`."""
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d{1,18}\s*", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError("E10014", f'--{option}: "{value}" is not a whole number', where=Where(option=option))
    if not lo <= value <= hi:
        raise UsageError("E10013", f"--{option}: {value} is outside {lo}..{hi}", where=Where(option=option))
    return value


def read_float(option: str, value: object, lo: float, hi: float) -> float:
    """A number from `lo` to `hi`."""
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?\s*", value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError("E10014", f'--{option}: "{value}" is not a number', where=Where(option=option))
    if not lo <= value <= hi:
        raise UsageError("E10013", f"--{option}: {value:g} is outside {lo:g}..{hi:g}", where=Where(option=option))
    return float(value)


_UNITS = {"": 1, "K": KIB, "M": MIB, "G": 1024 * MIB, "T": 1024 * 1024 * MIB}


def read_size(option: str, value: object) -> int:
    """A number of bytes: 4096, 16M, 1.5G, 8GiB."""
    if isinstance(value, int) and not isinstance(value, bool):
        return read_int(option, value, 0, 2**60)
    match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,9})?)\s*([KMGT]?)(?:I?B)?", _text(option, value).upper())
    if match is None:
        hint = "write bytes, or a number with K, M, G or T: 512M, 8G"
        raise UsageError("E10014", f'--{option}: "{value}" is not a size', where=Where(option=option), hint=hint)
    return read_int(option, int(float(match[1]) * _UNITS[match[2]]), 0, 2**60)


_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


def read_seconds(option: str, value: object) -> float:
    """A time: 600, 90s, 10m, 2h."""
    if isinstance(value, str) and (match := re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([smh]?)\s*", value)):
        value = float(match[1]) * _SECONDS[match[2]]
    return read_float(option, value, 0, 1e9)


def read_names(option: str, value: object, separator: str = ",") -> tuple[str, ...]:
    """A list of names, in the order given, each once."""
    if isinstance(value, str):
        items = [item.strip() for item in value.split(separator)]
    elif isinstance(value, Iterable):
        items = [_text(option, item) for item in value]
    else:
        raise _expected(option, value, "a list of names", code="E10003")
    names = tuple(dict.fromkeys(item for item in items if item))
    if not names and value:
        raise UsageError("E10004", f"--{option} needs a value", where=Where(option=option))
    return names


def read_choice(option: str, value: object, choices: Mapping[str, Any]) -> Any:
    """One of a closed set, by its name; an enum member of the set is taken as it is."""
    if isinstance(value, Enum) and value in choices.values():
        return value
    word = _text(option, value)
    if word not in choices:
        hint = did_you_mean(word, choices) or "one of " + ", ".join(choices)
        raise _expected(option, word, "one of " + ", ".join(choices), hint)
    return choices[word]


def choice(choices: Mapping[str, Any]) -> Reader:
    """Return a reader of one of a closed set."""
    return lambda option, value: read_choice(option, value, choices)


def number(read: Callable[[str, object, Any, Any], Any], lo: float, hi: float) -> Reader:
    """Return a reader of a number from `lo` to `hi`: `read_int` or `read_float`."""
    return lambda option, value: read(option, value, lo, hi)


def read_path(option: str, value: object) -> Path:
    """A path."""
    return Path(value) if isinstance(value, os.PathLike) else Path(_text(option, value))


SOCS: tuple[str, ...] = (
    "Ascend310", "Ascend310B1", "Ascend310B2", "Ascend310B3", "Ascend310B4",
    "Ascend310P1", "Ascend310P3", "Ascend310P5", "Ascend310P7",
    "Ascend310P3Vir01", "Ascend310P3Vir02", "Ascend310P3Vir04", "Ascend310P3Vir08",
    "Ascend610", "Ascend910", "Ascend910A", "Ascend910B", "Ascend910ProA", "Ascend910ProB", "Ascend910PremiumA",
    "Ascend910B1", "Ascend910B2", "Ascend910B2C", "Ascend910B3", "Ascend910B4", "Ascend910B4-1",
    "Ascend910_9362", "Ascend910_9372", "Ascend910_9381", "Ascend910_9382", "Ascend910_9391", "Ascend910_9392",
    "Ascend950", "BS9SX1AA",
)  # fmt: skip
_BY_FOLDED_SOC = {soc.lower(): soc for soc in SOCS}


def read_soc(option: str, value: object) -> str:
    """The canonical name of a chip; the case does not matter."""
    word = _text(option, value)
    if re.fullmatch(r"ascend035[ab]?", word.lower()):
        why = "it takes single-operator firmware only, which ATC makes with --mode=30"
        raise Unsupported("E10055", f"{word} is not supported: {why}", where=Where(option=option))
    if word.lower() in _BY_FOLDED_SOC:
        return _BY_FOLDED_SOC[word.lower()]
    # The 950 family is named <chip>_<NPU>, with no list of either.
    if match := re.fullmatch(r"ascend950([a-z0-9]{0,8})(_[a-z0-9-]{1,16})?", word.lower()):
        return "Ascend950" + (match[1] + (match[2] or "")).upper()
    hint = did_you_mean("Ascend" + word if word[:1].isdigit() else word, SOCS)
    raise _expected(option, word, "a chip that is known", hint or "as npu-smi prints it: Ascend310P3, Ascend910B3 …")


def read_input_shape(option: str, value: object) -> dict[str, InputDims]:
    """`name:dim,dim;name:dim` or a mapping; a dim is a size, -1 (any) or `lo~hi`; no dims is a scalar.

    The name ends at the last colon, so `x:0:1,3` names `x:0`.
    """
    if isinstance(value, Mapping):
        return {str(name): _read_dims(option, name, dims) for name, dims in value.items()}
    text = value if isinstance(value, str) else ""
    if not isinstance(value, str) or not text.strip():
        _text(option, value)
    shapes: dict[str, InputDims] = {}
    start = 0
    for item in text.split(";"):
        if item.strip():
            name, colon, dims = item.rpartition(":")
            if not colon or not name.strip():
                hint = f'--{option}="x:1,3,224,224;y:1"'
                raise _unreadable(option, item.strip(), start + 1, "an item is name:sizes", hint)
            if name.strip() in shapes:
                raise _unreadable(option, item.strip(), start + 1, f'"{name.strip()}" is given twice')
            shapes[name.strip()] = _parse_dims(option, name.strip(), dims, start + len(name) + 2)
        start += len(item) + 1
    if not shapes:
        raise UsageError("E10004", f"--{option} needs a value", where=Where(option=option))
    return shapes


def _unreadable(option: str, part: str, column: int, why: str, hint: str = "") -> UsageError:
    what = f'--{option}: cannot read "{part}" at character {column}: {why}'
    return UsageError("E10002", what, where=Where(option=option, column=column), hint=hint)


def _parse_dims(option: str, name: str, text: str, column: int) -> InputDims:
    """The sizes of one input; `column` is the 1-based position of `text` in the option's value."""
    if not text.strip():
        return ()
    dims: list[InputDim] = []
    for i, part in enumerate(text.split(",")):
        match = re.fullmatch(r"\s*(-?\d{1,19})\s*(?:~\s*(-?\d{1,19})\s*)?", part)
        if match is None:
            raise _unreadable(option, part.strip(), column, "a size is a whole number, -1 or lo~hi")
        lo, hi = int(match[1]), None if match[2] is None else int(match[2])
        if match[2] is not None and hi is not None and (lo < 0 or (hi != ANY_SIZE and hi < lo)):
            raise _unreadable(option, part.strip(), column, "a range goes from its smaller to its larger end")
        dims.append(_checked_dim(option, name, i, lo if hi is None else DimRange(lo, None if hi == ANY_SIZE else hi)))
        column += len(part) + 1
    return _checked_rank(option, name, dims)


def _read_dims(option: str, name: object, dims: object) -> InputDims:
    if not isinstance(name, str) or not name:
        raise _expected(option, name, "the name of an input", code="E10003")
    if isinstance(dims, str):
        return _parse_dims(option, name, dims, 1)
    if isinstance(dims, int | DimRange) or not isinstance(dims, Iterable):
        raise _expected(option, dims, f'a list of sizes for "{name}"', code="E10003")
    sizes: list[InputDim] = []
    for i, dim in enumerate(dims):
        if isinstance(dim, str):
            sizes += _parse_dims(option, name, dim, 1)
        elif dim is None:
            sizes.append(ANY_SIZE)
        elif isinstance(dim, DimRange):
            sizes.append(_checked_dim(option, name, i, dim))
        elif isinstance(dim, bool) or not hasattr(dim, "__index__"):  # numpy integers are sizes too
            raise _expected(option, dim, f'a size for "{name}"', code="E10003")
        else:
            sizes.append(_checked_dim(option, name, i, int(dim)))
    return _checked_rank(option, name, sizes)


def _checked_dim(option: str, name: str, index: int, dim: InputDim) -> InputDim:
    if isinstance(dim, int) and dim <= 0 and dim != ANY_SIZE:
        hint = "give its size, -1 for any, or a range such as 1~8"
        what = f"--{option}: {name} dimension {index} is {dim}"
        raise UsageError("E10011", what, where=Where(option=option, value=name), hint=hint)
    largest = dim if isinstance(dim, int) else dim.hi or dim.lo
    if largest > MAX_DIM:
        what = f"--{option}: {name} dimension {index}: {largest} is outside 1..{MAX_DIM}"
        raise UsageError("E10013", what, where=Where(option=option, value=name))
    return dim


def _checked_rank(option: str, name: str, dims: list[InputDim]) -> InputDims:
    if len(dims) > MAX_RANK:
        what = f"--{option}: {name} has {len(dims)} dimensions, outside 0..{MAX_RANK}"
        raise UsageError("E10013", what, where=Where(option=option, value=name))
    return tuple(dims)


MAX_GEARS = 100


def _read_gears(option: str, value: object, separator: str) -> tuple[tuple[int, ...], ...]:
    """Rows of sizes: texts with a separator between rows and commas inside them, or a list of numbers or lists."""
    rows = [row for row in _text(option, value).split(separator) if row.strip()] if isinstance(value, str) else value
    if isinstance(rows, bytes | Mapping) or not isinstance(rows, Iterable):
        raise _expected(option, value, "a list of sizes", code="E10003")
    gears = tuple(tuple(_sizes_of_gear(option, row)) for row in rows)
    where = Where(option=option)
    if not 2 <= len(gears) <= MAX_GEARS:
        code = "E10035" if len(gears) < 2 else "E10036"
        hint = "fix the shape: --input_shape" if len(gears) < 2 else "list fewer, or keep the dims open"
        raise UsageError(
            code, f"--{option}: {_counted(len(gears), 'gear')}; 2 to {MAX_GEARS} are possible", where=where, hint=hint
        )
    first_with: dict[tuple[int, ...], int] = {}
    for index, gear in enumerate(gears):
        if len(gear) != len(gears[0]):
            what = f"--{option}: gear {index} has {_counted(len(gear), 'number')}, gear 0 has {len(gears[0])}"
            raise UsageError("E10037", what, where=where)
        if min(gear, default=0) <= 0:
            raise UsageError(
                "E10038", f"--{option}: gear {index} is {min(gear, default=0)}", where=where, hint="sizes begin at 1"
            )
        if first_with.setdefault(gear, index) != index:
            what = f"--{option}: gears {first_with[gear]} and {index} are the same"
            raise UsageError("E10039", what, where=where)
    return gears


def _sizes_of_gear(option: str, row: object) -> Iterator[int]:
    parts: object = [part for part in row.split(",") if part.strip()] if isinstance(row, str) else row
    for part in parts if isinstance(parts, Iterable) else (parts,):
        number = int(part) if hasattr(part, "__index__") and not isinstance(part, bool) else part  # of numpy, too
        yield read_int(option, number, -MAX_DIM, MAX_DIM)


def read_batches(option: str, value: object) -> tuple[tuple[int, ...], ...]:
    """`1,2,4`, or a list of numbers: gears of one number."""
    return _read_gears(option, value, ",")


def read_dims(option: str, value: object) -> tuple[tuple[int, ...], ...]:
    """`1,16;1,32`, or a list of lists."""
    return _read_gears(option, value, ";")


def read_images(option: str, value: object) -> tuple[tuple[int, ...], ...]:
    """`416,416;832,832`, or a list of pairs: height and width."""
    gears = read_dims(option, value)
    if len(gears[0]) != 2:
        what = f'--{option}: gear 0 "{",".join(map(str, gears[0]))}" has {_counted(len(gears[0]), "number")}, needs H,W'
        raise UsageError("E10020", what, where=Where(option=option))
    return gears


def read_insert_op_conf(option: str, value: object) -> "AippConfig":
    """A file of AIPP in ATC's textproto."""
    from atcpy.aipp.reader import read_aipp

    return read_aipp(str(value) if isinstance(value, os.PathLike) else _text(option, value))


def _aipp(value: Mapping[str, Any]) -> "AippConfig | None":
    """The configuration of AIPP. Raises UsageError where it and the gears exclude each other."""
    config: AippConfig | None = value["insert_op_conf"]
    if config is None:
        return None
    if value["dynamic_dims"]:
        what = "--dynamic_dims and --insert_op_conf cannot be used together"
        hint = "--dynamic_batch_size, or --dynamic_image_size"
        raise UsageError("E10001", what, where=Where(option="insert_op_conf"), hint=hint)
    if value["dynamic_image_size"]:
        raise_all([problem for block in config.blocks for problem in block.problems_with_image_gears()])
    return config


def _batches_text(rows: Sequence[Sequence[int]]) -> str:
    return ",".join(str(row[0]) for row in rows)


def _rows_text(rows: Sequence[Sequence[int]]) -> str:
    return ";".join(",".join(map(str, row)) for row in rows)


_GEAR_OPTIONS = {
    "dynamic_batch_size": GearKind.BATCH,
    "dynamic_image_size": GearKind.IMAGE,
    "dynamic_dims": GearKind.DIMS,
}
_ANY_DIMS = "--dynamic_dims lists sizes of any dims"


def _gears(value: Mapping[str, Any]) -> Gears | None:
    """The gears of a conversion. Raises UsageError where --input_shape does not leave open what they list."""
    options = [option for option in _GEAR_OPTIONS if value[option]]
    if not options:
        return None
    option, shapes = options[0], value["input_shape"]
    where = Where(option=option)
    if len(options) > 1:
        what = f"--{option} and --{options[1]} cannot be used together"
        raise UsageError("E10009", what, where=where, hint=_ANY_DIMS)
    if not shapes:
        hint = '--input_shape="name:-1,3,224,224": -1 where a size varies'
        raise UsageError("E10004", f"--{option} needs --input_shape", where=where, hint=hint)
    for name, dims in shapes.items():
        if ranges := [dim for dim in dims if isinstance(dim, DimRange)]:
            what = f'--{option}: {name} must have -1 where it varies, not "{ranges[0]}"'
            raise UsageError("E10040", what, where=where)
    gears = Gears(_GEAR_OPTIONS[option], value[option])
    opened = {name: tuple(axis for axis, dim in enumerate(dims) if dim == ANY_SIZE) for name, dims in shapes.items()}
    opened = {name: axes for name, axes in opened.items() if axes}
    match gears.kind:
        case GearKind.BATCH:
            _check_batches(option, opened, shapes)
        case GearKind.IMAGE:
            framework = value["framework"]
            _check_images(
                option, opened, shapes, value["input_format"] or ("NHWC" if framework is Framework.TENSORFLOW else "")
            )
        case GearKind.DIMS:
            _check_dims(option, opened, len(gears.rows[0]))
    return gears


def _read_states(option: str, value: object) -> dict[str, str]:
    """`h2=h;c2=c`, or a dict: an input for each output."""
    where = Where(option=option)
    pairs: Iterable[tuple[object, object]]
    if isinstance(value, Mapping):
        pairs = value.items()
    else:
        parts = read_names(option, value, ";")
        if bad := next((part for part in parts if "=" not in part), None):
            what = f'--{option}: "{bad}" is no pair of an output and an input'
            raise UsageError("E10001", what, where=where, hint="OUT=IN")
        pairs = (part.split("=", 1) for part in parts)  # type: ignore[misc]
    states: dict[str, str] = {}
    for output, input_ in pairs:
        new, old = _text(option, output), _text(option, input_)
        if new in states:
            raise UsageError("E10001", f'--{option}: output "{new}" is bound twice', where=where)
        if old in states.values():
            raise UsageError("E10001", f'--{option}: two outputs are bound to input "{old}"', where=where)
        states[new] = old
    return states


def _loop(value: Mapping[str, Any]) -> IterationsPerLoop | None:
    """What one run repeats. Raises UsageError for options that do not go together."""
    count = value["iterations_per_loop"]
    if count == 1:
        if option := next((name for name in ("state", "stepped") if value[name]), None):
            what = f"--{option}: one run of the package is one run of the model"
            raise UsageError("E10001", what, where=Where(option=option), hint="--iterations_per_loop N")
        return None
    if gears := next((name for name in _GEAR_OPTIONS if value[name]), None):
        what = f"--iterations_per_loop and --{gears} cannot be used together"
        hint = "leave the iterations to run --iterations"
        raise UsageError("E10001", what, where=Where(option="iterations_per_loop"), hint=hint)
    return IterationsPerLoop(count, value["state"], value["stepped"])


def _check_batches(option: str, opened: Mapping[str, Sequence[int]], shapes: Mapping[str, InputDims]) -> None:
    where = Where(option=option)
    if not opened:
        name, dims = next(iter(shapes.items()))
        hint = f'--input_shape="{name}:{",".join(("-1", *map(str, dims[1:])))}"'
        raise UsageError("E10031", f"--{option}: no input has -1 at dimension 0", where=where, hint=hint)
    for name, axes in opened.items():
        if axes != (0,):
            what = f"--{option}: {name} has -1 at dimension {axes[-1]}; only dimension 0 may vary"
            raise UsageError("E10018", what, where=where, hint=_ANY_DIMS)


_IMAGE_AXES = {"NCHW": ((2, 3),), "NHWC": ((1, 2),), "": ((2, 3), (1, 2))}


def _check_images(option: str, opened: Mapping[str, Sequence[int]], shapes: Mapping[str, InputDims], form: str) -> None:
    where = Where(option=option)
    if not opened:
        raise UsageError("E10019", f"--{option}: no input has -1 at H and W", where=where, hint=_ANY_DIMS)
    for name, axes in opened.items():
        if len(shapes[name]) != 4 or axes not in _IMAGE_AXES.get(form, ()):
            dims = ",".join(map(str, shapes[name]))
            what = f"--{option}: {name} {dims}: only H and W of {form or 'NCHW or NHWC'} may be -1, and both must"
            raise UsageError("E10019", what, where=where, hint=f"{_ANY_DIMS}; --input_format names the layout")


def _check_dims(option: str, opened: Mapping[str, Sequence[int]], numbers: int) -> None:
    count = sum(map(len, opened.values()))
    if count != numbers:
        listed = ", ".join(f"{name} {list(axes)}" for name, axes in opened.items()) or "none"
        what = f"--{option}: {_counted(numbers, 'number')} a gear, but {count} dims are -1 ({listed})"
        raise UsageError("E10045", what, where=Where(option=option))


def _in_order_of_names(values: dict[str, Any]) -> None:
    """Sort the inputs of --input_shape and the numbers of --dynamic_dims alike, as the command line is recorded."""
    shapes: Mapping[str, InputDims] = values["input_shape"]
    owners = [name for name, dims in shapes.items() for dim in dims if dim == ANY_SIZE]
    order = sorted(range(len(owners)), key=owners.__getitem__)
    rows = values["dynamic_dims"]
    if len(rows[0]) == len(order):
        values["dynamic_dims"] = tuple(tuple(row[column] for column in order) for row in rows)
        values["input_shape"] = dict(sorted(shapes.items()))


def _on_off(option: str, name: str, word: object, where: Where, code: str) -> bool:
    if word not in ("on", "off"):
        raise UsageError(code, f'--{option}: {name}: "{word}" is not on or off', where=where)
    return word == "on"


def _pairs(option: str, value: object, form: str) -> Iterator[tuple[str, str]]:
    """The items of `name:word;name:word`; the name ends at the last colon."""
    for item in filter(None, map(str.strip, _text(option, value).split(";"))):
        name, _, word = item.rpartition(":")
        if not name.strip():
            raise _expected(option, item, form)
        yield name.strip(), word.strip()


def read_switches(option: str, value: object) -> PassSwitches:
    """`Pass:on;Pass:off`, or a mapping of pass to bool."""
    if isinstance(value, PassSwitches):
        return value
    if isinstance(value, Mapping):
        return PassSwitches(named={str(name): read_bool(option, on) for name, on in value.items()})
    pairs = _pairs(option, value, "Pass:on or Pass:off")
    return PassSwitches(
        named={name: _on_off(option, name, word, Where(option=option), "E10001") for name, word in pairs}
    )


def read_limits(option: str, value: object) -> dict[str, int]:
    """`Pass:7;Other:0`, or a mapping of pass to number."""
    pairs = value.items() if isinstance(value, Mapping) else _pairs(option, value, "Pass:NUMBER")
    return {str(name): read_int(option, count, 0, 2**31) for name, count in pairs}


def _file_of(read: Callable[[str, str], Any]) -> Reader:
    """Return a reader of the file that a path names; what was read before is taken as it is."""

    def read_value(option: str, value: object) -> Any:
        if isinstance(value, TextFile | CustomDtypesFile | MixList):
            return value
        return read(option, str(read_path(option, value)))

    return read_value


def _sha256_text(file: Any) -> str:
    return "sha256:" + str(file.sha256)


def _mode_of(modes: Mapping[str, PrecisionMode]) -> Reader:
    def read_mode(option: str, value: object) -> Any:
        refuse_hifloat8(option, value)
        return read_choice(option, value, modes)

    return read_mode


def _mode_text(modes: Mapping[str, PrecisionMode]) -> Callable[[PrecisionMode], str]:
    return {mode: name for name, mode in modes.items()}.__getitem__


def _read_keep(option: str, value: object) -> tuple[str, ...]:
    items = value if isinstance(value, list | tuple) else [value]
    names = tuple(dict.fromkeys(name for item in items for name in read_names(option, item)))
    for name in names:
        check_type_name(option, name, Where(option=option))
    return names


@dataclass(frozen=True, slots=True)
class SwitchFile:
    """A fusion switch file: what it says, and its digest, which is what the package records of it."""

    switches: PassSwitches
    sha256: str


def read_switch_file(option: str, value: object) -> SwitchFile:
    """A fusion switch file in either of ATC's forms: `Pass:off` lines, or JSON with the keys Switch and Priority."""
    path = str(value) if isinstance(value, os.PathLike) else _text(option, value)
    text, sha256 = read_text_file(path)
    switches = _json_switches(option, path, text) if text.lstrip().startswith("{") else _plain(option, path, text)
    return SwitchFile(switches, sha256)


def read_custom_ops(option: str, value: object) -> tuple[OpsModule, ...]:
    """`a.py,b.py`, or a list of paths, modules and registered classes."""
    if isinstance(value, str):
        items: list[object] = [item.strip() for item in _text(option, value).split(",") if item.strip()]
    elif isinstance(value, list | tuple):
        items = [part for item in value for part in (item.split(",") if isinstance(item, str) else (item,))]
    else:
        items = [value]
    modules = [item if isinstance(item, OpsModule) else _ops_module(option, item) for item in items]
    return tuple({(module.path, module.target): module for module in modules}.values())


def _ops_module(option: str, item: object) -> OpsModule:
    if isinstance(item, str | os.PathLike):
        path = os.path.realpath(_text(option, os.fspath(item)))
        return OpsModule(str(item), path, _file_sha256(path, str(item)))
    name = getattr(item, "__qualname__", None) or getattr(item, "__name__", None)
    if not isinstance(name, str):
        raise _expected(option, item, "the path of a module, a module or a registered class", code="E10003")
    file = getattr(sys.modules.get(getattr(item, "__module__", name)), "__file__", None)
    path = os.path.realpath(file) if file else ""
    return OpsModule(name, path, _file_sha256(path, path) if path else "", item)


def _file_sha256(path: str, shown: str) -> str:
    try:
        return hashlib.sha256(read_file(path)).hexdigest()
    except OSError as error:
        raise_os_error(error, shown)


def _ops_text(modules: tuple[OpsModule, ...]) -> str:
    return ",".join(sorted("sha256:" + module.sha256 if module.sha256 else module.name for module in modules))


def _plain(option: str, path: str, text: str) -> PassSwitches:
    named: dict[str, bool] = {}
    groups: dict[FusionGroup, bool] = {}
    for number, line in config_lines(text):
        name, _, word = line.rpartition(":")
        where = Where(file=path, line=number)
        if not name.strip():
            raise UsageError("E20003", f'{path}:{number}: "{line}" is not Pass:on or Pass:off', where=where)
        on = _on_off(option, name.strip(), word.strip(), where, "E20003")
        if name.strip() == "ALL":
            groups = dict.fromkeys(FusionGroup, on)
        else:
            named[name.strip()] = on
    return PassSwitches(named=named, groups=groups)


_PRIORITIES = {"Top": range(1000), "Main": range(1000, 2000), "Down": range(2000, 3000)}


def _json_switches(option: str, path: str, text: str) -> PassSwitches:
    where = Where(file=path)
    root = members_of(path, "the file", parse_config(path, text), ("Switch", "Priority"))
    switch = members_of(path, "Switch", root.get("Switch", {}), tuple(group.value for group in FusionGroup))
    named: dict[str, bool] = {}
    groups: dict[FusionGroup, bool] = {}
    for group in FusionGroup:
        for name, word in members_of(path, group.value, switch.get(group.value, {}), None).items():
            on = _on_off(option, name, word, where, "E20003")
            if name == "ALL":
                groups[group] = on
            else:
                named[name] = on
    return PassSwitches(named=named, groups=groups, priorities=_priorities(path, root.get("Priority", {})))


def _priorities(path: str, record: object) -> dict[str, int]:
    """The numbers of the key Priority: texts, within the thousand of their part, each pass once."""
    graph = FusionGroup.GRAPH.value
    parts = members_of(path, "Priority", record, (graph,)).get(graph, {})
    members_of(path, graph, parts, tuple(_PRIORITIES))
    numbers: dict[str, int] = {}
    for part, bounds in _PRIORITIES.items():
        for name, text in members_of(path, part, parts.get(part, {}), None).items():
            where = Where(file=path)
            if not (isinstance(text, str) and text.isdecimal() and len(text) < 5 and int(text) in bounds):
                what = f'{path}: {part}: {name}: "{text}" is no text of a number {bounds[0]}..{bounds[-1]}'
                raise UsageError("E20003", what, where=where)
            if name in numbers:
                raise UsageError("E20003", f"{path}: {part}: {name} has a priority already", where=where)
            numbers[name] = int(text)
    return numbers


# --------------------------------------------------------------------------------------------------------------------
# The table


def _canonical(value: object) -> str:
    """Return the text of a value, as the package records it."""
    match value:
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case OoLevel():
            return value.name
        case Enum():
            return str(value.value)
        case tuple():
            return ",".join(value)
    return str(value)


@dataclass(frozen=True, slots=True)
class Option:
    """One option: `text` gives its canonical spelling.  What cannot change the package is not `recorded` in it."""

    name: str
    read: Reader
    default: Any
    help: str
    text: Callable[[Any], str] = _canonical
    recorded: bool = True
    aliases: tuple[str, ...] = ()
    repeatable: bool = False


def _shape_text(shapes: Mapping[str, InputDims]) -> str:
    return ";".join(f"{name}:{','.join(str(dim) for dim in dims)}" for name, dims in sorted(shapes.items()))


def _switch_text(switches: PassSwitches) -> str:
    return ";".join(f"{name}:{'on' if on else 'off'}" for name, on in sorted(switches.named.items()))


def _zero_or_one(is_on: bool) -> str:
    return str(int(is_on))


_IMPL_MODES = {
    "high_performance": ImplMode.HIGH_PERFORMANCE,
    "high_precision": ImplMode.HIGH_PRECISION,
    "high_performance_for_all": ImplMode.HIGH_PERFORMANCE,
    "high_precision_for_all": ImplMode.HIGH_PRECISION,
}
_SPLITS = {split.value: split for split in SplitBy}
_LEVELS = {level.name: level for level in OoLevel}
_TOPO_SORTING_MODES = {mode.value: mode for mode in TopoSortingMode}
_FRAMEWORKS = {framework.value: framework for framework in Framework}
_OTHER_FRAMEWORKS = {"0": "Caffe", "1": "MindSpore"}
INPUT_FORMATS = ("NHWC", "NCHW", "ND", "NDHWC", "NCDHW")


def read_framework(option: str, value: object) -> Framework:
    """ONNX or TensorFlow, by ATC's number; ATC's other frameworks have their own way out."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    where = Where(option=option)
    if isinstance(text, str) and text in _OTHER_FRAMEWORKS:
        hint = "convert the model to ONNX first, and give that: --framework=5"
        raise Unsupported(
            "E10055", f"--{option}={text}: {_OTHER_FRAMEWORKS[text]} is not supported", where=where, hint=hint
        )
    if isinstance(text, str) and text not in _FRAMEWORKS:
        raise UsageError("E10007", f"--{option}: {text} is unknown", where=where, hint="5 is ONNX, 3 is TensorFlow")
    framework: Framework = read_choice(option, text, _FRAMEWORKS)
    return framework


_EXTERNAL_WEIGHTS = {how.value: how for how in ExternalWeight}


def read_external_weight(option: str, value: object) -> ExternalWeight:
    """0, 1 or 2, as text or as a number."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    how: ExternalWeight = read_choice(option, text, _EXTERNAL_WEIGHTS)
    return how


_STAGES = {stage.value: stage for stage in Stage}


def _read_stages(option: str, value: object) -> frozenset[Stage]:
    names = value if isinstance(value, frozenset) else read_names(option, value)
    return frozenset(read_choice(option, name, _STAGES) for name in names)


def _read_splits(option: str, value: object) -> Mapping[str, tuple[float, ...]]:
    """`20,80`, or `group:20,80;other:100`; a list of numbers, or a mapping of groups to those."""
    parts: Iterable[tuple[object, object]]
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, str):
        texts = (part.rpartition(":") for part in _text(option, value).split(";") if part.strip())
        parts = ((group.strip(), numbers) for group, _, numbers in texts)
    else:
        parts = (("", value),)
    return {str(group): _read_numbers(option, numbers) for group, numbers in parts}


def _read_numbers(option: str, value: object) -> tuple[float, ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, Iterable):
        raise UsageError("E10014", f'--{option}: "{value}" is no list of numbers', where=Where(option=option))
    return tuple(read_float(option, item, -1e9, 1e9) for item in items)


def _splits_text(table: Mapping[str, tuple[float, ...]]) -> str:
    parts = (",".join(f"{number:g}" for number in numbers) for numbers in table.values())
    return ";".join(f"{group}:{part}" if group else part for group, part in zip(table, parts, strict=True))


_MAX_RANKS = 1_000_000


def _read_deterministic_level(option: str, value: object) -> int:
    """ATC's levels: 1 is true of all packages, 3 of none."""
    level = read_int(option, value, 0, 3)
    if level == 3:
        what = f"--{option}: 3 is not supported: products of one row are summed in another order than those of several"
        hint = f"--{option}=2: the same results wherever a row is, for one size of the batch"
        raise Unsupported("E10055", what, where=Where(option=option), hint=hint)
    return level


def _read_network(option: str, value: object) -> Network:
    """`alpha=16e-6,ranks=8`, or a mapping; what is not given stays as it is."""
    if isinstance(value, Network):
        return value
    if isinstance(value, Mapping):
        fields = dict(value)
    else:
        parts = filter(None, map(str.strip, _text(option, value).split(",")))
        fields = {name.strip(): number.strip() for name, _, number in (part.partition("=") for part in parts)}
    for name, number in fields.items():
        if name == "ranks":
            fields[name] = read_int(option, number, 1, _MAX_RANKS)
        elif name in ("alpha", "beta", "gamma"):
            fields[name] = read_float(option, number, 0, 1e3)
        elif name == "speed":
            fields[name] = read_float(option, number, 1, 1e18)
        else:
            raise _expected(option, name, "alpha, beta, gamma, ranks or speed", "as alpha=16e-6,beta=3e-10,ranks=8")
    return Network(**fields)


def _network_text(network: Network) -> str:
    return ",".join(f"{name}={number!r}" for name, number in asdict(network).items())


_TABLE = (
    Option("soc", read_soc, "Ascend910", "chip to compile for", aliases=("soc_version",)),
    Option("input_shape", read_input_shape, {}, 'shapes of inputs, "x:1,3,224,224;y:1~8,-1"', _shape_text),
    Option("dynamic_batch_size", read_batches, (), 'gears: the batches to compile for, "1,2,4,8"', _batches_text),
    Option("dynamic_image_size", read_images, (), 'gears: heights and widths, "416,416;832,832"', _rows_text),
    Option("dynamic_dims", read_dims, (), "gears: the sizes of all dims that are -1 in --input_shape", _rows_text),
    Option(
        "out_nodes",
        lambda option, value: read_names(option, value, ";"),
        (),
        'the values that become outputs, "node:0;node:1" or output names',
        ";".join,
    ),
    Option(
        "iterations_per_loop",
        number(read_int, 1, 2**31 - 1),
        1,
        "how often one run of the package runs the model, as GE's sink mode",
    ),
    Option(
        "state",
        _read_states,
        {},
        'with --iterations_per_loop: outputs that are inputs of the next iteration, "h2=h;c2=c"',
        lambda states: ";".join(f"{new}={old}" for new, old in sorted(states.items())),
    ),
    Option(
        "stepped",
        lambda option, value: read_names(option, value, ";"),
        (),
        'with --iterations_per_loop: inputs that have a value for each iteration, "x;y"',
        lambda names: ";".join(sorted(names)),
    ),
    Option("framework", read_framework, None, "5 for ONNX, 3 for TensorFlow; default: by content"),
    Option(
        "input_format",
        choice({name: name for name in INPUT_FORMATS}),
        "",
        "what the package calls the layout of the inputs: NHWC (TensorFlow's), NCHW (ONNX's), ND, NDHWC or NCDHW",
    ),
    Option(
        "insert_op_conf",
        read_insert_op_conf,
        None,
        "file of AIPP, as ATC's: inputs become pictures of bytes, and the package converts them",
        lambda config: "sha256:" + config.sha256,
    ),
    Option("signature", _text, "", "SavedModel: which of its signatures; default: serving_default"),
    Option("tag_set", read_names, (), "SavedModel: the tags of its graph; default: serve"),
    Option("zipmap", read_bool, True, "give scores as ZipMap does, a dict of each row by label; without, as a tensor"),
    Option("fold_default_inputs", read_bool, False, "make inputs that have a default constants"),
    Option("static", read_bool, False, "refuse a model with an open dimension"),
    Option("oo_level", choice(_LEVELS), OoLevel.O2, "how much is optimised, O0 to O3"),
    Option("oo_constant_folding", read_bool, True, "false: what depends on constants only is computed at run time"),
    Option("oo_dead_code_elimination", read_bool, True, "false: both branches of an If with a constant condition stay"),
    Option(
        "quant_dumpable",
        read_zero_or_one,
        False,
        "1: QuantizeLinear and DequantizeLinear stay nodes of their own, computed in floats",
        _zero_or_one,
    ),
    Option("skip_pass", read_names, (), "passes to leave out", lambda names: ",".join(sorted(names))),
    Option(
        "fusion_switch_file",
        read_switch_file,
        None,
        "file that switches passes on and off, as ATC's",
        lambda file: "sha256:" + file.sha256,
    ),
    Option("optimization_switch", read_switches, PassSwitches(), '"Pass:on;Pass:off"; beats the file', _switch_text),
    Option(
        "pass_limit",
        read_limits,
        {},
        '"Pass:7": rewrite only its first so many matches; for finding faults',
        lambda limits: ";".join(f"{name}:{count}" for name, count in sorted(limits.items())),
    ),
    Option(
        "op_select_implmode",
        choice(_IMPL_MODES),
        ImplMode.HIGH_PERFORMANCE,
        "high_precision turns Winograd and approximations off",
    ),
    Option(
        "precision_mode",
        _mode_of(PRECISION_MODES),
        None,
        "what becomes of float32: force_fp16, force_fp32, cube_fp16in_fp32out, allow_fp32_to_fp16, allow_fp32_to_bf16, "
        "allow_mix_precision_fp16, allow_mix_precision_bf16, must_keep_origin_dtype (the default)",
        _mode_text(PRECISION_MODES),
    ),
    Option(
        "precision_mode_v2",
        _mode_of(PRECISION_MODES_V2),
        None,
        "the same by newer names: origin, fp16, cube_fp16in_fp32out, mixed_float16, mixed_bfloat16",
        _mode_text(PRECISION_MODES_V2),
    ),
    Option(
        "keep_dtype",
        _file_of(read_keep_file),
        None,
        "file of nodes, and of OpType::T, that keep their types",
        _sha256_text,
    ),
    Option(
        "keep_fp32",
        _read_keep,
        (),
        'nodes that keep their types, patterns of them, and OpType::T: "/head/*,OpType::Softmax"; repeatable',
        repeatable=True,
    ),
    Option(
        "customize_dtypes",
        _file_of(read_customized),
        None,
        "file of lines NODE::InputDtype:float16,OutputDtype:float32; beats --keep_dtype",
        _sha256_text,
    ),
    Option(
        "modify_mixlist",
        _file_of(read_mix_list),
        None,
        "JSON file that changes the lists of a mixed mode",
        _sha256_text,
    ),
    Option(
        "is_weight_clip", read_zero_or_one, True, "0: lowered weights that are too large become infinite", _zero_or_one
    ),
    Option(
        "output_type",
        read_output_types,
        (),
        'type of all outputs, FP16, or by the entries of --out_nodes, "node:0:FP16;other:0:FP32"',
        output_types_text,
    ),
    Option(
        "input_fp16_nodes",
        lambda option, value: read_names(option, value, ";"),
        (),
        'inputs that are fed as float16, "a;b"',
        ";".join,
    ),
    Option("enable_graph_kernel", read_bool, None, "fuse elementwise ops into graph kernels; on from O2"),
    Option("disable_reuse_memory", read_zero_or_one, False, "1: no activation shares memory", _zero_or_one),
    Option(
        "no_reuse_mem",
        read_names,
        (),
        "nodes and types of nodes whose results share no memory, as ATC's OP_NO_REUSE_MEM",
        lambda names: ",".join(sorted(names)),
    ),
    Option("enable_single_stream", read_bool, False, "no branches beside each other"),
    Option(
        "topo_sorting_mode",
        choice(_TOPO_SORTING_MODES),
        TopoSortingMode.STABLE_RDFS,
        "order in which nodes run: 0 breadth first, 1 depth first, 2 from the results back, 3 as in the model",
    ),
    Option(
        "external_weight",
        read_external_weight,
        ExternalWeight.INSIDE,
        "1: weights in files of their own, in the folder weight beside the package; 2: all in one file there",
    ),
    Option(
        "status_check",
        read_zero_or_one,
        False,
        "1: runs end at the first node that computes NaN or infinity from numbers",
        _zero_or_one,
    ),
    Option(
        "deterministic_level",
        _read_deterministic_level,
        0,
        "2: rows of the same numbers have the same results, wherever they are; refused for nodes that differ",
    ),
    Option("max_const", read_size, 16 * MIB, "largest constant that folding may make, as 1M"),
    Option("max_growth", number(read_float, 0, 1000), 1.1, "how far folding may let the weights grow"),
    Option(
        "allreduce_split",
        choice(_SPLITS),
        SplitBy.DEFAULT,
        "how allreduces are put together: default (96.54 % of the bytes first), or auto by the model of costs",
    ),
    Option(
        "allreduce_split_size",
        _read_splits,
        {},
        'percentages of the bytes of each collective, "60,20,20", or for a group "tp:50,50"',
        _splits_text,
    ),
    Option(
        "allreduce_split_index",
        _read_splits,
        {},
        'the last allreduce of each collective, from 0: "20,100,159"',
        _splits_text,
        aliases=("allreduce_split_idx",),
    ),
    Option(
        "allreduce_split_threshold",
        read_size,
        None,
        "the most bytes that one collective takes of several allreduces, as 25M",
    ),
    Option(
        "allreduce_cost",
        _read_network,
        Network(),
        "for auto and the order of tasks: seconds to start a message, send a byte, add one; multiplications a second: "
        '"alpha=16e-6,beta=3e-10,gamma=1e-10,ranks=2,speed=100e9"',
        _network_text,
    ),
    Option(
        "custom_ops",
        read_custom_ops,
        (),
        "Python modules that register custom operators, as my_ops.py; repeatable",
        _ops_text,
        repeatable=True,
    ),
    Option("allow_hardlinks", read_bool, False, "take external data with several names", recorded=False),
    Option("memory_limit", read_size, None, "most memory to use, as 8G", recorded=False),
    Option("timeout", read_seconds, None, "most seconds to work", recorded=False),
    Option("threads", number(read_int, 1, 1024), None, "threads to use; default: the physical cores", recorded=False),
    Option("dump_graph", read_path, None, "directory to write each stage's graph to", recorded=False),
    Option("dump_stages", _read_stages, frozenset(Stage), "stages to dump", recorded=False),
    Option("dump_passes", read_names, (), "passes to dump before and after they run", recorded=False),
    Option(
        "export_compile_stat",
        number(read_int, 0, 2),
        0,
        "write fusion_result.json: 0 never, 1 at the end, 2 after compilation",
        recorded=False,
    ),
    Option("sign", read_path, None, "private key of Ed25519 (PEM) that signs the package", recorded=False),
    Option("debug", read_bool, False, "verify the graph after each pass", recorded=False),
)
OPTIONS: dict[str, Option] = {option.name: option for option in _TABLE}
_BY_NAME = {name: option for option in _TABLE for name in (option.name, *option.aliases)}


def find_option(name: str, spelling: str) -> Option:
    """The option of that name, or of one of its aliases. Raises UsageError that shows it in the user's spelling."""
    option = _BY_NAME.get(name)
    if option is None:
        raise UsageError("E10001", f'there is no option "{spelling}"', hint=did_you_mean(name, _BY_NAME))
    return option


def convert_options(values: Mapping[str, object] | None = None, *, recorded: Mapping[str, str] = {}) -> ConvertOptions:
    """The records for what the user gave: names with `-` or `_`; None is the default. `recorded` are options of ATC
    without effect here, which the package names.
    """
    read: dict[str, Any] = {}
    for raw_name, value in (values or {}).items():
        name = raw_name.removeprefix("--").replace("-", "_")
        option = find_option(name, raw_name)
        if value is not None:
            if option.name in read:
                raise UsageError("E10047", f"{' and '.join(sorted(values or {}))}: one option, given twice")
            _check_characters(name, value)
            read[option.name] = option.read(name, value)  # errors name the option as the user did
    if read.get("dynamic_dims") and read.get("input_shape"):
        _in_order_of_names(read)
    return _sorted_into_records(read, recorded)


def _check_characters(option: str, value: object) -> None:
    """Refuse a text that neither a command line nor a file could hold."""
    if isinstance(value, str | os.PathLike):
        text = str(os.fspath(value))
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            what = f"--{option}: character {error.start + 1} is half of a surrogate pair"
            raise UsageError("E10003", what, where=Where(option=option)) from error
        if "\0" in text:
            raise UsageError("E10003", f"--{option}: it has a NUL character", where=Where(option=option))


def _sorted_into_records(read: Mapping[str, Any], recorded: Mapping[str, str]) -> ConvertOptions:
    value = {option.name: read.get(option.name, option.default) for option in _TABLE}
    file: SwitchFile | None = value["fusion_switch_file"]
    skipped = PassSwitches(named=dict.fromkeys(value["skip_pass"], False))
    asked = skipped.over(value["optimization_switch"]).over(PassSwitches(limits=value["pass_limit"]))
    switches = asked.over(file.switches if file else PassSwitches())
    level, mode = value["oo_level"], value["op_select_implmode"]
    graph_kernel = value["enable_graph_kernel"]
    return ConvertOptions(
        soc=value["soc"],
        parse=ParseOptions(
            input_shape=value["input_shape"],
            gears=_gears(value),
            out_nodes=value["out_nodes"],
            static=value["static"],
            fold_default_inputs=value["fold_default_inputs"],
            allow_hardlinks=value["allow_hardlinks"],
            framework=value["framework"],
            input_format=value["input_format"],
            aipp=_aipp(value),
            signature=value["signature"],
            tag_set=value["tag_set"],
            zipmap=value["zipmap"],
        ),
        prepare=PrepareOptions(
            level=level,
            switches=switches,
            fold_constants=value["oo_constant_folding"],
            remove_dead_branches=value["oo_dead_code_elimination"],
            quant_dumpable=value["quant_dumpable"],
            max_const_bytes=value["max_const"],
            max_growth=value["max_growth"],
            allreduce=AllReduceSplit(
                value["allreduce_split"],
                value["allreduce_split_size"],
                value["allreduce_split_index"],
                value["allreduce_split_threshold"],
                value["allreduce_cost"],
            ),
            loop=_loop(value),
            precision=_precision(value),
        ),
        split=SplitOptions(level=level, switches=switches),
        optimize=OptimizeOptions(
            level=level,
            switches=switches,
            impl_mode=mode,
            graph_kernel=level >= OoLevel.O2 if graph_kernel is None else graph_kernel,
        ),
        compile=CompileOptions(
            level=level,
            switches=switches,
            impl_mode=mode,
            reuse_memory=not value["disable_reuse_memory"],
            unshared=frozenset(value["no_reuse_mem"]),
            single_stream=value["enable_single_stream"],
            topo_sorting=value["topo_sorting_mode"],
        ),
        limits=Limits(timeout_seconds=value["timeout"], memory_bytes=value["memory_limit"]),
        dump=_dump_options(value["dump_graph"], value["dump_stages"], value["dump_passes"]),
        export_compile_stat=value["export_compile_stat"],
        skipped_passes=tuple(value["skip_pass"]),
        custom_ops=value["custom_ops"],
        deterministic_level=value["deterministic_level"],
        status_check=value["status_check"],
        sign=value["sign"],
        external_weight=value["external_weight"],
        verify_ir=value["debug"],
        threads=value["threads"],
        atc_cmdline=atc_cmdline(read, recorded),
    )


def _precision(value: Mapping[str, Any]) -> PrecisionOptions:
    """The precision of a conversion. Raises UsageError where options exclude or need each other."""
    if value["precision_mode"] is not None and value["precision_mode_v2"] is not None:
        what = "--precision_mode and --precision_mode_v2 cannot be used together"
        raise UsageError("E10056", what, where=Where(option="precision_mode_v2"), hint="drop one: they name the same")
    mode = value["precision_mode"] or value["precision_mode_v2"] or PrecisionMode.ORIGIN
    lists: MixList | None = value["modify_mixlist"]
    if lists is not None and not mode.is_mixed:
        what = f"--modify_mixlist: the lists are of mixed modes, and the mode is {mode.value}"
        where = Where(option="modify_mixlist")
        raise UsageError("E10001", what, where=where, hint="--precision_mode_v2=mixed_float16")
    out_nodes: tuple[str, ...] = value["out_nodes"]
    for item in value["output_type"]:
        if item.entry and item.entry not in out_nodes:
            what = f'--output_type: "{item.entry}" is not in --out_nodes'
            hint = did_you_mean(item.entry, out_nodes) or f'--out_nodes="{item.entry}"'
            raise UsageError("E10001", what, where=Where(option="output_type"), hint=hint)
    file: TextFile | None = value["keep_dtype"]
    customized: CustomDtypesFile | None = value["customize_dtypes"]
    precision = PrecisionOptions(
        mode=mode,
        keep=(*value["keep_fp32"], *(file.lines if file is not None else ())),
        customized=customized.dtypes if customized is not None else (),
        lists=lists if lists is not None else MixList(),
        clip_weights=value["is_weight_clip"],
        output_types=value["output_type"],
        out_nodes=out_nodes,
        fp16_inputs=value["input_fp16_nodes"],
    )
    if value["iterations_per_loop"] > 1 and not precision.changes_nothing:
        what = "other types than the model's are not supported with --iterations_per_loop: loops keep theirs"
        raise Unsupported("E10055", what, where=Where(option="iterations_per_loop"), hint="drop one of the options")
    return precision


def _dump_options(directory: Path | None, stages: frozenset[Stage], passes: tuple[str, ...]) -> DumpOptions:
    given = {"dump_passes": bool(passes), "dump_stages": stages != frozenset(Stage)}
    for name in (name for name, is_given in given.items() if is_given and directory is None):
        raise UsageError("E10057", f"--{name} needs a directory", where=Where(option=name), hint="--dump_graph DIR")
    return DumpOptions(directory=directory, stages=stages, passes=passes)


def recorded_options(cmdline: str) -> ConvertOptions:
    """The options that decide how a graph is compiled, out of what `atc_cmdline` recorded in a package; those
    that name a file are known there by its hash only.
    """
    return _recorded(cmdline, _COMPILING)


def recorded_loop(cmdline: str) -> IterationsPerLoop | None:
    """What one run of a package repeats, out of what `atc_cmdline` recorded in it. Raises PackageCorrupt (P0005) if
    that is no command line.
    """
    try:
        return _recorded(cmdline, _LOOP).prepare.loop
    except (ValueError, UsageError) as error:
        raise PackageCorrupt("P0005", f"its command line cannot be read: {error}") from error


def repeated_options(cmdline: str, replaced: Mapping[str, object]) -> ConvertOptions:
    """All options that `atc_cmdline` recorded in a package, with these in place of theirs. Raises Unsupported (E10055)
    where others name files, and PackageCorrupt (P0005) if that is no command line.
    """
    try:
        texts = _texts_of(cmdline)
        for name, text in texts.items():
            if _DIGEST in text and name not in replaced:
                what = f"the package was converted with --{name}, and records only the hash of that file"
                raise Unsupported("E10055", what, where=Where(option=name), hint="convert it anew by hand")
        known = {name: text for name, text in texts.items() if name in OPTIONS}
        others = {name: text for name, text in texts.items() if name not in OPTIONS}
        return convert_options({**known, **replaced}, recorded=others)
    except (ValueError, UsageError) as error:
        raise PackageCorrupt("P0005", f"its command line cannot be read: {error}") from error


def _recorded(cmdline: str, names: frozenset[str]) -> ConvertOptions:
    texts = _texts_of(cmdline)
    return convert_options(
        {name: text for name, text in texts.items() if name in names and not text.startswith(_DIGEST)}
    )


def _texts_of(cmdline: str) -> dict[str, str]:
    """The recorded options by name. Raises ValueError if a quote is not closed."""
    words = (word.removeprefix("--").partition("=") for word in shlex.split(cmdline)[2:])
    return {name: text for name, _, text in words}


_DIGEST = "sha256:"  # what is recorded of a file begins so


_LOOP = frozenset({"iterations_per_loop", "state", "stepped"})


_COMPILING = frozenset(
    {
        "oo_level",
        "oo_constant_folding",
        "oo_dead_code_elimination",
        "quant_dumpable",
        "op_select_implmode",
        "optimization_switch",
        "skip_pass",
        "pass_limit",
        "disable_reuse_memory",
        "no_reuse_mem",
        "enable_single_stream",
        "topo_sorting_mode",
        "allreduce_cost",
    }
)


def atc_cmdline(values: Mapping[str, Any], recorded: Mapping[str, str] = {}) -> str:
    """What the package records: the options that differ from their defaults, sorted, in canonical spelling."""
    texts = {
        name: OPTIONS[name].text(value)
        for name, value in values.items()
        if OPTIONS[name].recorded and value != OPTIONS[name].default
    }
    words = [f"--{name}={text}" for name, text in sorted({**texts, **recorded}.items())]
    return shlex.join(["atcpy", "convert", *words])


# --------------------------------------------------------------------------------------------------------------------
# What the machine gives when the user says nothing


def _cgroup_bytes() -> int | None:
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        return int(text) if text.isdigit() else None
    return None


def default_memory_bytes() -> int:
    """Three quarters of the memory, or the limit of the control group where that is less."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(total * 3 // 4, _cgroup_bytes() or total)
