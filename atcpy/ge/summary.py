"""What a compiled graph needs, and what the graphs of a session need together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atcpy.ir.dtype import DType
from atcpy.om.package import Package
from atcpy.report.columns import table
from atcpy.report.units import size
from atcpy.stages.report import ConvertReport


@dataclass(frozen=True, slots=True)
class CompiledGraphSummary:
    """The resources of a compiled graph, sizes in bytes; `report` is the whole report of the conversion."""

    report: ConvertReport
    package: Package

    def IsStatic(self) -> bool:
        """Whether all shapes are known."""
        return not self.report.unknown_shapes

    def GetConstMemorySize(self) -> int:
        """The weights."""
        return len(self.package.weights)

    def GetFeatureMemorySize(self) -> int | None:
        """The arena of a run, without inputs and outputs; None if each run computes it from open dims."""
        return self.report.memory.arena

    def GetStreamNum(self) -> int:
        """The streams."""
        return self.package.stream_count

    def GetEventNum(self) -> int:
        """The events, which order tasks of different streams."""
        return self.package.event_count

    def GetOutputShapes(self) -> list[tuple[int | str, ...] | None]:
        """The shapes of the outputs; a name stands for an open dim, None for an unknown rank."""
        return [port.shape for port in self.report.outputs]

    def GetOutputDtypes(self) -> list[DType]:
        """The element types of the outputs."""
        return [DType[port.dtype.upper()] for port in self.report.outputs]


@dataclass(frozen=True, slots=True)
class GraphMemory:
    """A graph of a session: its weights; what one run allocates, beside inputs and outputs (None: it depends on open
    dims); the runs that are in progress, and how many there were at once at most.
    """

    graph_id: int
    const_bytes: int
    run_bytes: int | None
    runs: int
    peak_runs: int


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """The memory of the compiled graphs of a session. `str()` makes a table of it."""

    graphs: Sequence[GraphMemory]

    @property
    def const_bytes(self) -> int:
        """The weights of all graphs."""
        return sum(graph.const_bytes for graph in self.graphs)

    @property
    def in_use_bytes(self) -> int:
        """The weights, and what the runs in progress have allocated, as far as it is known."""
        return self.const_bytes + sum((graph.run_bytes or 0) * graph.runs for graph in self.graphs)

    def __str__(self) -> str:
        rows = [
            (
                graph.graph_id,
                size(graph.const_bytes),
                "open" if graph.run_bytes is None else size(graph.run_bytes),
                graph.runs,
                graph.peak_runs,
            )
            for graph in self.graphs
        ]
        return "\n".join(table(("graph", "weights", "each run", "runs", "most at once"), rows, right=range(5)))
