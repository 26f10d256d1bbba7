"""Integers that stand for real numbers, as the graphs of TensorFlow 1 compute with them.

A range says which numbers the lowest and the highest integer of a type stand for. TensorFlow rounds some of its
formulas to float32 and others to float64; results have its bits only if each step is rounded where it rounds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from atcpy.ir import DType, Value
from atcpy.ir.arithmetic import Expr, IndexExpr, join, size_of
from atcpy.parsers.tensorflow.evaluation import find_constant
from atcpy.parsers.tensorflow.op import OpBuilder, maps
from atcpy.parsers.tensorflow.ops.spatial.conv import Layout, pooled, steps_of, whole_shape, window_of

_NHWC = Layout(4, is_first=False)
_LAST_FLOAT = 2147483520.0  # the largest int32 that is a float32
_ADDED_BITS = {"QuantizedAdd": 14, "QuantizedBiasAdd": 17}  # of a sum, more than those of its terms
_Multiply = Callable[[Value, Value, Value | None, Value | None], Value]  # two factors and their zero points, if any


def limits(b: OpBuilder, dtype: DType) -> tuple[float, float]:
    """The lowest and the highest integer of a type."""
    if not dtype.is_int:
        raise b.invalid(f"integers of type {dtype.long}")
    signed = dtype.name.startswith("INT")
    high = 1 << (dtype.bits - signed)
    return float(-high if signed else 0), float(high - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """The numbers that the integers of a type stand for: float32 scalars."""

    b: OpBuilder
    dtype: DType
    low: Expr
    high: Expr

    @staticmethod
    def of(b: OpBuilder, dtype: DType, low: Value, high: Value) -> Range:
        """The range between two values."""
        return Range(b, dtype, *(Expr(b, b.cast(end, DType.FLOAT32)) for end in (low, high)))

    @property
    def limits(self) -> tuple[float, float]:
        """The lowest and the highest integer."""
        return limits(self.b, self.dtype)

    @property
    def _intervals(self) -> float:
        first, last = self.limits
        return last - first

    @property
    def _width(self) -> Expr:
        return (self.high - self.low).cast(DType.FLOAT64)

    @property
    def _is_point(self) -> Expr:
        return self.low.equals(self.high)

    @property
    def ends(self) -> list[Value]:
        """The range as the last two outputs of an op."""
        return [self.low.value, self.high.value]

    def decode(self, x: Value) -> Value:
        """Compute the numbers in float32, as for whole tensors."""
        step = (self._width / self._intervals).cast(DType.FLOAT32)
        begin = self.low.where(self._is_point, (self.low / step).round_half_away() * step)
        integers = Expr(self.b, self.b.cast(x, DType.FLOAT32))
        return (integers * step + (begin - step * self.limits[0])).value

    def encode(self, x: Value) -> Value:
        """Compute the nearest integers of numbers in float32, as for whole tensors."""
        first, last = self.limits
        each = (self._intervals / self._width).cast(DType.FLOAT32).masked_fill(self._is_point, 0)
        begin = (self.low * each).round_half_away() - first
        integers = (Expr(self.b, x) * each).round_half_away() - begin
        return integers.max(first).min(min(last, _LAST_FLOAT)).cast(DType.INT32).cast(self.dtype).value

    @property
    def _wide_step(self) -> Expr:
        count = self._intervals + 1
        return self._width * (count / self._intervals) / count

    def decode_one(self, x: Value) -> Value:
        """Compute the number of a single integer in float64, rounded to float32 at the end."""
        wide = self._wide_step
        step = wide.cast(DType.FLOAT32)
        begin = ((self.low / step).round_half_away() * step).cast(DType.FLOAT64)
        # TensorFlow converts integers of 32 bits by way of float32.
        integer = Expr(self.b, self.b.cast(self.b.cast(x, DType.FLOAT32), DType.FLOAT64))
        number = (begin + (integer - self.limits[0]) * wide).cast(DType.FLOAT32)
        return self.low.where(self._is_point, number).value

    def encode_one(self, x: Expr) -> Expr:
        """Compute the nearest integer of a single number in float64; it may lie outside of the type."""
        count = self._intervals + 1
        each = count / (self._width * (count / self._intervals))
        begin = (self.low.cast(DType.FLOAT64) * each).round_half_away() - self.limits[0]
        nearest = (x.cast(DType.FLOAT64) * each).round_half_away() - begin
        return nearest.masked_fill(self._is_point, self.limits[0])

    def encode_clipped(self, number: float) -> Value:
        """Compute the integer of the type that is nearest to a number."""
        nearest = self.encode_one(self.low.like(number)).clip(*self.limits)
        return nearest.cast(self.dtype).value

    @property
    def zero_point(self) -> Expr:
        """The integer that stands for 0, in float64."""
        return self.encode_one(self.low.like(0))


def _input_range(b: OpBuilder, index: int, low: int) -> Range:
    """The range of input `index`, whose ends are the inputs `low` and `low` + 1."""
    return Range.of(b, b.dtype(index), b.input(low), b.input(low + 1))


def _result_type(b: OpBuilder, name: str) -> None:
    """Raises Unsupported unless the op computes integers of 32 bits."""
    if b.dtype_attr(name) is not DType.INT32:
        raise b.unsupported(f"results of type {b.dtype_attr(name).long}", "take qint32, and requantize it")


# --- other ranges ------------------------------------------------------------------------------------------


@maps("RequantizationRange")
def requantization_range(b: OpBuilder) -> list[Value]:
    """The numbers that the smallest and the largest element stand for, the first not above 0"""
    return _used_range(b, b.dtype(0)).ends


def _used_range(b: OpBuilder, dtype: DType) -> Range:
    whole = _input_range(b, 0, 1)
    low, high = (whole.decode_one(b.op(kind, b.input(0), keepdims=0)) for kind in ("ReduceMin", "ReduceMax"))
    return Range(b, dtype, Expr(b, low).min(0), Expr(b, high))


@maps("Requantize", "QuantizeDownAndShrinkRange")
def requantize(b: OpBuilder) -> list[Value]:
    """From a range to another, in fixed point from 32 bits to quint8; QuantizeDownAndShrinkRange: to that in use"""
    dtype = b.dtype_attr("out_type")
    if b.node.op == "Requantize":
        lowest = find_constant(b.input(3), b.known)
        if lowest is not None and (lowest > 0).any():
            raise b.invalid(f"requested_output_min is {lowest.max()}: 0 must lie in the range")
        target = Range.of(b, dtype, b.input(3), b.input(4))
    else:
        target = _used_range(b, dtype)
    source = _input_range(b, 0, 1)
    if (source.dtype, dtype) == (DType.INT32, DType.UINT8):
        return [_in_fixed_point(b, source, target), *target.ends]
    return [target.encode(source.decode(b.input(0))), *target.ends]


def _in_fixed_point(b: OpBuilder, source: Range, target: Range) -> Value:
    """To 8 bits with 16 bits behind the point."""
    one, last = float(1 << 16), 255.0
    source_width, target_width = (range_.high - range_.low for range_ in (source, target))
    is_point = target_width.equals(0)
    width = target_width.masked_fill(is_point, 1).cast(DType.FLOAT64)
    factor = source_width.cast(DType.FLOAT64) * (last * one) / width
    inverse = (last / width).cast(DType.FLOAT32)
    middle = ((source.low + source.high).cast(DType.FLOAT64) / 2).cast(DType.FLOAT32)
    offset = (middle * inverse * one).cast(DType.INT64)
    low = (target.low.cast(DType.FLOAT64) * last * one / width).round_half_away().cast(DType.INT64)
    x = Expr(b, b.cast(b.cast(b.input(0), DType.FLOAT32), DType.INT64))  # by way of float32, as TensorFlow
    steps = _shift_right(x * factor.cast(DType.INT64), 32) + (offset - low + (1 << 15))
    return _shift_right(steps, 16).clip(0, last).masked_fill(is_point, 0).cast(DType.UINT8).value


def _shift_right(x: Expr, bits: int) -> Expr:
    """Divide by a power of two, rounding down."""
    return (x - x % (1 << bits)) / (1 << bits)


# --- products ------------------------------------------------------------------------------------------------


@maps("QuantizedMatMul")
def quantized_matmul(b: OpBuilder) -> list[Value]:
    """MatMulInteger; zero points that are computed are multiplied with sums of the factors. And the product's range"""
    _result_type(b, "Toutput")
    x, w = (
        b.transpose(b.input(index), (1, 0)) if b.bool_attr(name) else b.input(index)
        for index, name in enumerate(("transpose_a", "transpose_b"))
    )
    ones = [_ones(b, x, (1, None)), _ones(b, w, (None, 1))]

    def multiply(x: Value, w: Value, x_zero: Value | None, w_zero: Value | None) -> Value:
        return b.op("MatMulInteger", x, w, x_zero, w_zero)

    return _product(b, multiply, [x, w], ones)


