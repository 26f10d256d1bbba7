"""Every error that a user can meet: its code, its exit code, where it happened, and the way out.

The codes are ATC's where the cause is the same, so that a search for the code finds help; the rest are ours.
`CODES` is the table behind `docs/errors.md` and `atcpy explain CODE`; a code that is not in it cannot be raised.
"""

import difflib
import errno
import traceback
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, NoReturn, Protocol, Self, TypeAlias, runtime_checkable

MAX_SHOWN = 20
MAX_LINE_BYTES = 500


@dataclass(frozen=True, slots=True)
class CodeRow:
    """One row of the table: `exits` has two members where the cause decides (the file, or the disk)."""

    code: str
    exits: tuple[int, ...]
    when: str
    help: str


_TABLE: tuple[tuple[str, tuple[int, ...], str, str], ...] = (
    # Options
    ("E10001", (2,), "the value of an option is not one of the possible ones", "take one of the listed choices"),
    ("E10002", (2,), "--input_shape cannot be read", '--input_shape="name:1,3,224,224;other:1"'),
    ("E10003", (2,), "the value of an option has the wrong type", "give a number where one is asked for"),
    ("E10004", (2,), "an option has no value", "write --option=value"),
    ("E10005", (2,), "an option that is true or false has another value", "write true or false"),
    ("E10006", (2,), "an option that is 0 or 1 has another value", "write 0 or 1"),
    ("E10007", (2,), "the framework is unknown", "5 is ONNX, 3 is TensorFlow"),
    ("E10010", (2,), "the log level is unknown", "debug, info, warning, error or null"),
    ("E10011", (2,), "a dimension in --input_shape is zero or negative", "give its size, or a range such as 1~8"),
    ("E10013", (2,), "a number is out of its range", "take a number inside the range"),
    ("E10014", (2,), "a number cannot be read", "write it in digits, with K, M or G where a size is asked for"),
    ("E10016", (2,), "the model has no node or value of that name", "take one of the nearest names"),
    ("E10017", (2,), "the named node is not an input", "take one of the listed inputs"),
    ("E10021", (2,), "a path is longer than the system allows", "use a shorter path"),
    ("E10022", (2,), "the output names a directory", "add a file name to it"),
    ("E10025", (2,), "a configuration file is not JSON", "correct it at the line that is named"),
    ("E10032", (2,), "a JSON file lacks what is needed", "correct it at the line that is named"),
    ("E10041", (3,), "the file is not a model", "look at what the file is said to be: a pointer, a page, a part"),
    ("E10047", (2,), "two options exclude each other", "give one of them"),
    ("E10049", (2,), "--input_shape gives an input another rank than the model", "take the model's own rank"),
    (
        "E10050",
        (2,),
        "--input_shape contradicts a size that the model fixes",
        "take the model's size, or a range around it",
    ),
    ("E10054", (2,), "a required option is missing", "give it; a ';' in a value needs quotes"),
    ("E10055", (4,), "this is not supported", "the message says the way round"),
    ("E10056", (2,), "two options exclude each other", "give one of them"),
    ("E10057", (2,), "an option is used only together with another", "give both, or none"),
    ("E10401", (2,), "run: the number of inputs is wrong", "`atcpy inspect F.om --io` lists the inputs"),
    (
        "E10402",
        (2,),
        "run: the number of dimensions of an input is wrong",
        "`atcpy inspect F.om --io` lists the shapes",
    ),
    ("E10403", (2,), "run: the type of an input is wrong", "convert the array to the type that is asked for"),
    ("E10404", (2,), "run: the model has no input of that name", "take one of the listed names"),
    ("E10405", (2,), "run: the shape of an input is wrong", "`atcpy inspect F.om --io` lists the shapes"),
    ("E10406", (2,), "run: the size of a bound output buffer is wrong", "make it of the output's shape and type"),
    ("E10410", (2,), "a file does not exist", "take the nearest name in that directory"),
    # The model
    ("E10501", (4,), "the operator has no definition in the opset that the model imports", "raise the model's opset"),
    ("E11005", (2,), "--static: an input has open dimensions", 'fix them: --input_shape="name:1,3,224,224"'),
    ("E11016", (2,), "--out_nodes: the node has fewer outputs", "use an index that exists"),
    ("E11017", (2,), "--out_nodes: no such node", "take one of the nearest names"),
    ("E12009", (3,), "something reads a value that nothing makes", "export the model again; is it a part cut out?"),
    ("E12013", (3,), "a function that is called is not in the library", "save the graph with its functions"),
    ("E13009", (3,), "two values have the same name", "export the model again: a value has one producer"),
    ("E13014", (3,), "an attribute of an operator is invalid", "the message gives the rule of the standard"),
    (
        "E13015",
        (3,),
        "a file that belongs to the model is missing, too short or damaged",
        "copy it beside the model, whole",
    ),
    ("E13018", (2,), "a text protobuf cannot be read", "correct it at the line that is named"),
    ("E13023", (6,), "the package would be larger than its format allows", "--external_weight=1"),
    ("E14001", (4,), "the parameters of an operator cannot be compiled", "the message names the limit"),
    ("E16001", (3,), "the model has no inputs or no outputs", "export it again with its outputs"),
    ("E16002", (4,), "the ONNX operator has no importer", "register a custom operator"),
    ("E16004", (3,), "the file has no graph", "export the model again"),
    ("E16005", (3,), "the opset of a domain is given twice", "keep one opset_import of each domain"),
    ("EI0003", (2,), "a parameter of a collective is wrong", "the message gives the rule"),
    ("EI0004", (2,), "the file that says which ranks a group has is wrong", '--groups: {"name": [0, 1], …}'),
    ("EI0005", (2,), "several ranks need what is not installed", "pip install atcpy[dist]"),
    ("EI0007", (6,), "a rank ended, or does not come to a collective", "the message names the rank and the node"),
    ("E19010", (4,), "operators of the model are unknown", "a newer opset, a mistyped domain, or --custom-ops"),
    ("E20001", (4,), "no kernel takes the operator with these types and shapes", "cast its inputs, or raise the opset"),
    ("E2100C", (3,), "the graph has a cycle", "the message names the nodes on it"),
    ("EZ3002", (4,), "no engine takes the operator", "register a custom operator"),
    ("EZ3003", (4,), "no kernel takes this data type or format", "cast its inputs"),
    (
        "EZ8888",
        (3,),
        "the shapes of an operator's inputs do not fit",
        "look at the value of --input_shape that leads there",
    ),
    # Files and surroundings
    ("E13000", (2,), "a path is empty", "name a file"),
    ("E13001", (2, 6), "a file cannot be opened", "look at its permissions"),
    ("E13003", (2, 6), "a file cannot be read", "look at its permissions and the disk"),
    ("E13004", (2, 6), "a file cannot be written", "look at the permissions of its directory, and the space"),
    ("E13005", (2, 6), "a file cannot be understood", "correct it at the place that is named"),
    ("E13024", (2,), "an environment variable has a wrong value", "correct or unset it"),
    ("E13025", (2,), "run: an input cannot be used", "the message gives the reason"),
    ("E13029", (2,), "a user's module or library cannot be loaded", "correct it at the line that is named"),
    ("E13030", (2,), "a user's operator cannot be registered", "the message gives the reason"),
    ("E13031", (2,), "run: an output cannot be used", "the message gives the reason"),
    ("E20003", (2,), "the content of a configuration file is wrong", "correct it at the line that is named"),
    ("E20007", (1,), "a pass broke the graph", "--skip-pass NAME, and report it: it is our bug"),
    # Packages
    ("P0001", (7,), "the file is not a package", "convert the model first: atcpy convert --model m.onnx"),
    ("P0002", (7,), "the package was written by a newer version", "update atcpy, or convert the model again"),
    ("P0003", (7,), "the package fails its checksum", "copy or convert it again"),
    ("P0004", (7,), "the package is truncated", "copy or convert it again"),
    ("P0005", (7,), "the package refers to something outside its bounds", "convert the model again"),
    # Running and verifying
    ("D0001", (3,), "a value met while running breaks the rule of an operator", "look at the input that leads there"),
    ("D0002", (3,), "the ranks of a run do not run the same package", "give all of them the same file"),
    ("V0001", (5,), "an output is outside the tolerance", "convert with --oo_level=O0, then skip single passes"),
    (
        "V0002",
        (5,),
        "an output has NaN or infinity where the reference has none",
        "convert with --oo_level=O0, then skip single passes",
    ),
    ("V0003", (3,), "the reference cannot run the model", "--oracle ref"),
    ("V0004", (5,), "the most likely class changed", "convert with --oo_level=O0, then skip single passes"),
    # Limits
    ("R0001", (6,), "the memory limit is reached", "raise --memory-limit, or make the shapes smaller"),
    ("R0002", (6,), "the disk is full", "make room, or write elsewhere"),
    ("R0003", (6,), "the time limit is reached", "raise --timeout"),
    ("R0004", (6,), "more threads or ranks than the machine has", "lower --threads"),
    # Custom operators
    ("C0001", (4,), "a custom operator raised an exception", "correct its code at the line that is named"),
    ("C0002", (4,), "a custom operator returned the wrong shape or type", "return what its shape function promised"),
    ("C0003", (4,), "a custom operator of the package is not registered", "--custom-ops module.py"),
    # Warnings (exit 0; --werror makes them errors)
    ("W0007", (0, 4), "a node was renamed, for its name was taken or empty", "name nodes uniquely when exporting"),
    ("W0008", (0, 4), "an input has a default value, which packages do not keep", "feed it at each run"),
    ("W0012", (0, 2), "an option has no effect here", "drop it"),
    ("W0013", (0, 2), "a switch names a pass that does not exist", "take the nearest name; `atcpy passes list`"),
    ("W0020", (0, 4), "operators run on HOST_CPU, which is slow", "`atcpy inspect F.om --tasks` lists them"),
    ("W0021", (0, 4), "a lowered value may overflow", "--keep-fp32 NODE"),
    ("W0022", (0, 4), "denormal numbers slow the model down", "look at the weights that are named"),
    ("W0030", (0, 2), "the option is deprecated", "the message names its successor"),
    ("W0040", (0, 4), "the opset of the model was raised", "skip the pass that brought in the newer op"),
    ("W0041", (0, 5), "the optimised model could not be verified", "name sizes for open dims: --input_shape"),
    ("W0042", (0, 4), "the model was written with less optimisation, or as it was", "the message says why"),
    ("W0050", (0, 2), "more ranks run than there are cores: they wait for each other", "fewer ranks, or more cores"),
    # Us
    ("X0001", (1,), "an internal error: a bug of atcpy", "report it with the command and `atcpy doctor --json`"),
)

