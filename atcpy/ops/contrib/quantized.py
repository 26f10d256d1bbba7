"""Quantized ops on one tensor or elementwise: DequantizeLinear, the op on floats, QuantizeLinear."""

from __future__ import annotations

from atcpy.ir import Value
from atcpy.ops.contrib.convolution import channels_first, channels_last, window_attrs
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.contrib.movement import as_scalar
from atcpy.ops.contrib.record import contrib
from atcpy.ops.quant.qelementwise import QBINARY

_ELEMENTWISE = "A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point?"
_UNARY = "X X_scale X_zero_point? Y_scale Y_zero_point?"
_POOL = "X x_scale x_zero_point? y_scale y_zero_point?"


def _is_single(value: Value) -> bool:
    return value.desc.shape is not None and all(dim == 1 for dim in value.desc.shape)


def dequantized(e: Expansion, x: Value, scale: Value, zero: Value | None, axis: int | None = None) -> Value:
    """(x − zero) · scale, for all of x or along an axis."""
    if axis is None or _is_single(scale):
        return e.op("DequantizeLinear", x, as_scalar(e, scale), as_scalar(e, zero))
    return e.op("DequantizeLinear", x, scale, zero, axis=axis)


def requantized(e: Expansion, y: Value, scale: Value, zero: Value | None, like: Value) -> Value:
    """round(y / scale) + zero in the type of the zero point, or of `like` if there is none."""
    if zero is None:
        zero = e.like(0, like)
    return e.op("QuantizeLinear", y, as_scalar(e, scale), as_scalar(e, zero))


def _float_of(e: Expansion, name: str, lower: str = "") -> Value:
    """Input `name`, dequantized by the two beside it."""
    own = lower or name
    return dequantized(e, e.operand(name), e.operand(f"{own}_scale"), e.input(f"{own}_zero_point"))


def _quantized(e: Expansion, y: Value, name: str, like: Value) -> Value:
    return requantized(e, y, e.operand(f"{name}_scale"), e.input(f"{name}_zero_point"), like)


def qlinear_binary(e: Expansion) -> Value:
    """Add or Mul"""
    op_type = e.node.op_type.removeprefix("QLinear")
    return _quantized(e, e.op(op_type, _float_of(e, "A"), _float_of(e, "B")), "C", e.operand("A"))


for _kernel in QBINARY:
    contrib(_kernel.name, _ELEMENTWISE, kernel=_kernel)(qlinear_binary)


@contrib("QLinearSigmoid", _UNARY)
def qlinear_sigmoid(e: Expansion) -> Value:
    """Sigmoid"""
    return _quantized(e, e.op("Sigmoid", _float_of(e, "X")), "Y", e.operand("X"))


@contrib("QLinearLeakyRelu", _UNARY, "alpha:f")
def qlinear_leaky_relu(e: Expansion) -> Value:
    """LeakyRelu"""
    y = e.op("LeakyRelu", _float_of(e, "X"), alpha=e.node.float_attr("alpha", 0.01))
    return _quantized(e, y, "Y", e.operand("X"))


@contrib("QLinearSoftmax", "X X_scale x_zero_point? y_scale y_zero_point", "axis:i opset:i!")
def qlinear_softmax(e: Expansion) -> Value:
    """Softmax along an axis, or over all axes from there on as opsets below 13 had it."""
    x = dequantized(e, e.operand("X"), e.operand("X_scale"), e.input("x_zero_point"))
    axis = e.node.int_attr("axis", -1)
    if e.node.int_attr("opset", 13) >= 13 or axis == -1 or axis == e.rank_of(e.operand("X")) - 1:
        y = e.op("Softmax", x, axis=axis)
    else:
        rows = e.op("Softmax", e.op("Flatten", x, axis=axis), axis=-1)
        y = e.op("Reshape", rows, e.op("Shape", x))
    return _quantized(e, y, "y", e.operand("X"))


