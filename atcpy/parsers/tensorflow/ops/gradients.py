"""Gradients of elementwise ops, and losses with theirs, as graphs that train have them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from atcpy.ir import Value
from atcpy.ir.arithmetic import Expr
from atcpy.ops.lowerings.activation_gradients import BY_INPUT, BY_RESULT
from atcpy.ops.lowerings.losses import cross_entropy, minus_one_at_label, negative_log_likelihood
from atcpy.parsers.tensorflow.op import MappingFunction, OpBuilder, formula, maps, maps_all


def _leaky_relu(b: OpBuilder) -> Value:
    return BY_INPUT["LeakyRelu"](b.expr(0), b.expr(1), b.float_attr("alpha")).value


def _result_first(name: str) -> MappingFunction:
    """Return the mapping function of a gradient whose inputs are y and then dy."""

    def gradient(y: Expr, dy: Expr) -> Expr:
        return BY_RESULT[name](dy, y)

    return formula(gradient)


maps_all(
    {
        "ReluGrad": ("The gradient where the feature is above 0", formula(BY_INPUT["Relu"])),
        "Relu6Grad": ("The gradient where the feature is above 0, and below 6", formula(BY_INPUT["Relu6"])),
        "LeakyReluGrad": ("The gradient, times alpha where the feature is not above 0", _leaky_relu),
        "SoftplusGrad": ("The gradient times Sigmoid", formula(BY_INPUT["Softplus"])),
        "SoftsignGrad": ("The gradient / (1 + |x|)²", formula(BY_INPUT["Softsign"])),
        "EluGrad": ("The gradient times y + 1 where y is below 0", formula(BY_RESULT["Elu"])),
        "SeluGrad": ("The gradient times y + α · γ where y is below 0, and γ elsewhere", formula(BY_RESULT["Selu"])),
        "SigmoidGrad": ("The gradient times y · (1 − y)", _result_first("Sigmoid")),
        "TanhGrad": ("The gradient times 1 − y²", _result_first("Tanh")),
        "SqrtGrad": ("The gradient / 2y", _result_first("Sqrt")),
        "RsqrtGrad": ("The gradient times −y³ / 2", _result_first("Rsqrt")),
        "InvGrad ReciprocalGrad": ("The gradient times −y²", _result_first("Reciprocal")),
    }
)


@maps("BiasAddGrad")
def bias_grad(b: OpBuilder) -> Value:
    """ReduceSum over all dims but that of the channels"""
    rank = b.rank(0)
    channels = 1 if b.text_attr("data_format").startswith("NC") else rank - 1
    return b.op("ReduceSum", b.input(0), b.const([axis for axis in range(rank) if axis != channels]), keepdims=0)


@maps("SoftmaxCrossEntropyWithLogits")
def dense_loss(b: OpBuilder) -> Sequence[Value | None]:
    """−Σ labels · LogSoftmax, and Softmax − labels"""
    labels = b.input(1)
    x = b.op("Expand", b.input(0), b.op("Shape", labels))
    loss = cross_entropy(b, b.op("LogSoftmax", x, axis=-1), labels)
    return [loss, b.op("Sub", b.op("Softmax", x, axis=-1), labels)]


@maps("SparseSoftmaxCrossEntropyWithLogits")
def sparse_loss(b: OpBuilder) -> Sequence[Value | None]:
    """−LogSoftmax at the label, and Softmax less 1 there; NaN where there is no such class"""
    x, labels = b.input(0), Expr(b, b.int64_input(1))
    outside = (labels < 0) | (labels.apply("GreaterOrEqual", Expr(b, b.dim(x, 1))))
    classes = labels.masked_fill(outside, 0).value
    loss = negative_log_likelihood(b, b.op("LogSoftmax", x, axis=-1), classes, 1)
    gradient = minus_one_at_label(b, b.op("Softmax", x, axis=-1), classes, 1)
    return [
        Expr(b, loss).masked_fill(outside, math.nan).value,
        Expr(b, gradient).masked_fill(outside.unsqueeze(1), math.nan).value,
    ]
