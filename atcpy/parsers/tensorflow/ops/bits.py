"""Shifts of integers. The standard shifts unsigned ones only, so that signed ones take that way."""

from __future__ import annotations

from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import Op, maps


@maps("LeftShift")
def left_shift(op: Op) -> Value:
    """BitShift, by no less than 0 and less than the bits that there are"""
    x = op.input(0)
    return op.cast(op.add("BitShift", _unsigned(op, x), _count(op), direction="LEFT"), x.desc.dtype)


@maps("RightShift")
def right_shift(op: Op) -> Value:
    """BitShift, by no less than 0 and less than the bits that there are; the sign of x comes in"""
    x = op.input(0)
    dtype = x.desc.dtype
    if dtype.name.startswith("UINT"):
        return op.add("BitShift", x, _count(op), direction="RIGHT")
    sign = op.add("Where", op.add("Less", x, op.like(0, x)), op.like(-1, x), op.like(0, x))
    # What is below 0 is shifted as its complement, which is not.
    bits = _unsigned(op, op.add("BitwiseXor", x, sign))
    return op.add("BitwiseXor", op.cast(op.add("BitShift", bits, _count(op), direction="RIGHT"), dtype), sign)


def _count(op: Op) -> Value:
    count = op.input(1)
    return _unsigned(op, op.add("Clip", count, op.like(0, count), op.like(count.desc.dtype.bits - 1, count)))


def _unsigned(op: Op, value: Value) -> Value:
    return op.cast(value, DType[f"UINT{value.desc.dtype.bits}"])