CODES: dict[str, CodeRow] = {row[0]: CodeRow(*row) for row in _TABLE}


def escape(text: str) -> str:
    """Text of a model as it may reach a terminal: control, format and surrogate characters written out."""
    if text.isprintable():  # then it holds none of these
        return text
    return "".join(c if unicodedata.category(c) not in _UNSAFE else _written_out(c) for c in text)


_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def _written_out(c: str) -> str:
    return c.encode("unicode_escape").decode("ascii")


def abridge(text: str, limit: int = MAX_LINE_BYTES) -> str:
    """Cut a line in its middle when it has more than `limit` bytes: both ends say more than either alone."""
    raw = text.encode("utf-8", "backslashreplace")
    if len(raw) <= limit:
        return text
    half = (limit - 5) // 2
    return raw[:half].decode("utf-8", "ignore") + " … " + raw[-half:].decode("utf-8", "ignore")


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """A place in a model, a package, a file or the command line; empty fields are unknown.

    `graph` is the path of the graph from the root, as `main/then_branch`; `index` is the node's position in its graph.
    """

    file: str = ""
    line: int | None = None
    column: int | None = None
    option: str = ""
    graph: str = ""
    node: str = ""
    index: int | None = None
    op: str = ""
    input: int | None = None
    output: int | None = None
    value: str = ""
    partition: str = ""
    offset: int | None = None

    def __str__(self) -> str:
        """The place in one line: `m.onnx: main/node "c" (#3, Conv), input 1 "w"`."""
        file = ":".join(str(part) for part in (self.file, self.line, self.column) if part not in ("", None))
        parts = [part for part in (self._node(), self._value(), self._bytes()) if part]
        if self.option:
            parts.insert(0, "--" + self.option.removeprefix("--"))
        return escape(": ".join(part for part in (file, ", ".join(parts)) if part))

    def _node(self) -> str:
        kind = ", ".join(part for part in (f"#{self.index}" if self.index is not None else "", self.op) if part)
        if not self.node and not kind:
            return f"graph {self.graph}" if self.graph else ""
        name = f' "{self.node}"' if self.node else ""
        return (f"{self.graph}/" if self.graph else "") + "node" + name + (f" ({kind})" if kind else "")

    def _value(self) -> str:
        name = f'"{self.value}"' if self.value else ""
        for word, number in (("input", self.input), ("output", self.output)):
            if number is not None:
                return f"{word} {number} {name}".strip()
        return f"value {name}" if name else ""

    def _bytes(self) -> str:
        at = f"byte {self.offset}" if self.offset is not None else ""
        return ", ".join(part for part in (f"partition {self.partition}" if self.partition else "", at) if part)

    def filled(self, **fields: Any) -> Self:
        """This place with those of `fields` that were empty: who catches knows the file, who raises knew the node."""
        return replace(self, **{k: v for k, v in fields.items() if getattr(self, k) in ("", None)})

    def as_dict(self) -> dict[str, str | int]:
        """The known fields, for JSON."""
        return {k: escape(v) if isinstance(v, str) else v for k, v in asdict(self).items() if v not in ("", None)}


