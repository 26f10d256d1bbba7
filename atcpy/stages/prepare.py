"""Stage 1, prepare: shapes, constants and engine-neutral rewrites on the whole graph."""

from atcpy.ir import Graph
from atcpy.options import Deadline, PrepareOptions, Stage
from atcpy.passes import prepare as _passes  # registers them
from atcpy.passes.base import run_passes

__all__ = ["prepare"]
assert _passes


def prepare(graph: Graph, options: PrepareOptions, *, deadline: Deadline, verify_ir: bool = False) -> None:
    """Infers, folds and rewrites a graph as it came from the parser."""
    run_passes(Stage.PREPARE, graph, options, deadline=deadline, verify_ir=verify_ir)
