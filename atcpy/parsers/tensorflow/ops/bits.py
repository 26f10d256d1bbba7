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
    x = b.expr(0)
    dtype = b.dtype(0)
    if dtype.name.startswith("UINT"):
        return b.op("BitShift", x.value, _count(b), direction="RIGHT")
    sign = x.like(-1).where(x < 0, 0)
    # A negative number is shifted as its complement, which is not negative.
    bits = _unsigned(b, x.apply("BitwiseXor", sign).value)
    return b.op("BitwiseXor", b.cast(b.op("BitShift", bits, _count(b), direction="RIGHT"), dtype), sign.value)


def _count(b: OpBuilder) -> Value:
    return _unsigned(b, b.expr(1).clip(0, b.dtype(1).bits - 1).value)


def _unsigned(b: OpBuilder, value: Value) -> Value:
    return b.cast(value, DType[f"UINT{value.desc.dtype.bits}"])