@runtime_checkable
class NodeLike(Protocol):
    """What can be pointed at: an `ir.Node`, an `onnx.NodeProto`."""

    name: str
    op_type: str


Place: TypeAlias = Where | NodeLike | str | None


def _as_where(place: Place) -> Where:
    if isinstance(place, Where):
        return place
    if isinstance(place, NodeLike):
        return Where(node=place.name, op=place.op_type)
    return Where(node=place or "")


def nearest(word: str, candidates: Iterable[str], count: int = 3) -> list[str]:
    """The names that `word` may have meant: equal but for case, similar, then those that end in it."""
    pool = list(dict.fromkeys(candidates))
    folded = {candidate.lower(): candidate for candidate in pool}
    # A model has tens of thousands of long names, and difflib is quadratic in their length.
    sized = [name for name in folded if abs(len(name) - len(word)) <= 2 + len(word) // 3][:20_000]
    close = [folded[name] for name in difflib.get_close_matches(word.lower(), sized, n=count, cutoff=0.6)]
    close += [name for name in pool if word and name.lower().endswith(word.lower()) and name not in close]
    return close[:count]


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """A hint with the nearest names, or nothing when none is near."""
    names = [f'"{escape(name)}"' for name in nearest(word, candidates)]
    return "did you mean " + " or ".join(names) + "?" if names else ""


class AtcError(Exception):
    """Base of every error that is the user's to mend; `problems` are all of them where several were found at once."""

    exit_code: int = 2
    kind: ClassVar[str] = "error"

    def __init__(self, code: str, what: str, *, where: Place = None, why: str = "", hint: str = "") -> None:
        row = CODES.get(code)
        if row is None:
            raise InternalError(f"{type(self).__name__} was raised with {code}, which is not in the table")
        if self.exit_code not in row.exits:
            raise InternalError(f"{code} ends with {row.exits}, not with {self.exit_code} of {type(self).__name__}")
        self.code = code
        self.what = what
        self.where = _as_where(where)
        self.why = why
        self.hint = hint
        self.problems: tuple[AtcError, ...] = (self,)
        super().__init__(code, what)

    def __reduce__(self) -> tuple[Any, ...]:
        """Keyword arguments survive pickling: errors cross process borders in tests and in distributed runs."""
        others = tuple(p for p in self.problems if p is not self)
        return _rebuild, (type(self), self.code, self.what, self.where, self.why, self.hint, others)

    def __str__(self) -> str:
        return render(self, label="")

    def located(self, **fields: Any) -> Self:
        """This error, with what the catcher knows about the place filled in (`file=…`)."""
        for problem in self.problems:
            problem.where = problem.where.filled(**fields)
        self.where = self.where.filled(**fields)
        return self

    def as_dicts(self) -> list[dict[str, Any]]:
        """All causes as members of the `errors` list of `--json`."""
        return [cause.as_dict() for cause in causes(self.problems)]


def _rebuild(
    cls: type[AtcError], code: str, what: str, where: Where, why: str, hint: str, others: tuple[AtcError, ...]
) -> AtcError:
    error = cls(code, what, where=where, why=why, hint=hint)
    error.problems = others or (error,)
    return error


class UsageError(AtcError):
    """The command, an option, a configuration file or the fed arrays are wrong."""

    exit_code = 2
    kind = "usage"


class ModelInvalid(AtcError):
    """The model breaks a rule of its own format, at conversion or, for a value, at run time."""

    exit_code = 3
    kind = "model_invalid"


class Unsupported(AtcError):
    """The model is valid and cannot be converted."""

    exit_code = 4
    kind = "unsupported"


class CustomOpError(Unsupported):
    """A user's own operator raised, broke its promise, or is not there."""


class VerifyFailed(AtcError):
    """The package does not compute what the model computes."""

    exit_code = 5
    kind = "verify_failed"


class ResourceLimit(AtcError):
    """Memory, disk, time or threads: a limit was reached before the work was done."""

    exit_code = 6
    kind = "resource_limit"


class PackageCorrupt(AtcError):
    """The file is not a package, or not the one that was written."""

    exit_code = 7
    kind = "package_corrupt"


class InternalError(Exception):
    """A bug of ours: which pass or stage broke which invariant.  Not an AtcError, for no user can mend it."""

    exit_code: ClassVar[int] = 1
    kind: ClassVar[str] = "internal"

    def __init__(self, what: str, *, code: str = "X0001", where: Place = None) -> None:
        self.code = code if code in CODES and CODES[code].exits == (1,) else "X0001"
        self.what = what
        self.where = _as_where(where)
        self.hint = CODES[self.code].help
        super().__init__(what)

    def __str__(self) -> str:
        place = str(self.where)
        return escape(self.what) + (f"\n  at {place}" if place else "")


@dataclass(frozen=True, slots=True)
class AtcWarning:
    """A numbered warning; `--werror` turns it into an error."""

    code: str
    message: str
    where: Where = Where()

    def __post_init__(self) -> None:
        if not self.code.startswith("W") or self.code not in CODES:
            raise InternalError(f"warning {self.code} is not in the table")

    def as_error(self) -> AtcError:
        """The error that `--werror` makes of it."""
        cls = UsageError if UsageError.exit_code in CODES[self.code].exits else Unsupported
        return cls(self.code, self.message, where=self.where, hint=CODES[self.code].help)

    def as_dict(self) -> dict[str, Any]:
        """A member of the `warnings` list of `--json`."""
        return {"code": self.code, "message": escape(self.message), "where": self.where.as_dict()}

    def __str__(self) -> str:
        place = str(self.where)
        return abridge(f"warning[{self.code}] {escape(self.message)}" + (f"   ({place})" if place else ""))


@dataclass(frozen=True, slots=True)
class Cause:
    """What several problems have in common, and where each of them is."""

    error: AtcError
    wheres: tuple[Where, ...]

    def as_dict(self) -> dict[str, Any]:
        """A member of the `errors` list of `--json`; `more` counts the places after the first."""
        first = self.error
        return {
            "code": first.code,
            "kind": first.kind,
            "message": escape(first.what),
            "why": escape(first.why),
            "where": self.wheres[0].as_dict(),
            "hint": escape(first.hint),
            "more": len(self.wheres) - 1,
            "nodes": [escape(where.node) for where in self.wheres if where.node],
        }

    def lines(self, label: str) -> list[str]:
        """At most four lines, each at most 500 bytes: what, where, why, help."""
        first, count = self.error, len(self.wheres)
        head = f"{label}[{first.code}]" if label else f"{first.code}:"
        lines = [f"{head} {escape(first.what)}" + (f"   × {count}" if count > 1 else "")]
        places = [place for place in (str(where) for where in self.wheres[:3]) if place]
        if places:
            lines.append("  at " + "; ".join(places) + (f" and {count - 3} more" if count > 3 else ""))
        if first.why:
            lines.append("  " + escape(first.why))
        if first.hint:
            lines.append("  help: " + escape(first.hint))
        return [abridge(line) for line in lines]


# The worst first: what makes the rest pointless.
_SEVERITY: tuple[type[AtcError], ...] = (
    PackageCorrupt, ModelInvalid, Unsupported, ResourceLimit, VerifyFailed, UsageError, AtcError,
)  # fmt: skip


def _severity(error: AtcError) -> int:
    return next(i for i, cls in enumerate(_SEVERITY) if isinstance(error, cls))


def causes(problems: Iterable[AtcError]) -> list[Cause]:
    """Problems grouped by what they say, worst class first, otherwise in the order of their first member."""
    groups: dict[tuple[str, str, str, str], list[AtcError]] = {}
    for problem in problems:
        groups.setdefault((problem.code, problem.what, problem.why, problem.hint), []).append(problem)
    grouped = [Cause(group[0], tuple(problem.where for problem in group)) for group in groups.values()]
    return sorted(grouped, key=lambda cause: _severity(cause.error))


def group(problems: Sequence[AtcError]) -> AtcError:
    """One error that stands for all: of the class of the worst, which is also its code and its exit code."""
    flat = [member for problem in problems for member in problem.problems]
    if len(flat) == 1:
        return flat[0]
    worst = causes(flat)[0].error
    # A new object: the worst problem stays a plain member, and no error contains itself beside others.
    whole = type(worst)(worst.code, worst.what, where=worst.where, why=worst.why, hint=worst.hint)
    whole.problems = tuple(flat)
    return whole


def raise_all(problems: Sequence[AtcError]) -> None:
    """Raise all problems as one error; do nothing when there are none."""
    if problems:
        raise group(problems)


def render(error: AtcError, *, label: str = "error", limit: int = MAX_SHOWN) -> str:
    """The text for a terminal: one block a cause, at most `limit` of them, the rest counted."""
    grouped = causes(error.problems)
    lines = [line for cause in grouped[:limit] for line in cause.lines(label)]
    if len(grouped) > limit:
        lines.append(f"and {len(grouped) - limit} more (--json lists all)")
    return "\n".join(lines)


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def raise_os_error(error: OSError, path: str, *, writing: bool = False) -> NoReturn:
    """The error of the system in our words: a full disk is a limit, the rest is the user's path."""
    system = (error.strerror or str(error)).lower()
    if error.errno in _FULL:
        code = "R0002" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "E13004" if writing else "E13003"
        raise ResourceLimit(code, f"{path}: {system}", where=Where(file=path), hint=CODES[code].help) from error
    if error.errno == errno.ENOENT and not writing:
        raise UsageError("E10410", f"{path} does not exist", where=Where(file=path)) from error
    code = "E13004" if writing else "E13001"
    raise UsageError(code, f"{path}: {system}", where=Where(file=path), hint=CODES[code].help) from error


def as_known_error(error: BaseException) -> AtcError | InternalError:
    """The error that a user is shown for any exception."""
    if isinstance(error, AtcError | InternalError):
        return error
    # The loader of shared libraries says it in words of its own.
    unmapped = isinstance(error, ImportError) and str(error).endswith("failed to map segment from shared object")
    if isinstance(error, MemoryError) or unmapped:
        hint = "raise --memory-limit, or make the shapes smaller"
        return ResourceLimit("R0001", "the memory is used up", hint=hint)
    if isinstance(error, OSError):
        try:
            raise_os_error(error, str(error.filename or "a file"))
        except AtcError as known:
            return known
    last = traceback.extract_tb(error.__traceback__)[-1:]
    location = f" (in {last[0].name}, line {last[0].lineno})" if last else ""
    return InternalError(f"{type(error).__name__}: {error}{location}")


INTERRUPTED, TERMINATED = 130, 143  # exit codes, as shells have them for SIGINT and SIGTERM


class Terminated(BaseException):
    """SIGTERM: unwinds like KeyboardInterrupt, so that temporary files are removed."""
