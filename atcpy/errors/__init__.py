"""Every error that a user can meet: its code, its exit code, where it happened, and the way out.

An error is of the class of its cause, which decides the exit code, and has a code of the catalogue in `codes.py`.
"""

import errno
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, NamedTuple, NoReturn, Protocol, Self, TypeAlias, runtime_checkable

from atcpy.errors.codes import CODES as CODES

MAX_SHOWN = 20
MAX_LINE_BYTES = 500


def escape(text: str) -> str:
    """Text of a model as it may reach a terminal: control, format and surrogate characters written out."""
    if text.isprintable():  # then it holds none of these
        return text
    import unicodedata

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
    """A location in a model, a package, a file or the command line; empty fields are unknown.

    `graph` is the path of the graph from the root, as `main/then_branch`; `index` is the node's position in its graph.
    `domain` is that of `op`, empty for the standard's.
    """

    file: str = ""
    line: int | None = None
    column: int | None = None
    option: str = ""
    graph: str = ""
    node: str = ""
    index: int | None = None
    op: str = ""
    domain: str = ""
    input: int | None = None
    output: int | None = None
    value: str = ""
    partition: str = ""
    offset: int | None = None

    def __str__(self) -> str:
        """The location in one line: `m.onnx: main/node "c" (#3, Conv), input 1 "w"`."""
        at_option = bool(self.option) and not self.file  # then the column is that in the option's value
        position = () if at_option else (self.line, self.column)
        file = ":".join(str(part) for part in (self.file, *position) if part not in ("", None))
        parts = [part for part in (self._node(), self._value(), self._bytes()) if part]
        if at_option and self.column is not None:
            parts.insert(0, f"character {self.column}")
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
        """A copy whose empty fields are taken from `fields`: the raiser knows the node, a catcher adds the file."""
        return replace(self, **{k: v for k, v in fields.items() if getattr(self, k) in ("", None)})

    def as_dict(self) -> dict[str, str | int]:
        """The known fields, for JSON."""
        return {k: escape(v) if isinstance(v, str) else v for k, v in asdict(self).items() if v not in ("", None)}


@runtime_checkable
class NodeLike(Protocol):
    """What can be pointed at: an `ir.Node`, an `onnx.NodeProto`."""

    name: str
    op_type: str


Location: TypeAlias = Where | NodeLike | str | None


def _as_where(location: Location) -> Where:
    if isinstance(location, Where):
        return location
    if isinstance(location, NodeLike):
        return Where(node=location.name, op=location.op_type)
    return Where(node=location or "")


def nearest(word: str, candidates: Iterable[str], count: int = 3) -> list[str]:
    """The names that `word` may have meant: equal but for case, similar, then those that end in it."""
    pool = list(dict.fromkeys(candidates))
    folded = {candidate.lower(): candidate for candidate in pool}
    # A model has tens of thousands of long names, and difflib is quadratic in their length.
    sized = [name for name in folded if abs(len(name) - len(word)) <= 2 + len(word) // 3][:20_000]
    import difflib  # only errors need it

    close = [folded[name] for name in difflib.get_close_matches(word.lower(), sized, n=count, cutoff=0.6)]
    close += [name for name in pool if word and name.lower().endswith(word.lower()) and name not in close]
    return close[:count]


def count_of(count: int, noun: str, nouns: str = "") -> str:
    """A number with its noun: `1 task`, `57 tasks`; `nouns` where that is not the noun with an s."""
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """A hint with the nearest names, or nothing when none is near."""
    names = [f'"{escape(name)}"' for name in nearest(word, candidates)]
    return "did you mean " + " or ".join(names) + "?" if names else ""


class AtcError(Exception):
    """Base of every error that is the user's to mend; `problems` are all of them where several were found at once."""

    exit_code: int = 2
    kind: ClassVar[str] = "error"

    def __init__(self, code: str, what: str, *, where: Location = None, why: str = "", hint: str = "") -> None:
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
        """This error, with what the catcher knows about the location filled in (`file=…`)."""
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

    def __init__(self, what: str, *, code: str = "X0001", where: Location = None) -> None:
        self.code = code if code in CODES and CODES[code].exits == (1,) else "X0001"
        self.what = what
        self.where = _as_where(where)
        self.hint = CODES[self.code].help
        super().__init__(what)

    def __str__(self) -> str:
        location = str(self.where)
        return escape(self.what) + (f"\n  at {location}" if location else "")


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
        location = str(self.where)
        return abridge(f"warning[{self.code}] {escape(self.message)}" + (f"   ({location})" if location else ""))


class Cause(NamedTuple):
    """What several problems have in common, and where each of them is."""

    error: AtcError
    wheres: tuple[Where, ...]

    def as_dict(self) -> dict[str, Any]:
        """A member of the `errors` list of `--json`; `more` counts the locations after the first."""
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
        locations = [location for location in (str(where) for where in self.wheres[:3]) if location]
        if locations:
            lines.append("  at " + "; ".join(locations) + (f" and {count - 3} more" if count > 3 else ""))
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
    if error.errno == errno.ENOMEM:
        raise ResourceLimit("R0001", f"{path}: {system}", where=Where(file=path), hint=CODES["R0001"].help) from error
    if error.errno in _FULL:
        code = "R0002" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "E13004" if writing else "E13003"
        raise ResourceLimit(code, f"{path}: {system}", where=Where(file=path), hint=CODES[code].help) from error
    if error.errno == errno.ENOENT and not writing:
        raise UsageError("E10410", f"{path} does not exist", where=Where(file=path)) from error
    too_long = error.errno == errno.ENAMETOOLONG
    code = "E10021" if too_long else "E13004" if writing else "E13001"
    raise UsageError(code, f"{path}: {system}", where=Where(file=path), hint=CODES[code].help) from error


# What the loader of shared libraries and the starter of threads say where there is no memory.
_NO_MEMORY = re.compile(r"failed to map segment from shared object$|[Cc]annot allocate memory|can't start new thread$")


def _lacks_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that led to it, is that there is no memory: a library that is imported catches it, and
    raises its own.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, MemoryError):
            return True
        if isinstance(error, ImportError | RuntimeError) and _NO_MEMORY.search(str(error)):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def as_known_error(error: BaseException) -> AtcError | InternalError:
    """The error that a user is shown for any exception."""
    if isinstance(error, AtcError | InternalError):
        return error
    if _lacks_memory(error):
        hint = "raise --memory-limit, or make the shapes smaller"
        return ResourceLimit("R0001", "the memory is used up", hint=hint)
    if isinstance(error, OSError):
        try:
            raise_os_error(error, str(error.filename or "a file"))
        except AtcError as known:
            return known
    import traceback

    last = traceback.extract_tb(error.__traceback__)[-1:]
    location = f" (in {last[0].name}, line {last[0].lineno})" if last else ""
    return InternalError(f"{type(error).__name__}: {error}{location}")


INTERRUPTED, TERMINATED = 130, 143  # exit codes, as shells have them for SIGINT and SIGTERM


class Terminated(BaseException):
    """SIGTERM or SIGHUP: unwinds like KeyboardInterrupt, so that temporary files are removed."""
