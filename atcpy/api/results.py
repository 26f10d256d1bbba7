"""What the functions return: frozen records with the fields of `--json`. `str()` of each is what the command prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from atcpy.bench.layers import LayerTime
from atcpy.bench.rounds import SideTimes
from atcpy.bench.saved import Comparison
from atcpy.bench.streams import StreamTimes
from atcpy.debug.value_ranges import ValueRange
from atcpy.runtime.roofline import Roofline

Record = TypeVar("Record")


@dataclass(frozen=True, kw_only=True)
class Result:
    """The lines that the command prints, as a text."""

    text: str = field(default="", repr=False, compare=False)

    def __str__(self) -> str:
        """What the command prints."""
        return self.text


@dataclass(frozen=True)
class Problem:
    """What keeps a model from converting (`level` is error), or makes it slow (host_cpu), or should be known (warning),
    with the nodes that it concerns.
    """

    level: str
    code: str
    op: str
    count: int
    nodes: tuple[str, ...]
    message: str
    hint: str


@dataclass(frozen=True)
class OpOnEngine:
    """How often an op runs on an engine."""

    op: str
    count: int
    engine: str


@dataclass(frozen=True)
class ShapeCount:
    """How many values have a shape that is known, and how many not."""

    known: int
    unknown: int


@dataclass(frozen=True)
class KeptTypes:
    """How many nodes the precision mode does not change for a reason (docs/add-a-pass.md has the list)."""

    reason: str
    count: int


@dataclass(frozen=True)
class PrecisionPreview:
    """What a precision mode would do. `ranges` are those of the values of lowered nodes on `input_data`."""

    mode: str
    lowered: tuple[str, ...]
    kept: tuple[str, ...]
    clipped: tuple[str, ...]
    kept_types: tuple[KeptTypes, ...]
    ranges: tuple[ValueRange, ...]


@dataclass(frozen=True)
class CheckResult(Result):
    """What `atcpy.check` found."""

    problems: tuple[Problem, ...]
    ops: tuple[OpOnEngine, ...]
    shapes: ShapeCount
    nodes: int
    precision: PrecisionPreview

    @property
    def convertible(self) -> bool:
        """Is there no error?"""
        return not any(problem.level == "error" for problem in self.problems)


@dataclass(frozen=True)
class PortRecord:
    """An input or output; a name stands for an open dim, None for a shape of which nothing is known."""

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None


@dataclass(frozen=True)
class InspectResult(Result):
    """What is in a package or in a model. `record` is all that `--json` has; its keys depend on the tables that were
    asked for. `package` says which of the two it is.
    """

    package: bool
    path: str
    bytes: int
    inputs: tuple[PortRecord, ...]
    outputs: tuple[PortRecord, ...]
    record: Mapping[str, Any]


@dataclass(frozen=True)
class NodeResult(Result):
    """One node of a package; `record` is what `--json` has of it."""

    name: str
    op: str
    engine: str | None
    record: Mapping[str, Any]


@dataclass(frozen=True)
class Machine:
    """The machine that was measured on."""

    cpu: str
    isa: str
    cores: tuple[int, ...]


@dataclass(frozen=True)
class CacheCount:
    """Graphs that were found compiled for their shapes, and that had to be compiled."""

    hits: int
    misses: int


@dataclass(frozen=True)
class MeasuredPackage:
    """The package that was measured, and the hash of the model that it was made from, if that is known."""

    name: str
    sha256: str
    model_sha256: str | None


@dataclass(frozen=True)
class BenchResult(Result):
    """How fast a package is; `ratio` says how many times as fast as the second side, with its 95 % interval `ci`;
    further sides have their own. `streams` says what those of the package save, `comparison` is that with a saved
    benchmark.
    """

    machine: Machine
    package: MeasuredPackage
    threads: int
    inputs: tuple[PortRecord, ...]
    samples: int | None
    sides: tuple[SideTimes, ...]
    ratio: float | None
    ci: tuple[float, ...] | None
    verdict: str | None
    streams: StreamTimes | None
    layers: tuple[LayerTime, ...]
    peaks: Roofline | None
    comparison: Comparison | None
    shape_cache: CacheCount | None


@dataclass(frozen=True)
class ChangedNode:
    """A node that differs, by its names in both graphs."""

    a: str
    b: str
    kind: str
    fields: tuple[str, ...]


@dataclass(frozen=True)
class NodeDifference:
    """How many nodes, or inputs, there are before and after, and which are not the same. `counts` has both numbers for
    each kind of difference: those before add up to `before`, and those after to `after`.
    """

    before: int
    after: int
    counts: Mapping[str, Sequence[int]]
    same: int
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    changed: tuple[ChangedNode, ...]


@dataclass(frozen=True)
class ChangedWeight:
    """A constant that differs, by its names in both graphs; `max_abs` is the largest difference of its elements."""

    a: str | None
    b: str | None
    kind: str
    fields: tuple[str, ...]
    max_abs: float | None


@dataclass(frozen=True)
class WeightDifference:
    """How many constants there are, their bytes, how many are of each kind, and which are not the same."""

    before: int
    after: int
    bytes_before: int
    bytes_after: int
    counts: Mapping[str, int]
    differing: tuple[ChangedWeight, ...]


@dataclass(frozen=True)
class DiffResult(Result):
    """What differs between two graphs. `weights`, `memory` and `options` are None unless they are asked for; the last
    two have `before` and `after` by name.
    """

    same: bool
    nodes: NodeDifference
    inputs: NodeDifference
    weights: WeightDifference | None
    memory: Mapping[str, Mapping[str, int | None]] | None
    options: Mapping[str, Mapping[str, str]] | None
    svg: str | None


@dataclass(frozen=True)
class ReportResult(Result):
    """The page that was written, and how many nodes and tasks it shows."""

    output: str
    bytes: int
    nodes: int
    tasks: int


@dataclass(frozen=True)
class Explanation(Result):
    """The answer to a question about an error code, a package or a model; `records` are the objects of `--json`."""

    question: str
    records: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class PassRecord:
    """A pass: where it stands in the order of all, from which level on it runs, and what it does."""

    name: str
    stage: str
    phase: str
    family: str
    order: int
    level: str
    required: bool
    after: tuple[str, ...]
    summary: str
    doc: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.name}  {self.summary}"


def read_record(kind: type[Record], record: Mapping[str, Any], **more: Any) -> Record:
    """The dataclass with the fields of a record of `--json`, each of the field's type."""
    hints = get_type_hints(kind)
    names = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    if unknown := record.keys() - names:
        raise TypeError(f"{kind.__name__} has no field for {', '.join(sorted(unknown))}")
    return kind(**{name: _read(hints[name], value) for name, value in record.items()}, **more)


def _read(hint: Any, value: Any) -> Any:
    if get_origin(hint) is UnionType:
        if value is None:
            return None
        options = [option for option in get_args(hint) if option is not NoneType]
        return _read(options[0], value) if len(options) == 1 else value
    if isinstance(hint, type) and is_dataclass(hint):
        return read_record(hint, value)
    if get_origin(hint) is tuple and isinstance(value, Sequence):
        item = get_args(hint)[0]
        return tuple(_read(item, each) for each in value)
    return value
