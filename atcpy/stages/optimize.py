"""Stage 3, optimize: each piece is fused and gets its formats, then the whole is joined again."""

from atcpy.ir import Border, Graph, Partition
from atcpy.passes import optimize as _passes  # registers them
from atcpy.passes.optimize.merge import merge
from atcpy.passes.pass_manager import PassManager
from atcpy.passes.phase import Phase

__all__ = ["optimize"]
assert _passes


def optimize(partition: Partition, manager: PassManager) -> Graph:
    """Return the merged graph with its formats chosen. Pieces come in topological order, so that each knows the formats
    of its inputs.
    """
    leaving: dict[Graph, list[Border]] = {}
    for border in partition.borders:
        assert border.end.graph is not None
        leaving.setdefault(border.end.graph, []).append(border)
    for piece in partition.subgraphs:
        manager.run(piece.graph, Phase.EPILOGUE, Phase.FORMAT)
        for border in leaving.get(piece.graph, []):
            border.placeholder.output.desc = border.end.operand(0).desc
    graph = merge(partition)
    manager.run(graph, Phase.CANCEL, Phase.FUSE, Phase.NARROW)
    return graph