@maps("QuantizedConv2D")
def quantized_conv(b: OpBuilder) -> list[Value]:
    """ConvInteger; zero points that are computed are multiplied with sums of the factors. And the product's range"""
    _result_type(b, "out_type")
    steps = steps_of(b, _NHWC)
    if len({*steps.strides}) != 1 or {*steps.dilations} != {1}:
        raise b.unsupported(f"strides {steps.strides}, dilations {steps.dilations}: one stride, no dilation")
    kernel = whole_shape(b, 1, 4)[:2]
    x, w = _NHWC.enter(b, b.input(0)), b.transpose(b.input(1), (3, 2, 0, 1))
    pads = _conv_pads(b, x, kernel, steps.strides[0], is_valid=steps.pads is not None)
    numbers = [pad.number for pad in pads]
    known = [number for number in numbers if number is not None and number >= 0]

    def multiply(x: Value, w: Value, x_zero: Value | None, w_zero: Value | None) -> Value:
        if known != numbers:
            zero = IndexExpr.of(b, [0, 0])
            fill = b.const(0, x.desc.dtype) if x_zero is None else x_zero
            x = b.op("Pad", x, join(b, [zero, *pads[:2], zero, *pads[2:]]).value, fill)
        attrs = {"strides": steps.strides, "pads": tuple(known) if known == numbers else (0,) * 4}
        return b.op("ConvInteger", x, w, x_zero, w_zero, **attrs)

    ones = [_ones(b, x, (1, None, None, None)), _ones(b, w, (1, None, None, None))]
    product, *ends = _product(b, multiply, [x, w], ones)
    return [_NHWC.leave(b, product), *ends]


