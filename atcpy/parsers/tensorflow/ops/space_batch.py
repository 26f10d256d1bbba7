"""Blocks of space moved into the batch, and back."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from atcpy.errors import ModelInvalid
from atcpy.ir import Value
from atcpy.parsers.tensorflow.integers import (
    Integers,
    all_of,
    integers,
    join,
    reshape_to,
    sizes_of,
)
from atcpy.parsers.tensorflow.op import Op, maps


def _blocks(op: Op) -> tuple[tuple[int, ...], Integers]:
    """The size of a block in each dim behind the batch, and what is added or cut: [dims, 2]."""
    if op.node.op.endswith("ND"):
        blocks, borders = op.ints(1), all_of(op, 2)
    else:
        blocks, borders = (op.int_attr("block_size"),) * 2, all_of(op, 1)
    if min(blocks, default=1) < 1 or prod(blocks) >= 2**31 or op.rank(0) <= len(blocks):
        raise ModelInvalid("E13014", f"blocks of {blocks} in {op.rank(0)} dims", where=op.where)
    return blocks, borders.shaped(len(blocks), 2)


@maps("SpaceToBatchND", "SpaceToBatch")
def space_to_batch(op: Op) -> Value:
    """Pad, and a Transpose between two Reshapes; a Conv between it and its reverse becomes a dilated one"""
    x, (blocks, borders) = op.input(0), _blocks(op)
    count, rank = len(blocks), op.rank(0)
    if not isinstance(borders.held, Value) and not borders.held.any():
        padded = x
    else:
        begins, ends = (borders.column(place) for place in range(2))
        before, behind = integers(op, [0]), integers(op, [0] * (rank - 1 - count))
        padded = op.add("Pad", x, join(op, [before, begins, behind, before, ends, behind]).value)
    if prod(blocks) == 1:
        return padded
    sizes = sizes_of(op, padded)
    for axis, block in enumerate(blocks, 1):
        number = sizes[axis].number
        if number is not None and number % block:
            raise ModelInvalid("E13014", f"dim {axis} of {number} places, in blocks of {block}", where=op.where)
    split = [(sizes[axis] // block, integers(op, [block])) for axis, block in enumerate(blocks, 1)]
    cut = reshape_to(op, padded, [sizes[0], *[part for pair in split for part in pair], *sizes[count + 1 :]])
    outer, inner = (range(first, 2 * count + 1, 2) for first in (1, 2))
    moved = op.transpose(cut, [*inner, 0, *outer, *range(2 * count + 1, rank + count)])
    batch = sizes[0] * prod(blocks)
    return reshape_to(op, moved, [batch, *[size for size, _ in split], *sizes[count + 1 :]])


@maps("BatchToSpaceND", "BatchToSpace")
def batch_to_space(op: Op) -> Value:
    """A Transpose between two Reshapes, and Slice"""
    x, (blocks, borders) = op.input(0), _blocks(op)
    count, rank, sizes = len(blocks), op.rank(0), sizes_of(op, op.input(0))
    factor = prod(blocks)
    if sizes[0].number is not None and sizes[0].number % factor:
        raise ModelInvalid("E13014", f"a batch of {sizes[0].number}, in blocks of {blocks}", where=op.where)
    batch = sizes[0] // factor
    if factor == 1:
        return _cropped(op, x, borders, sizes[1 : count + 1])
    cut = reshape_to(op, x, [*[integers(op, [block]) for block in blocks], batch, *sizes[1:]])
    pairs = [axis for place in range(count) for axis in (count + 1 + place, place)]
    moved = op.transpose(cut, [count, *pairs, *range(2 * count + 1, rank + count)])
    whole = [size * block for size, block in zip(sizes[1:], blocks, strict=False)]
    joined = reshape_to(op, moved, [batch, *whole, *sizes[count + 1 :]])
    return _cropped(op, joined, borders, whole)


def _cropped(op: Op, x: Value, borders: Integers, sizes: Sequence[Integers]) -> Value:
    """The dims behind the batch, of these sizes, without their borders."""
    if not isinstance(borders.held, Value) and not borders.held.any():
        return x
    begins, crops = (borders.column(place) for place in range(2))
    ends = join(op, sizes) - crops
    return op.add("Slice", x, begins.value, ends.value, op.const(list(range(1, len(sizes) + 1))))
