"""One Split for Slices that cut a value into pieces.

Slice(x, 0 … 8, axis), Slice(x, 8 … 16, axis)  →  Split(x, [8, 8], axis),   where that axis has size 16
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from atcpy.ir import Graph, Node, PassRecord, Reject, Value
from atcpy.ir.symbolic import same
from atcpy.ops.core.reference import has_few_elements
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.folding import Finisher
from atcpy.passes.phase import Phase
from atcpy.passes.slices import cut_of

_Piece = tuple[int, int, Node]  # from, to


@graph_pass("SliceSplitFusionPass", Phase.MOVE, after=("TransposeRegionPass",), repeats=True)
def split_slices(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Cut a value by one Split where Slices take all of its pieces."""
    finisher = Finisher(graph, record, options)
    groups: dict[tuple[Value, int], list[_Piece]] = {}
    for node in graph.nodes_of("Slice"):
        piece = _piece(node)
        if piece is not None:
            axis, start, end = piece
            groups.setdefault((node.operand(0), axis), []).append((start, end, node))
    for (_, axis), found in groups.items():
        if len(found) < 2:
            continue
        value = found[0][2].operand(0)  # what it is now: it may have been cut itself
        pieces = sorted(found, key=lambda piece: piece[:2])
        nodes = [node for _, _, node in pieces]
        is_partition = _is_partition(pieces, value.desc.shape[axis] if value.desc.shape else None)
        rejects = [] if is_partition else [Reject("not-a-partition", nodes[0].name)]
        rw = finisher.match(*nodes, rejects=rejects, anchor=found[0][2])
        if rw is not None:
            sizes = rw.const([end - start for start, end, _ in pieces], name=f"{nodes[0].name}_sizes")
            parts = rw.ops("Split", value, sizes, outputs=len(nodes), axis=axis)
            finisher.finish(rw, zip((node.output for node in nodes), parts, strict=True), nodes)


def _piece(node: Node) -> tuple[int, int, int] | None:
    """The axis of a Slice that takes every index of a range, and the range; None for other nodes, and for shape
    arithmetic, which is known through Slices.
    """
    cut = cut_of(node)
    x = node.operand(0).desc
    if cut is None or len(cut) != 1 or (x.dtype.is_int and has_few_elements(x)):
        return None
    ((axis, taken),) = cut.items()
    return (axis, taken.start, taken.start + taken.count) if taken.step == 1 and not same(taken.count, 0) else None


def _is_partition(pieces: Sequence[_Piece], size: object) -> bool:
    gapless = all(same(before[1], after[0]) for before, after in pairwise(pieces))
    return gapless and same(pieces[0][0], 0) and same(pieces[-1][1], size)
