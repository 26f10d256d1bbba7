"""Stage 3, optimize: each piece is fused and gets its formats, then the whole is joined again."""

from atcpy.ir import Border, Graph, Partition
from atcpy.options import Deadline, OptimizeOptions, Stage
from atcpy.passes import optimize as _passes  # registers them
from atcpy.passes.base import run_passes
from atcpy.passes.optimize.merge import merge

__all__ = ["optimize"]
assert _passes


def optimize(partition: Partition, options: OptimizeOptions, *, deadline: Deadline, verify_ir: bool = False) -> Graph:
    """The merged graph, formats chosen. Pieces come in topological order, so that each knows in
    which format its inputs come.
    """
    leaving: dict[Graph, list[Border]] = {}
    for border in partition.borders:
        assert border.end.graph is not None
        leaving.setdefault(border.end.graph, []).append(border)
    for piece in partition.subgraphs:
        run_passes(Stage.OPTIMIZE, piece.graph, options, deadline=deadline, verify_ir=verify_ir)
        for border in leaving.get(piece.graph, []):
            border.placeholder.output.desc = border.end.operand(0).desc
    graph = merge(partition)
    run_passes(Stage.OPTIMIZE, graph, options, deadline=deadline, verify_ir=verify_ir, on_whole=True)
    return graph
