"""Name the exchange of pixels and channels that is written as Slices and a Concat: the Focus of YOLOv5.

Concat(x[0::2, 0::2], x[1::2, 0::2], x[0::2, 1::2], x[1::2, 1::2])  →  Gather(SpaceToDepth(x), order of channels)

Without the Gather, where the channels are in the order of SpaceToDepth: by rows of a block, then by columns. A Conv
takes the order into its weights (`channel_order.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atcpy.ir import DType, Graph, Node, PassRecord, Reject, Rewriter, Value
from atcpy.ir.tensor import Array
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.folding import Finisher
from atcpy.passes.phase import Phase
from atcpy.passes.slices import Cut, cut_of

_ROWS, _COLUMNS = 2, 3
_RUN_EVERYWHERE = frozenset({DType.FLOAT32, DType.FLOAT64})  # what runtimes have SpaceToDepth for


@graph_pass(
    "SpaceToDepthFusionPass",
    Phase.MOVE,
    after=("ConcatSplitEliminationPass", "SliceMergePass"),
    makes=("SpaceToDepth",),
    repeats=True,
)
def name_focus(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Replace a Concat of Slices, each every so many pixels, by SpaceToDepth and an order of channels."""
    finisher = Finisher(graph, record, options)
    for node in graph.nodes_of("Concat"):
        found = _focus(node)
        if found is None:
            continue
        x, block, order = found
        slices = [value.producer for value in node.operands]
        if record.accept([node, *slices], *_requirements(node)):
            rw = Rewriter(graph, node, record.name, [*slices, node])
            value = rw.op("SpaceToDepth", x, blocksize=block)
            if not (np.diff(order) == 1).all():
                value = rw.op("Gather", value, rw.const(order, name=f"{node.name}_order"), axis=1)
            finisher.finish(rw, [(node.output, value)], [node])


def _requirements(node: Node) -> Iterator[Reject]:
    other = next((other for value in node.operands if (other := value.user_beyond((node,))) is not None), None)
    if other is not None:
        yield Reject("second-consumer", node.name, other.name)
    elif node.output.desc.dtype not in _RUN_EVERYWHERE:
        yield Reject("dtype", node.name, node.output.desc.dtype.long)


def _focus(node: Node) -> tuple[Value, int, Array] | None:
    """What is cut into pixels, the side of the blocks, and which channels of SpaceToDepth come in which order."""
    block = round(node.input_count**0.5)
    shape = node.operand(0).desc.shape if node.operands else None
    if (
        block < 2
        or block**2 != node.input_count
        or shape is None
        or len(shape) != 4
        or node.int_attr("axis", 0) % 4 != 1
    ):
        return None
    slices = [value.producer for value in node.operands]
    x = slices[0].input(0)
    if x is None or x.desc.shape is None or any(part.input(0) is not x for part in slices):
        return None
    _, channels, *sizes = x.desc.shape
    offsets = [_block_offset(cut_of(part), block) for part in slices]
    if not isinstance(channels, int) or any(not isinstance(size, int) or size % block for size in sizes):
        return None
    if None in offsets or len(set(offsets)) < len(offsets):
        return None
    numbers = [offset[0] * block + offset[1] for offset in offsets if offset is not None]
    return x, block, np.concatenate([number * channels + np.arange(channels) for number in numbers])


def _block_offset(cut: Cut | None, block: int) -> tuple[int, int] | None:
    """Which row and column of each block a Slice takes."""
    if cut is None or set(cut) != {_ROWS, _COLUMNS}:
        return None
    rows, columns = cut[_ROWS], cut[_COLUMNS]
    if rows.step != block or columns.step != block or rows.start >= block or columns.start >= block:
        return None
    return rows.start, columns.start
