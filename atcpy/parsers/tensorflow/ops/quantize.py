"""Quantization: values rounded to a few bits, and integers that stand for real numbers.

Composed in exactly the order of TensorFlow's kernels, in float32: a value on a border must go to the same side.
"""

from __future__ import annotations

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.formula import Formula
from atcpy.parsers.tensorflow.op import Op, maps

_LARGEST = float(np.finfo(np.float32).max)


def _range(op: Op, low: Value, high: Value) -> tuple[Formula, Formula]:
    return Formula(op, op.cast(low, DType.FLOAT32)), Formula(op, op.cast(high, DType.FLOAT32))


def _beside(op: Op, x: Value, *numbers: Formula, axis: int) -> list[Formula]:
    """Numbers for each place of an axis of x, so that they broadcast; an axis of −1: numbers for all."""
    if axis < 0:
        return list(numbers)
    after = len(op.shape_of(x)) - axis - 1
    return [number.unsqueeze(*range(1, after + 1)) if after else number for number in numbers]


# --- FakeQuant -----------------------------------------------------------------------------------------


@maps("FakeQuantWithMinMaxArgs")
def fake_quant(op: Op) -> Value:
    """Clip, and rounding to the nearest of 2^num_bits steps"""
    low, high = (op.const(op.float_attr(name), DType.FLOAT32) for name in ("min", "max"))
    return _stepped(op, low, high)


