"""Which places of the last dim of another value a value takes."""

from __future__ import annotations

from atcpy.ir import Node, Value
from atcpy.ops.move.slice import Extent
from atcpy.passes.slices import cut_of


def places_of(value: Value) -> tuple[Value, Extent]:
    """What a value is taken from, and which places of its last dim; all of its own, if it is not taken so."""
    node, shape = value.producer, value.desc.shape
    width = shape[-1] if shape and isinstance(shape[-1], int) else 0
    found: Extent | None = None
    if node.op_type == "Split" and works_on_last(node, value):
        sizes = [part.desc.shape[-1] for part in node.outputs[: value.index] if part.desc.shape]
        before = [size for size in sizes if isinstance(size, int)]
        found = Extent(sum(before), 1, width) if len(before) == value.index else None
    elif node.op_type == "Slice" and shape:
        cut = cut_of(node) or {}
        found = cut[len(shape) - 1] if [*cut] == [len(shape) - 1] else None
    else:
        pair = _of_pairs(value)
        if pair is not None:
            return pair
    return (value, Extent(0, 1, width)) if found is None else (node.operand(0), found)


def _of_pairs(value: Value) -> tuple[Value, Extent] | None:
    """The even or the odd places, by a view of pairs of which one is taken."""
    node, shape = value.producer, value.desc.shape
    if not shape or not isinstance(shape[-1], int):
        return None
    if node.op_type == "Gather" and works_on_last(node, node.operand(0)):
        index = node.operand(1)
        if index.tensor is None or index.desc.shape != ():
            return None
        pairs, place = node.operand(0), int(index.array) % 2
    elif node.op_type in {"Squeeze", "Reshape"} and node.operand(0).producer.op_type in {"Split", "Slice"}:
        pairs, taken = places_of(node.operand(0))
        place = taken.start
        if taken.count != 1 or pairs is node.operand(0):
            return None
    else:
        return None
    x = pairs.producer.input(0)
    if pairs.producer.op_type != "Reshape" or x is None or pairs.desc.shape != (*shape, 2):
        return None
    return (x, Extent(place, 2, shape[-1])) if x.desc.shape == (*shape[:-1], 2 * shape[-1]) else None


def works_on_last(node: Node, value: Value) -> bool:
    """Does a node work along the last of a value's dims?"""
    rank = len(value.desc.shape or ())
    return rank > 0 and node.int_attr("axis", 0) % rank == rank - 1