def _conv_pads(b: OpBuilder, x: Value, kernel: Sequence[int], stride: int, *, is_valid: bool) -> list[IndexExpr]:
    """The pads before and after the rows and columns. Where the windows leave some of the picture out, TensorFlow
    leaves out half of that before them: pads below 0.
    """
    begins, ends = [], []
    for axis, taps in enumerate(kernel):
        size = size_of(b, x, axis + 2)
        windows = (size + (stride - (taps if is_valid else 1))) // stride
        total = (windows + -1) * stride + taps - size
        left_out = (total * -1 + (-1 if is_valid else 0)).max(0)
        begins.append(total.max(0) // 2 - left_out // 2)
        ends.append(total - begins[-1])
    return [*begins, *ends]


def _ones(b: OpBuilder, like: Value, sizes: Sequence[int | None]) -> Value:
    """Ones of the type of a value, and of its sizes where those are None."""
    parts = [IndexExpr.of(b, [size]) if size is not None else size_of(b, like, axis) for axis, size in enumerate(sizes)]
    return b.op("Expand", b.const(1, like.desc.dtype), join(b, parts).value)


def _product(b: OpBuilder, multiply: _Multiply, factors: Sequence[Value], ones: Sequence[Value]) -> list[Value]:
    """The product of two factors less their zero points. A zero point that is computed, or outside of its type, is
    taken from the product: (x − p)(w − q) = xw − p·1w − q·x1 + pq·11.
    """
    ranges = [_input_range(b, index, 2 + 2 * index) for index in range(2)]
    points = [_as_zero_point(b, each) for each in ranges]
    (x, w), (ones_x, ones_w), (p, q) = factors, ones, points
    result = Expr(b, multiply(x, w, p, q))
    of_x, of_w = (each.zero_point.cast(DType.INT32) for each in ranges)
    if p is None:
        result = result - of_x * Expr(b, multiply(ones_x, w, None, q))
    if q is None:
        result = result - of_w * Expr(b, multiply(x, ones_w, p, None))
    if p is None and q is None:
        result = result + of_x * of_w * Expr(b, multiply(ones_x, ones_w, None, None))
    return [result.value, *_product_range(b, ranges)]


def _as_zero_point(b: OpBuilder, each: Range) -> Value | None:
    """The zero point as an input of an op of the standard; None if it is computed, or outside of the type."""
    number = find_constant(each.zero_point.value, b.known)
    first, last = each.limits
    if number is None or number.size != 1 or not first <= number.item() <= last:
        return None
    return b.const(int(number.item()), each.dtype)


def _product_range(b: OpBuilder, ranges: Sequence[Range]) -> list[Value]:
    levels = [(each.high - each.low) / (each.limits[1] - each.limits[0]) for each in ranges]
    return [(levels[0] * levels[1] * end).value for end in limits(b, DType.INT32)]


@maps("QuantizedMul")
def quantized_mul(b: OpBuilder) -> list[Value]:
    """Mul of the integers less their zero points, and the range of the product"""
    _result_type(b, "Toutput")
    ranges = [_input_range(b, index, 2 + 2 * index) for index in range(2)]
    x, y = (b.expr(index).cast(DType.INT32) - each.zero_point.cast(DType.INT32) for index, each in enumerate(ranges))
    return [(x * y).value, *_product_range(b, ranges)]


# --- sums ------------------------------------------------------------------------------------------------------


def _sum_range(b: OpBuilder) -> tuple[list[Range], Range]:
    """The ranges of two terms, and one around 0 that leaves room for further sums."""
    terms = [_input_range(b, index, 2 + 2 * index) for index in range(2)]
    largest = reduce(Expr.max, [end for each in terms for end in (each.high, -each.low)])
    high = largest * float(1 << _ADDED_BITS[b.node.op])
    return terms, Range(b, DType.INT32, -high, high)


@maps("QuantizedBiasAdd")
def quantized_bias_add(b: OpBuilder) -> list[Value]:
    """Add of both in a range for the sum, and that range"""
    _result_type(b, "out_type")
    terms, total = _sum_range(b)
    x, bias = (Expr(b, total.encode(each.decode(b.input(index)))) for index, each in enumerate(terms))
    return [(x + (bias + Expr(b, total.encode_clipped(0)))).value, *total.ends]


@maps("QuantizedAdd")
def quantized_add(b: OpBuilder) -> list[Value]:
    """Add of both in a range for the sum, and that range"""
    _result_type(b, "Toutput")
    terms, total = _sum_range(b)
    x, y = (_shifted(b, b.input(index), each, total) for index, each in enumerate(terms))
    return [(x + y).value, *total.ends]


def _shifted(b: OpBuilder, x: Value, source: Range, target: Range) -> Expr:
    """Integers in another range, by what 0 and 1 are there."""
    at_0, at_1 = (
        target.encode_one(Expr(b, source.decode_one(b.const(integer, source.dtype)))).cast(DType.INT64)
        for integer in (0, 1)
    )
    steps = at_0 + Expr(b, b.cast(x, DType.INT64)) * (at_1 - at_0)
    return steps.clip(*target.limits).cast(DType.INT32)


# --- what keeps the range ------------------------------------------------------------------------------------------


@maps("QuantizedRelu", "QuantizedRelu6")
def quantized_relu(b: OpBuilder) -> list[Value]:
    """Max with the integer that stands for 0, and Min with that for 6"""
    own = _input_range(b, 0, 1)
    if b.dtype_attr("out_type") is not own.dtype:
        raise b.unsupported(f"results of type {b.dtype_attr('out_type').long} of {own.dtype.long}")
    y = b.op("Max", b.input(0), own.encode_clipped(0))
    if b.node.op == "QuantizedRelu6":
        y = b.op("Min", y, own.encode_clipped(6))
    return [y, *own.ends]


@maps("QuantizedMaxPool", "QuantizedAvgPool")
def quantized_pool(b: OpBuilder) -> list[Value]:
    """MaxPool; AveragePool, rounded toward the integer 0"""
    x, kernel, steps = b.input(0), window_of(b, b.ints_attr("ksize"), _NHWC), steps_of(b, _NHWC)
    ends = [b.input(1), b.input(2)]
    if b.node.op == "QuantizedMaxPool":
        return [pooled(b, "MaxPool", _NHWC, kernel, steps, x.desc.dtype), *ends]
    means = Expr(b, pooled(b, "AveragePool", _NHWC, kernel, steps, DType.FLOAT32))
    # A mean of integers is as far from the next one as its number of terms says: half of that is no integer too much.
    size = (abs(means) + 0.5 / (kernel[0] * kernel[1])).floor() * means.apply("Sign")
    return [size.cast(x.desc.dtype).value, *ends]


@maps("QuantizedConcat")
def quantized_concat(b: OpBuilder) -> list[Value]:
    """Concat of all in one range, and that range"""
    count = b.int_attr("N")
    if len(b.inputs) != 3 * count + 1:
        raise b.invalid(f"{len(b.inputs)} inputs for {count} values and their ranges")
    parts = [Range.of(b, b.dtype(1 + i), b.input(1 + count + i), b.input(1 + 2 * count + i)) for i in range(count)]
    low, high = reduce(Expr.min, [part.low for part in parts]).min(0), reduce(Expr.max, [part.high for part in parts])
    whole = Range(b, b.dtype(1), low, high)
    values = []
    for index, part in enumerate(parts):
        x = b.expr(1 + index)
        is_same = part.low.equals(whole.low) & part.high.equals(whole.high)
        values.append(x.where(is_same, Expr(b, whole.encode(part.decode(x.value)))).value)
    (axis,) = b.axes(0, b.rank(1))
    return [b.op("Concat", *values, axis=axis), *whole.ends]


@maps("QuantizedReshape")
def quantized_reshape(b: OpBuilder) -> list[Value]:
    """Reshape"""
    return [b.op("Reshape", b.input(0), b.int64_input(1), allowzero=1), b.input(2), b.input(3)]