@maps("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quant_with_range(op: Op) -> Value:
    """Clip, and rounding to the nearest of 2^num_bits steps; a range for all, or one a channel"""
    return _stepped(op, op.input(1), op.input(2))


def _stepped(op: Op, smallest: Value, largest: Value) -> Value:
    bits = op.int_attr("num_bits")
    if not 2 <= bits <= 16:
        raise ModelInvalid("E13014", f"num_bits: {bits}", where=op.where)
    first, last = float(op.bool_attr("narrow_range")), float(2**bits - 1)
    x, (low, high) = Formula(op, op.input(0)), _range(op, smallest, largest)
    scale = (high - low) / (last - first)
    zero = first - low / scale
    zero = zero.round_away().most(first).least(last)
    low_nudged, high_nudged = (first - zero) * scale, (last - zero) * scale
    shifted = x.least(high_nudged).most(low_nudged) - low_nudged
    if op.node.op.endswith("PerChannel"):
        y = (shifted / scale + 0.5).floor() * scale + low_nudged
    else:
        inverse = 1 / scale
        y = (shifted * inverse - (-low_nudged * inverse + 0.5).floor() + 0.5).floor() * scale
    if largest.tensor is not None and largest.array.all():
        return y.value
    nothing = Formula(op, op.const(0.0, DType.FLOAT32))
    return nothing.where(low.equals(0) & high.equals(0), y).value


# --- QuantizeAndDequantize ---------------------------------------------------------------------------------


@maps("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4")
def quantize_and_back(op: Op) -> Value:
    """Rounding to steps of one size; the range is given, or that of the values"""
    axis = op.int_attr("axis")
    signed, narrow = op.bool_attr("signed_input"), op.bool_attr("narrow_range")
    bits = op.ints(3)[0] if op.node.op.endswith("3") else op.int_attr("num_bits")
    if not 1 <= bits - signed <= 62:
        raise ModelInvalid("E13014", f"num_bits: {bits}", where=op.where)
    first = float(-(1 << (bits - 1)) + narrow) if signed else 0.0
    last = float((1 << (bits - signed)) - 1)
    x, dtype = op.cast(op.input(0), DType.FLOAT32), op.dtype(0)
    if dtype is DType.FLOAT64:
        raise op.refuse("values of type float64")
    if op.bool_attr("range_given"):
        low, high = _range(op, op.input(1), op.input(2))
    else:
        others = op.const([other for other in range(op.rank(0)) if other != axis % op.rank(0) or axis < 0])
        low, high = (Formula(op, op.add(kind, x, others, keepdims=0)) for kind in ("ReduceMin", "ReduceMax"))
    scale, inverse = _scale(low, high, first, last)
    low, high = inverse * first, inverse * last
    low, high, scale, inverse = _beside(op, x, low, high, scale, inverse, axis=axis)
    inside = Formula(op, x)
    if op.bool_attr("range_given"):
        inside = inside.least(high).most(low)
    steps = inside * scale
    is_even = op.node.op.endswith("3") or op.text_attr("round_mode") == "HALF_TO_EVEN"
    steps = steps.round_even() if is_even else (steps + 0.5).floor()
    return op.cast((steps * inverse).value, dtype)


def _scale(low: Formula, high: Formula, first: float, last: float) -> tuple[Formula, Formula]:
    """The factor that fits a range into [first, last], and what undoes it."""
    by_high = (last / high).where(high > 0, _LARGEST)
    if first >= 0:
        return by_high, high / last
    by_low = (first / low).where(low < 0, _LARGEST)
    is_low = by_low < by_high
    return by_low.where(is_low, by_high), (low / first).where(is_low, high / last)


# --- integers that stand for numbers -------------------------------------------------------------------------


def _limits(op: Op, dtype: DType) -> tuple[float, float]:
    if not dtype.is_int:
        raise ModelInvalid("E13014", f"integers of type {dtype.long}", where=op.where)
    signed = dtype.name.startswith("INT")
    high = 1 << (dtype.bits - signed)
    return float(-high if signed else 0), float(high - 1)


@maps("QuantizeV2")
def quantize(op: Op) -> list[Value]:
    """Its formula by mode: MIN_COMBINED, MIN_FIRST, SCALED"""
    dtype, mode, axis = op.dtype_attr("T"), op.text_attr("mode"), op.int_attr("axis")
    first, last = _limits(op, dtype)
    x = Formula(op, op.cast(op.input(0), DType.FLOAT32))
    low, high = _range(op, op.input(1), op.input(2))
    low = low.least(0)
    width = abs(low).most(abs(high)).most(1) * op.float_attr("ensure_minimum_range")
    high = high.most(low + width).most(0)
    if mode == "SCALED":
        first += op.bool_attr("narrow_range")
        scale, _ = _scale(low, high, first, last)
        low, high = first / scale, last / scale
        least, most, factor = _beside(op, x.value, low, high, scale, axis=axis)
        steps = x.least(most).most(least) * factor
        is_even = op.text_attr("round_mode") == "HALF_TO_EVEN"
        steps = steps.round_even() if is_even else steps.round_away()
    elif axis >= 0:
        raise op.refuse(f"mode {mode} with a range for each place of axis {axis}")
    elif mode == "MIN_COMBINED":
        steps = (x.least(high).most(low) - low) * ((last - first) / (high - low))
        steps = (steps - (last - first + 1) / 2).round_away() if first else (steps + 0.5).floor()
    elif mode == "MIN_FIRST":
        if dtype is DType.INT32:
            raise op.refuse("mode MIN_FIRST to 32 bits")
        count = last - first + 1
        scale = count / ((high - low) * (count / (count - 1)))
        steps = ((x * scale).round_away() - ((low * scale).round_away() - first)).most(first).least(last)
    else:
        raise ModelInvalid("E13014", f"mode: {mode}", where=op.where)
    return [op.cast(steps.value, dtype), low.value, high.value]


@maps("Dequantize")
def dequantize(op: Op) -> Value:
    """Its formula by mode: MIN_COMBINED, MIN_FIRST, SCALED"""
    mode, axis = op.text_attr("mode"), op.int_attr("axis")
    first, last = _limits(op, op.dtype(0))
    x = Formula(op, op.cast(op.input(0), DType.FLOAT32))
    low, high = _range(op, op.input(1), op.input(2))
    if mode == "SCALED":
        first += op.bool_attr("narrow_range")
        scale = (low / first).most(high / last) if first < 0 else high / last
        (scale,) = _beside(op, x.value, scale, axis=axis)
        y = x * scale
    elif axis >= 0 and mode == "MIN_FIRST":
        raise op.refuse(f"mode {mode} with a range for each place of axis {axis}")
    elif mode == "MIN_COMBINED":
        scale = (high - low) / (last - first)
        low, scale = _beside(op, x.value, low, scale, axis=axis)
        y = (x + ((last - first + 1) / 2 if first else 0)) * scale + low
    elif mode == "MIN_FIRST":
        scale = (high - low) / (last - first)
        begin = ((low / scale).round_away() * scale).where(high > low, low)
        y = x * scale + (begin - scale * first)
    else:
        raise ModelInvalid("E13014", f"mode: {mode}", where=op.where)
    return op.cast(y.value, op.dtype_attr("dtype"))
