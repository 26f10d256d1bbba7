"""Quotients, remainders, and products and quotients that are 0 where an operand is."""

from __future__ import annotations

from atcpy.ir import Value
from atcpy.parsers.tensorflow.op import OpBuilder, maps


@maps("Div", "TruncateDiv")
def divide(b: OpBuilder) -> Value:
    """Div; integers truncate toward 0"""
    return b.op("Div", b.input(0), b.input(1))


@maps("Inv", "Reciprocal")
def reciprocal(b: OpBuilder) -> Value:
    """Reciprocal"""
    x = b.input(0)
    return b.op("Reciprocal", x) if x.desc.dtype.is_float else b.op("Div", b.like(1, x), x)


@maps("FloorDiv")
def floor_div(b: OpBuilder) -> Value:
    """Floor of Div; integers are divided toward −∞"""
    x, y = b.input(0), b.input(1)
    dtype = x.desc.dtype
    quotient = b.op("Div", x, y)
    if dtype.is_float:
        return b.op("Floor", quotient)
    if dtype.name.startswith("UINT"):
        return quotient
    rest = b.op("Mod", x, y, fmod=1)
    return b.op("Sub", quotient, b.cast(_is_off(b, rest, y), dtype))


@maps("FloorMod")
def floor_mod(b: OpBuilder) -> Value:
    """Mod; the remainder has the sign of the divisor"""
    x, y = b.input(0), b.input(1)
    if not x.desc.dtype.is_float:
        return b.op("Mod", x, y, fmod=0)
    rest = b.op("Mod", x, y, fmod=1)
    return b.op("Where", _is_off(b, rest, y), b.op("Add", rest, y), rest)


def _is_off(b: OpBuilder, rest: Value, divisor: Value) -> Value:
    """Where a truncated division is not the one toward −∞: a remainder, of another sign than the divisor."""
    zero = b.like(0, rest)
    signs = (b.op("Less", value, zero) for value in (rest, divisor))
    return b.op("And", b.op("Not", b.op("Equal", rest, zero)), b.op("Xor", *signs))


@maps("Mod", "TruncateMod")
def truncate_mod(b: OpBuilder) -> Value:
    """Mod; the remainder has the sign of the dividend"""
    return b.op("Mod", b.input(0), b.input(1), fmod=1)


@maps("DivNoNan")
def divide_no_nan(b: OpBuilder) -> Value:
    """Div; 0 where the divisor is 0"""
    return _zero_where(b, 1, b.op("Div", b.input(0), b.input(1)))


@maps("MulNoNan")
def multiply_no_nan(b: OpBuilder) -> Value:
    """Mul; 0 where y is 0"""
    return _zero_where(b, 1, b.op("Mul", b.input(0), b.input(1)))


@maps("Xdivy")
def x_div_y(b: OpBuilder) -> Value:
    """Div; 0 where x is 0"""
    return _zero_where(b, 0, b.op("Div", b.input(0), b.input(1)))


@maps("Xlogy")
def x_log_y(b: OpBuilder) -> Value:
    """x · Log(y); 0 where x is 0"""
    return _zero_where(b, 0, b.op("Mul", b.input(0), b.op("Log", b.input(1))))


def _zero_where(b: OpBuilder, place: int, result: Value) -> Value:
    """The result, but 0 where that input is."""
    zero = b.like(0, result)
    return b.op("Where", b.op("Equal", b.input(place), zero), zero, result)
