"""Quantization: values rounded to a few bits, and integers that stand for real numbers.

Composed in exactly the order of TensorFlow's kernels, in float32: a value on a border must go to the same side.
"""

from __future__ import annotations

import numpy as np

from atcpy.ir import DType, Value
from atcpy.ir.arithmetic import Expr
from atcpy.parsers.tensorflow.op import OpBuilder, maps
from atcpy.parsers.tensorflow.ops.quantized import Range, limits

_LARGEST = float(np.finfo(np.float32).max)


def _range(b: OpBuilder, low: Value, high: Value) -> tuple[Expr, Expr]:
    return Expr(b, b.cast(low, DType.FLOAT32)), Expr(b, b.cast(high, DType.FLOAT32))


def _beside(b: OpBuilder, x: Value, *numbers: Expr, axis: int) -> list[Expr]:
    """Numbers for each index of an axis of x, so that they broadcast; with axis −1 they are for all."""
    if axis < 0:
        return list(numbers)
    after = len(b.shape_of(x)) - axis - 1
    return [number.unsqueeze(*range(1, after + 1)) if after else number for number in numbers]


# --- FakeQuant -----------------------------------------------------------------------------------------


@maps("FakeQuantWithMinMaxArgs")
def fake_quant(b: OpBuilder) -> Value:
    """Clip, and rounding to the nearest of 2^num_bits steps"""
    low, high = (b.const(b.float_attr(name), DType.FLOAT32) for name in ("min", "max"))
    return _stepped(b, low, high)


