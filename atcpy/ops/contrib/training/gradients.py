"""Gradients of elementwise ops, softmax and dropout, as ONNX Runtime's training writes them."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import Value
from atcpy.ir.arithmetic import Expr
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.contrib.record import STANDARD, contrib
from atcpy.ops.lowerings.activation_gradients import BY_INPUT, BY_RESULT
from atcpy.ops.lowerings.broadcast_gradients import division_gradients

# --- elementwise ----------------------------------------------------------------------------------


@contrib("SinGrad", "dY X", domain=STANDARD)
@contrib("ReluGrad GeluGrad FastGeluGrad", "dY X")
def by_input(e: Expansion) -> Value:
    """The gradient of the function that the op is named after, by its input; ReluGrad's may be the result as well."""
    return BY_INPUT[e.node.op_type.removesuffix("Grad")](*_exprs(e, "dY X")).value


@contrib("SigmoidGrad TanhGrad", "dY Y")
def by_result(e: Expansion) -> Value:
    """The gradient of the function that the op is named after, by its result."""
    return BY_RESULT[e.node.op_type.removesuffix("Grad")](*_exprs(e, "dY Y")).value


@contrib("LeakyReluGrad", "dY Y", "alpha:f")
def leaky_relu_grad(e: Expansion) -> Value:
    """dY where Y > 0, alpha · dY elsewhere."""
    return BY_INPUT["LeakyRelu"](*_exprs(e, "dY Y"), e.node.float_attr("alpha", 0.01)).value


@contrib("QuickGeluGrad", "dY X", "alpha:f")
def quick_gelu_grad(e: Expansion) -> Value:
    """The gradient of X · Sigmoid(alpha · X)."""
    return BY_INPUT["QuickGelu"](*_exprs(e, "dY X"), e.node.float_attr("alpha", 1.702)).value


@contrib("BiasGeluGrad_dX BiasFastGeluGrad_dX", "dY X B")
def bias_gelu_grad(e: Expansion) -> Value:
    """The gradient of Gelu(X + B)."""
    dy, x, bias = _exprs(e, "dY X B")
    return BY_INPUT[e.node.op_type.removeprefix("Bias").removesuffix("Grad_dX")](dy, x + bias).value


def _exprs(e: Expansion, names: str) -> list[Expr]:
    """Return the inputs of these names (space-separated) for arithmetic."""
    return [Expr(e, e.operand(name)) for name in names.split()]


@contrib("DivGrad", "dY A B", outputs=(0, 2))
def div_grad(e: Expansion) -> Sequence[Value]:
    """dY/B and −dY·A/B², each summed to the shape of what it belongs to."""
    a, b = e.operand("A"), e.operand("B")
    return division_gradients(e, e.operand("dY"), a, b, e.op("Div", a, b))


@contrib("BroadcastGradientArgs", "a_shape b_shape", outputs=(0, 2))
def broadcast_axes(e: Expansion) -> Sequence[Value]:
    """The axes, last first, along which a broadcast of the two shapes repeats each of them."""
    shapes = [e.operand("a_shape"), e.operand("b_shape")]
    lengths = [e.op("Shape", shape) for shape in shapes]
    longest = e.op("Max", *lengths)
    missing = e.const([-1])
    padded = [
        e.op("Concat", e.op("Expand", missing, e.op("Sub", longest, length)), shape, axis=0)
        for shape, length in zip(shapes, lengths, strict=True)
    ]
    differ = e.op("Not", e.op("Equal", *padded))
    one, last = e.const(1), e.const([-1])
    results = []
    for shape, other in (padded, padded[::-1]):
        short = e.op("And", e.op("Equal", e.op("Abs", shape), one), e.op("Greater", other, missing))
        repeated = e.op("And", differ, short)
        axes = e.squeeze(e.op("NonZero", repeated), 0)
        results.append(e.op("Slice", axes, last, e.const([-(2**63)]), e.const([0]), last))
    return results


@contrib("ReduceSumTraining", "data axes", "keepdims:i noop_with_empty_axes:i")
def reduce_sum(e: Expansion) -> Value:
    """ReduceSum."""
    return e.op("ReduceSum", e.operand("data"), e.operand("axes"), **e.node.attrs)


# --- softmax and dropout --------------------------------------------------------------------------


def _softmax_axes(e: Expansion, of: Value) -> Value:
    """The axes that were one row: since opset 13 (`_13`) a single one, before all from `axis` on."""
    if e.node.op_type.endswith("_13"):
        return e.const([e.node.int_attr("axis", -1)])
    axis = e.node.int_attr("axis", 1)
    if axis == -1:
        return e.const([-1])
    rank = e.rank_of(of)
    return e.const([*range(e.axis("axis", 1, rank), rank)])


def _through_softmax(dy: Expr, y: Expr, axes: Value) -> Value:
    """Y · (dY − Σ Y · dY)"""
    return (y * (dy - _sum(y * dy, axes))).value


def _sum(x: Expr, axes: Value) -> Expr:
    return Expr(x.b, x.b.op("ReduceSum", x.value, axes, keepdims=1))


@contrib("SoftmaxGrad SoftmaxGrad_13", "dY Y", "axis:i")
def softmax_grad(e: Expansion) -> Value:
    """Y · (dY − Σ Y · dY)"""
    dy, y = _exprs(e, "dY Y")
    return _through_softmax(dy, y, _softmax_axes(e, y.value))


@contrib("LogSoftmaxGrad LogSoftmaxGrad_13", "dY X", "axis:i")
def log_softmax_grad(e: Expansion) -> Value:
    """dY − exp(Y) · Σ dY; X is the result's name in the schema."""
    dy, y = _exprs(e, "dY X")
    return (dy - y.exp() * _sum(dy, _softmax_axes(e, y.value))).value


def _through_dropout(e: Expansion) -> Expr:
    """dy / (1 − ratio) where the mask is true; outside of training nothing was scaled."""
    dy, ratio = Expr(e, e.operand("dy")), e.input("ratio")
    ratio = e.like(0.5, dy.value) if ratio is None else e.scalar(ratio)
    if e.node.op_type == "DropoutGrad" and (mode := e.input("training_mode")) is not None:
        ratio = e.op("Where", e.scalar(mode), ratio, e.like(0.0, ratio))
    scaled = dy / (1.0 - Expr(e, e.cast_like(ratio, dy.value)))
    return scaled.where(Expr(e, e.operand("mask")), 0.0)


@contrib("DropoutGrad", "dy mask ratio? training_mode?", "seed:i")
@contrib("TrainableDropoutGrad", "dy mask ratio?", "seed:i")
def dropout_grad(e: Expansion) -> Value:
    """dy / (1 − ratio) where the mask is true; outside of training nothing was scaled."""
    return _through_dropout(e).value


@contrib("SoftmaxDropoutGrad", "dy mask softmax_y ratio?", "axis:i!")
def softmax_dropout_grad(e: Expansion) -> Value:
    """The gradient of Softmax behind that of Dropout."""
    y = e.operand("softmax_y")
    return _through_softmax(_through_dropout(e), Expr(e, y), _softmax_axes(e, y))