@contrib(
    "QLinearReduceMean", "data data_scale data_zero_point? reduced_scale reduced_zero_point?", "axes:I! keepdims:i!"
)
def qlinear_reduce_mean(e: Expansion) -> Value:
    """ReduceMean"""
    axes = e.const(e.node.ints_attr("axes"))
    y = e.op("ReduceMean", _float_of(e, "data"), axes, keepdims=e.node.int_attr("keepdims", 1))
    return _quantized(e, y, "reduced", e.operand("data"))


@contrib(
    "QLinearAveragePool",
    _POOL,
    "auto_pad:s ceil_mode:i channels_last:i count_include_pad:i kernel_shape:I! pads:I strides:I",
)
def qlinear_average_pool(e: Expansion) -> Value:
    """AveragePool, of channels last if `channels_last` is 1."""
    return _pool(e, "AveragePool", window_attrs(e))


@contrib("QLinearGlobalAveragePool", "X x_scale x_zero_point y_scale y_zero_point", "channels_last:i")
def qlinear_global_average_pool(e: Expansion) -> Value:
    """GlobalAveragePool"""
    return _pool(e, "GlobalAveragePool", {})


def _pool(e: Expansion, op_type: str, attrs: dict[str, object]) -> Value:
    x = _float_of(e, "X", "x")
    if e.node.int_attr("channels_last", 0):
        rank = e.rank_of(e.operand("X"))
        y = channels_last(e, e.op(op_type, e.transpose(x, (0, rank - 1, *range(1, rank - 1))), **attrs), rank)
    else:
        y = e.op(op_type, x, **attrs)
    return _quantized(e, y, "y", e.operand("X"))


@contrib("QLinearWhere", "condition X x_scale x_zero_point Y y_scale y_zero_point z_scale z_zero_point")
def qlinear_where(e: Expansion) -> Value:
    """Where"""
    y = e.op("Where", e.operand("condition"), _float_of(e, "X", "x"), _float_of(e, "Y", "y"))
    return _quantized(e, y, "z", e.operand("X"))


@contrib("QLinearConcat", "Y_scale Y_zero_point inputs+", "axis:i!")
def qlinear_concat(e: Expansion) -> Value:
    """Concat of triples (x, scale, zero point)."""
    values = e.every("inputs")
    if len(values) % 3:
        raise e.invalid(f"has {len(values)} inputs behind the output's two, which are no triples")
    parts = [dequantized(e, *triple) for triple in zip(values[::3], values[1::3], values[2::3], strict=True)]
    y = e.op("Concat", *parts, axis=e.node.int_attr("axis", 0))
    return requantized(e, y, e.operand("Y_scale"), e.operand("Y_zero_point"), values[0])


@contrib("QuantizeLinear", "x y_scale y_zero_point?", "axis:i")
def quantize_linear(e: Expansion) -> Value:
    """As in the standard; without an axis, lists of one element stand for scalars."""
    x, scale, zero = e.operand("x"), e.operand("y_scale"), e.input("y_zero_point")
    if _is_single(scale):
        return e.op("QuantizeLinear", x, as_scalar(e, scale), as_scalar(e, zero))
    else:
        return e.op("QuantizeLinear", x, scale, zero, axis=e.node.int_attr("axis", 1))


@contrib("DequantizeLinear", "x x_scale x_zero_point?", "axis:i")
def dequantize_linear(e: Expansion) -> Value:
    """As in the standard; without an axis, lists of one element stand for scalars."""
    return dequantized(e, e.operand("x"), e.operand("x_scale"), e.input("x_zero_point"), e.node.int_attr("axis", 1))


@contrib(
    "QLinearConv",
    "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B?",
    "auto_pad:s channels_last:i dilations:I group:i kernel_shape:I pads:I strides:I",
)
def qlinear_conv(e: Expansion) -> Value:
    """QLinearConv of the standard, of channels last if `channels_last` is 1."""
    x, others = e.operand("x"), e.node.inputs[1:]
    is_last = e.node.int_attr("channels_last", 0)
    y = e.op("QLinearConv", channels_first(e, x) if is_last else x, *others, **window_attrs(e))
    return channels_last(e, y, e.rank_of(x)) if is_last else y
