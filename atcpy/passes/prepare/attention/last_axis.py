"""Which elements of the last dim of another value a value takes."""

from __future__ import annotations

from atcpy.ir import Node, Value
from atcpy.ops import Trait, has_trait
from atcpy.ops.move.slice import Extent
from atcpy.passes.slices import cut_of


def source_of(value: Value) -> tuple[Value, Extent]:
    """Return what a value is taken from, and which elements of its last dim; the whole value, if it is not taken so."""
    shape = value.desc.shape
    width = shape[-1] if shape and isinstance(shape[-1], int) else 0
    return _cut_of_last(value) or _every_second(value) or (value, Extent(0, 1, width))


def _cut_of_last(value: Value) -> tuple[Value, Extent] | None:
    """Follow a Split or Slice of the last dim alone."""
    node, shape = value.producer, value.desc.shape
    if not shape:
        return None
    if node.op_type == "Split" and works_on_last(node, value):
        sizes = [part.desc.shape[-1] for part in node.outputs[: value.index] if part.desc.shape]
        before = [size for size in sizes if isinstance(size, int)]
        width = shape[-1] if isinstance(shape[-1], int) else 0
        return (node.operand(0), Extent(sum(before), 1, width)) if len(before) == value.index else None
    cut = cut_of(node) or {}
    return (node.operand(0), cut[len(shape) - 1]) if [*cut] == [len(shape) - 1] else None


def _every_second(value: Value) -> tuple[Value, Extent] | None:
    """Follow a view of pairs of which one element is taken, the even or the odd one."""
    node, shape = value.producer, value.desc.shape
    if not shape or not isinstance(shape[-1], int):
        return None
    if node.op_type == "Gather" and works_on_last(node, node.operand(0)):
        index = node.operand(1)
        if index.tensor is None or index.desc.shape != ():
            return None
        pairs, parity = node.operand(0), int(index.array) % 2
    elif has_trait(node, Trait.RESHAPE) and (taken := _cut_of_last(node.operand(0))) is not None:
        pairs, parity = taken[0], taken[1].start
        if taken[1].count != 1:
            return None
    else:
        return None
    x = pairs.producer.input(0)
    if pairs.producer.op_type != "Reshape" or x is None or pairs.desc.shape != (*shape, 2):
        return None
    return (x, Extent(parity, 2, shape[-1])) if x.desc.shape == (*shape[:-1], 2 * shape[-1]) else None


def works_on_last(node: Node, value: Value) -> bool:
    """Does a node work along the last of a value's dims?"""
    rank = len(value.desc.shape or ())
    return rank > 0 and node.int_attr("axis", 0) % rank == rank - 1
