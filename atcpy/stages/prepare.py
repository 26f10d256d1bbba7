"""Stage 1, prepare: shapes, constants and engine-neutral rewrites on the whole graph."""

from atcpy.ir import Graph
from atcpy.ir.decisions import Precision
from atcpy.options import Stage
from atcpy.passes import prepare as _passes  # registers them
from atcpy.passes.pass_manager import PassManager
from atcpy.passes.phase import Phase

__all__ = ["prepare", "prepare_bodies", "set_precision"]
assert _passes
_REWRITES = tuple(phase for phase in Phase.of(Stage.PREPARE) if phase is not Phase.PRECISION_MODE)


def prepare(graph: Graph, manager: PassManager) -> None:
    """Infer, fold and rewrite a graph as it came from the parser."""
    manager.run(graph, *_REWRITES)


def set_precision(graph: Graph, manager: PassManager) -> None:
    """Give the nodes of a prepared graph the types of the precision mode, once: graphs of gears and of open dims, which
    are prepared again, have them already.
    """
    options = manager.options.prepare.precision
    graph.decisions.precision = Precision(options.mode.value)
    if not options.changes_nothing:
        manager.run(graph, Phase.PRECISION_MODE)
        manager.run(graph, Phase.CLEAN_UP, Phase.COMPACT)


def prepare_bodies(graph: Graph, manager: PassManager) -> None:
    """Prepare the bodies of If, Loop and Scan in a graph that is prepared itself: their inputs have its types."""
    manager.run_bodies(graph, *_REWRITES)
