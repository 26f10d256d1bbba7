"""Stage 1, prepare: shapes, constants and engine-neutral rewrites on the whole graph."""

from atcpy.ir import Graph
from atcpy.options import Stage
from atcpy.passes import prepare as _passes  # registers them
from atcpy.passes.pass_manager import PassManager
from atcpy.passes.phase import Phase

__all__ = ["prepare", "prepare_bodies"]
assert _passes


def prepare(graph: Graph, manager: PassManager) -> None:
    """Infer, fold and rewrite a graph as it came from the parser."""
    manager.run(graph, *Phase.of(Stage.PREPARE))


def prepare_bodies(graph: Graph, manager: PassManager) -> None:
    """Prepare the bodies of If, Loop and Scan in a graph that is prepared itself: their inputs have its types."""
    manager.run_bodies(graph, *Phase.of(Stage.PREPARE))
