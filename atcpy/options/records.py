"""The records that a conversion depends on: one for each stage, frozen."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from atcpy.deadline import Deadline
from atcpy.options.machine import default_memory_bytes
from atcpy.precision_options import PrecisionOptions
from atcpy.sizes import ANY_SIZE, Gears, MemoryLimit

if TYPE_CHECKING:
    from atcpy.aipp.config import AippConfig
    from atcpy.options.kernel_times import KernelTimes


KIB = 1024
MIB = 1024 * KIB


class OoLevel(IntEnum):
    """How much is optimised: O0 nothing that correctness does not need, O1 no fusion, O2 all, O3 as ATC's O3."""

    O0 = 0
    O1 = 1
    O2 = 2
    O3 = 3


class ImplMode(Enum):
    """May a kernel use Winograd's algorithm, whose error is within 1e-4 of the output's scale in float32?"""

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

    A constant is folded if its result takes no more bytes than the constants that it replaces; or if it has at most
    `max_const_bytes` and all together let the weights grow by at most the factor `max_growth`. `fold_constants` is
    what the user asked for: below O1 nothing is folded anyway.
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
    graph_kernel: bool = True


@dataclass(frozen=True, kw_only=True)
class CompileOptions:
    """Kernel choice, streams and the memory plan."""

    level: OoLevel = OoLevel.O2
    switches: PassSwitches = PassSwitches()
    impl_mode: ImplMode = ImplMode.HIGH_PERFORMANCE
    kernel_times: "KernelTimes | None" = None
    threads: int = 1  # to measure kernels with
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
