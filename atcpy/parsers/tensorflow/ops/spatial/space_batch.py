"""Blocks of space moved into the batch, and back."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from atcpy.ir import Value
from atcpy.ir.arithmetic import IndexExpr, join, reshape_to, sizes_of
from atcpy.parsers.tensorflow.op import OpBuilder, maps


def _blocks(b: OpBuilder) -> tuple[tuple[int, ...], IndexExpr]:
    """The size of a block in each dim behind the batch, and what is added or cut: [dims, 2]."""
    if b.node.op.endswith("ND"):
        blocks, borders = b.ints(1), b.index_input(2)
    else:
        blocks, borders = (b.int_attr("block_size"),) * 2, b.index_input(1)
    if min(blocks, default=1) < 1 or prod(blocks) >= 2**31 or b.rank(0) <= len(blocks):
        raise b.invalid(f"blocks of {blocks} in {b.rank(0)} dims")
    return blocks, borders.reshape(len(blocks), 2)


@maps("SpaceToBatchND", "SpaceToBatch")
def space_to_batch(b: OpBuilder) -> Value:
    """Pad, and a Transpose between two Reshapes; a Conv between it and its reverse becomes a dilated one"""
    x, (blocks, borders) = b.input(0), _blocks(b)
    count, rank = len(blocks), b.rank(0)
    if not isinstance(borders.elements, Value) and not borders.elements.any():
        padded = x
    else:
        begins, ends = (borders.column(index) for index in range(2))
        before, behind = IndexExpr.of(b, [0]), IndexExpr.of(b, [0] * (rank - 1 - count))
        padded = b.op("Pad", x, join(b, [before, begins, behind, before, ends, behind]).value)
    if prod(blocks) == 1:
        return padded
    sizes = sizes_of(b, padded)
    for axis, block in enumerate(blocks, 1):
        number = sizes[axis].number
        if number is not None and number % block:
            raise b.invalid(f"dim {axis} of size {number}, in blocks of {block}")
    split = [(sizes[axis] // block, IndexExpr.of(b, [block])) for axis, block in enumerate(blocks, 1)]
    cut = reshape_to(b, padded, [sizes[0], *[part for pair in split for part in pair], *sizes[count + 1 :]])
    outer, inner = (range(first, 2 * count + 1, 2) for first in (1, 2))
    moved = b.transpose(cut, [*inner, 0, *outer, *range(2 * count + 1, rank + count)])
    batch = sizes[0] * prod(blocks)
    return reshape_to(b, moved, [batch, *[size for size, _ in split], *sizes[count + 1 :]])


@maps("BatchToSpaceND", "BatchToSpace")
def batch_to_space(b: OpBuilder) -> Value:
    """A Transpose between two Reshapes, and Slice"""
    x, (blocks, borders) = b.input(0), _blocks(b)
    count, rank, sizes = len(blocks), b.rank(0), sizes_of(b, b.input(0))
    factor = prod(blocks)
    if sizes[0].number is not None and sizes[0].number % factor:
        raise b.invalid(f"a batch of {sizes[0].number}, in blocks of {blocks}")
    batch = sizes[0] // factor
    if factor == 1:
        return _cropped(b, x, borders, sizes[1 : count + 1])
    cut = reshape_to(b, x, [*[IndexExpr.of(b, [block]) for block in blocks], batch, *sizes[1:]])
    pairs = [axis for index in range(count) for axis in (count + 1 + index, index)]
    moved = b.transpose(cut, [count, *pairs, *range(2 * count + 1, rank + count)])
    whole = [size * block for size, block in zip(sizes[1:], blocks, strict=False)]
    joined = reshape_to(b, moved, [batch, *whole, *sizes[count + 1 :]])
    return _cropped(b, joined, borders, whole)


def _cropped(b: OpBuilder, x: Value, borders: IndexExpr, sizes: Sequence[IndexExpr]) -> Value:
    """The dims behind the batch, of these sizes, without their borders."""
    if not isinstance(borders.elements, Value) and not borders.elements.any():
        return x
    begins, crops = (borders.column(index) for index in range(2))
    ends = join(b, sizes) - crops
    return b.op("Slice", x, begins.value, ends.value, b.const(list(range(1, len(sizes) + 1))))
