"""Quotients, remainders, and products and quotients that are 0 where an operand is."""

from __future__ import annotations

from atcpy.ir import Value
from atcpy.parsers.tensorflow.op import Op, maps


@maps("Div", "TruncateDiv")
def divide(op: Op) -> Value:
    """Div; integers truncate toward 0"""
    return op.add("Div", op.input(0), op.input(1))


@maps("Inv", "Reciprocal")
def reciprocal(op: Op) -> Value:
    """Reciprocal"""
    x = op.input(0)
    return op.add("Reciprocal", x) if x.desc.dtype.is_float else op.add("Div", op.like(1, x), x)


@maps("FloorDiv")
def floor_div(op: Op) -> Value:
    """Floor of Div; integers are divided toward −∞"""
    x, y = op.input(0), op.input(1)
    dtype = x.desc.dtype
    quotient = op.add("Div", x, y)
    if dtype.is_float:
        return op.add("Floor", quotient)
    if dtype.name.startswith("UINT"):
        return quotient
    rest = op.add("Mod", x, y, fmod=1)
    return op.add("Sub", quotient, op.cast(_is_off(op, rest, y), dtype))


@maps("FloorMod")
def floor_mod(op: Op) -> Value:
    """Mod; the remainder has the sign of the divisor"""
    x, y = op.input(0), op.input(1)
    if not x.desc.dtype.is_float:
        return op.add("Mod", x, y, fmod=0)
    rest = op.add("Mod", x, y, fmod=1)
    return op.add("Where", _is_off(op, rest, y), op.add("Add", rest, y), rest)


def _is_off(op: Op, rest: Value, divisor: Value) -> Value:
    """Where a truncated division is not the one toward −∞: a remainder, of another sign than the divisor."""
    zero = op.like(0, rest)
    signs = (op.add("Less", value, zero) for value in (rest, divisor))
    return op.add("And", op.add("Not", op.add("Equal", rest, zero)), op.add("Xor", *signs))


@maps("Mod", "TruncateMod")
def truncate_mod(op: Op) -> Value:
    """Mod; the remainder has the sign of the dividend"""
    return op.add("Mod", op.input(0), op.input(1), fmod=1)


@maps("DivNoNan")
def divide_no_nan(op: Op) -> Value:
    """Div; 0 where the divisor is 0"""
    return _zero_where(op, 1, op.add("Div", op.input(0), op.input(1)))


@maps("MulNoNan")
def multiply_no_nan(op: Op) -> Value:
    """Mul; 0 where y is 0"""
    return _zero_where(op, 1, op.add("Mul", op.input(0), op.input(1)))


@maps("Xdivy")
def x_div_y(op: Op) -> Value:
    """Div; 0 where x is 0"""
    return _zero_where(op, 0, op.add("Div", op.input(0), op.input(1)))


@maps("Xlogy")
def x_log_y(op: Op) -> Value:
    """x · Log(y); 0 where x is 0"""
    return _zero_where(op, 0, op.add("Mul", op.input(0), op.add("Log", op.input(1))))


def _zero_where(op: Op, place: int, result: Value) -> Value:
    """The result, but 0 where that input is."""
    zero = op.like(0, result)
    return op.add("Where", op.add("Equal", op.input(place), zero), zero, result)
