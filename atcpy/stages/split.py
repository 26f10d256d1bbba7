"""Stage 2, split: each node gets an engine, neighbours on one engine become a piece."""

from atcpy.ir import Graph, Partition
from atcpy.options import Stage
from atcpy.passes import split as _passes  # registers them
from atcpy.passes.pass_manager import PassManager
from atcpy.passes.phase import Phase
from atcpy.passes.split.cut import cut

__all__ = ["assign_engines", "split"]
assert _passes


def assign_engines(graph: Graph, manager: PassManager) -> None:
    """Assign engines to a graph of open shapes. Fusions follow when it is compiled, with its shapes known."""
    manager.run(graph, Phase.PRECISION, Phase.PLACE)


def split(graph: Graph, manager: PassManager) -> Partition:
    """Assign engines and cut the graph at the borders of the clusters."""
    manager.run(graph, *Phase.of(Stage.SPLIT))
    return cut(graph)
