"""Stage 2, split: each node gets an engine, neighbours on one engine become a piece."""

from atcpy.ir import Graph, Partition
from atcpy.options import Deadline, OoLevel, SplitOptions, Stage
from atcpy.passes import split as _passes  # registers them
from atcpy.passes.base import run_passes
from atcpy.passes.split.cut import cut

__all__ = ["place", "split"]
assert _passes


def place(graph: Graph, options: SplitOptions, *, deadline: Deadline, verify_ir: bool = False) -> None:
    """Gives each node its engine. What fuses nodes does so when the graph is compiled, and its shapes are known."""
    run_passes(
        Stage.SPLIT,
        graph,
        options,
        deadline=deadline,
        verify_ir=verify_ir,
        wanted=lambda entry: entry.level is OoLevel.O0,
    )


def split(graph: Graph, options: SplitOptions, *, deadline: Deadline, verify_ir: bool = False) -> Partition:
    """Places the nodes and cuts the graph at the borders of the clusters."""
    run_passes(Stage.SPLIT, graph, options, deadline=deadline, verify_ir=verify_ir)
    return cut(graph)