@maps("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quant_with_range(b: OpBuilder) -> Value:
    """Clip, and rounding to the nearest of 2^num_bits steps; a range for all, or one a channel"""
    return _stepped(b, b.input(1), b.input(2))


def _stepped(b: OpBuilder, smallest: Value, largest: Value) -> Value:
    bits = b.int_attr("num_bits")
    if not 2 <= bits <= 16:
        raise b.invalid(f"num_bits: {bits}")
    first, last = float(b.bool_attr("narrow_range")), float(2**bits - 1)
    x, (low, high) = Expr(b, b.input(0)), _range(b, smallest, largest)
    scale = (high - low) / (last - first)
    zero = first - low / scale
    zero = zero.round_half_away().max(first).min(last)
    low_nudged, high_nudged = (first - zero) * scale, (last - zero) * scale
    shifted = x.min(high_nudged).max(low_nudged) - low_nudged
    if b.node.op.endswith("PerChannel"):
        y = (shifted / scale + 0.5).floor() * scale + low_nudged
    else:
        inverse = 1 / scale
        y = (shifted * inverse - (-low_nudged * inverse + 0.5).floor() + 0.5).floor() * scale
    if largest.tensor is not None and largest.array.all():
        return y.value
    nothing = Expr(b, b.const(0.0, DType.FLOAT32))
    return nothing.where(low.equals(0) & high.equals(0), y).value


# --- QuantizeAndDequantize ---------------------------------------------------------------------------------


@maps("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4")
def quantize_and_back(b: OpBuilder) -> Value:
    """Rounding to steps of one size; the range is given, or that of the values"""
    axis = b.int_attr("axis")
    signed, narrow = b.bool_attr("signed_input"), b.bool_attr("narrow_range")
    bits = b.ints(3)[0] if b.node.op.endswith("3") else b.int_attr("num_bits")
    if not 1 <= bits - signed <= 62:
        raise b.invalid(f"num_bits: {bits}")
    first = float(-(1 << (bits - 1)) + narrow) if signed else 0.0
    last = float((1 << (bits - signed)) - 1)
    x, dtype = b.cast(b.input(0), DType.FLOAT32), b.dtype(0)
    if dtype is DType.FLOAT64:
        raise b.unsupported("values of type float64")
    if b.bool_attr("range_given"):
        low, high = _range(b, b.input(1), b.input(2))
    else:
        others = b.const([other for other in range(b.rank(0)) if other != axis % b.rank(0) or axis < 0])
        low, high = (Expr(b, b.op(kind, x, others, keepdims=0)) for kind in ("ReduceMin", "ReduceMax"))
    scale, inverse = _scale(low, high, first, last)
    low, high = inverse * first, inverse * last
    low, high, scale, inverse = _beside(b, x, low, high, scale, inverse, axis=axis)
    inside = Expr(b, x)
    if b.bool_attr("range_given"):
        inside = inside.min(high).max(low)
    steps = inside * scale
    is_even = b.node.op.endswith("3") or b.text_attr("round_mode") == "HALF_TO_EVEN"
    steps = steps.round_half_even() if is_even else (steps + 0.5).floor()
    return b.cast((steps * inverse).value, dtype)


def _scale(low: Expr, high: Expr, first: float, last: float) -> tuple[Expr, Expr]:
    """The factor that fits a range into [first, last], and what undoes it."""
    by_high = (last / high).where(high > 0, _LARGEST)
    if first >= 0:
        return by_high, high / last
    by_low = (first / low).where(low < 0, _LARGEST)
    is_low = by_low < by_high
    return by_low.where(is_low, by_high), (low / first).where(is_low, high / last)


# --- integers that stand for numbers -------------------------------------------------------------------------


@maps("QuantizeV2")
def quantize(b: OpBuilder) -> list[Value]:
    """Its formula by mode: MIN_COMBINED, MIN_FIRST, SCALED"""
    dtype, mode, axis = b.dtype_attr("T"), b.text_attr("mode"), b.int_attr("axis")
    first, last = limits(b, dtype)
    x = Expr(b, b.cast(b.input(0), DType.FLOAT32))
    low, high = _range(b, b.input(1), b.input(2))
    low = low.min(0)
    width = abs(low).max(abs(high)).max(1) * b.float_attr("ensure_minimum_range")
    high = high.max(low + width).max(0)
    if mode == "SCALED":
        first += b.bool_attr("narrow_range")
        scale, _ = _scale(low, high, first, last)
        low, high = first / scale, last / scale
        lowest, highest, factor = _beside(b, x.value, low, high, scale, axis=axis)
        steps = x.min(highest).max(lowest) * factor
        is_even = b.text_attr("round_mode") == "HALF_TO_EVEN"
        steps = steps.round_half_even() if is_even else steps.round_half_away()
    elif axis >= 0:
        raise b.unsupported(f"mode {mode} with a range for each index of axis {axis}")
    elif mode == "MIN_COMBINED":
        steps = (x.min(high).max(low) - low) * ((last - first) / (high - low))
        steps = (steps - (last - first + 1) / 2).round_half_away() if first else (steps + 0.5).floor()
    elif mode == "MIN_FIRST":
        return [Range(b, dtype, low, high).encode(x.value), low.value, high.value]
    else:
        raise b.invalid(f"mode: {mode}")
    return [b.cast(steps.value, dtype), low.value, high.value]


@maps("Dequantize")
def dequantize(b: OpBuilder) -> Value:
    """Its formula by mode: MIN_COMBINED, MIN_FIRST, SCALED"""
    mode, axis = b.text_attr("mode"), b.int_attr("axis")
    first, last = limits(b, b.dtype(0))
    x = Expr(b, b.cast(b.input(0), DType.FLOAT32))
    low, high = _range(b, b.input(1), b.input(2))
    if mode == "SCALED":
        first += b.bool_attr("narrow_range")
        scale = (low / first).max(high / last) if first < 0 else high / last
        (scale,) = _beside(b, x.value, scale, axis=axis)
        y = x * scale
    elif axis >= 0 and mode == "MIN_FIRST":
        raise b.unsupported(f"mode {mode} with a range for each index of axis {axis}")
    elif mode == "MIN_COMBINED":
        scale = (high - low) / (last - first)
        low, scale = _beside(b, x.value, low, scale, axis=axis)
        y = (x + ((last - first + 1) / 2 if first else 0)) * scale + low
    elif mode == "MIN_FIRST":
        y = Expr(b, Range(b, b.dtype(0), low, high).decode(x.value))
    else:
        raise b.invalid(f"mode: {mode}")
    return b.cast(y.value, b.dtype_attr("dtype"))
