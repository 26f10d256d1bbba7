"""Sizes, axes and indices that a TensorFlow node has as inputs: known ones, or what computes them."""

from __future__ import annotations

from atcpy.ir import DType, Value
from atcpy.ir.arithmetic import IndexExpr
from atcpy.parsers.tensorflow.op import OpBuilder


def all_of(b: OpBuilder, index: int) -> IndexExpr:
    """The integers of an input, whatever its shape."""
    if b.is_constant(index):
        return IndexExpr.of(b, b.ints(index)).reshape(*b.input(index).desc.static_shape)
    return IndexExpr(b, b.shape_input(index))


def each_of(b: OpBuilder, index: int) -> list[IndexExpr]:
    """The integers of an input, each as a list of one; they must be a known number."""
    value = b.input(index)
    if not value.desc.is_static:
        raise b.unsupported(f'how many numbers input {index}, "{value.name}", holds is not known')
    if b.is_constant(index):
        return [IndexExpr.of(b, [number]) for number in b.ints(index)]
    made = value.producer
    if made.op_type == "Concat" and all(part.desc.is_static and part.desc.shape == (1,) for part in made.operands):
        return [_one(b, part) for part in made.operands]
    if value.desc.elements == 1:
        return [IndexExpr(b, b.reshape(b.shape_input(index), (1,)))]
    known = b.known(value) or (None,) * value.desc.elements
    flat = b.shape_input(index)
    if len(value.desc.static_shape) != 1:
        flat = b.reshape(flat, (-1,))
    return [
        IndexExpr.of(b, [item])
        if isinstance(item, int)
        else IndexExpr(b, b.op("Slice", flat, b.const([place]), b.const([place + 1])))
        for place, item in enumerate(known)
    ]


def _one(b: OpBuilder, value: Value) -> IndexExpr:
    known = b.known(value)
    if known is not None and isinstance(known[0], int):
        return IndexExpr.of(b, [known[0]])
    return IndexExpr(b, b.cast(value, DType.INT64))


def known_number(b: OpBuilder, index: int, what: str) -> int:
    """The one integer that an input must hold as a constant."""
    numbers = b.ints(index)
    if len(numbers) != 1:
        raise b.invalid(f"{what}: one number, not {len(numbers)}")
    return numbers[0]
