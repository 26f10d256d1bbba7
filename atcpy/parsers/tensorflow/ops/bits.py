"""Shifts of integers. The standard shifts unsigned ones only, so that signed ones take that way."""

from __future__ import annotations

from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import OpBuilder, maps


@maps("LeftShift")
def left_shift(b: OpBuilder) -> Value:
    """BitShift, by no less than 0 and less than the bits that there are"""
    x = b.input(0)
    return b.cast(b.op("BitShift", _unsigned(b, x), _count(b), direction="LEFT"), x.desc.dtype)


@maps("RightShift")
def right_shift(b: OpBuilder) -> Value:
    """BitShift, by no less than 0 and less than the bits that there are; the sign of x comes in"""
    x = b.input(0)
    dtype = x.desc.dtype
    if dtype.name.startswith("UINT"):
        return b.op("BitShift", x, _count(b), direction="RIGHT")
    sign = b.op("Where", b.op("Less", x, b.like(0, x)), b.like(-1, x), b.like(0, x))
    # What is below 0 is shifted as its complement, which is not.
    bits = _unsigned(b, b.op("BitwiseXor", x, sign))
    return b.op("BitwiseXor", b.cast(b.op("BitShift", bits, _count(b), direction="RIGHT"), dtype), sign)


def _count(b: OpBuilder) -> Value:
    count = b.input(1)
    return _unsigned(b, b.op("Clip", count, b.like(0, count), b.like(count.desc.dtype.bits - 1, count)))


def _unsigned(b: OpBuilder, value: Value) -> Value:
    return b.cast(value, DType[f"UINT{value.desc.dtype.bits}"])
