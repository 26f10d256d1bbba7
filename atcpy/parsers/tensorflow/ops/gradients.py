"""Gradients of elementwise ops, and losses with theirs, as graphs that train have them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import OpBuilder, maps

_SELU_SCALE = 1.0507009873554805
_SELU_ALPHA = 1.6732632423543772


@maps("ReluGrad", "Relu6Grad")
def relu_grad(b: OpBuilder) -> Value:
    """The gradient where the feature is above 0, and below 6"""
    gradient, x = b.input(0), b.input(1)
    passes = b.op("Greater", x, b.like(0, x))
    if b.node.op == "Relu6Grad":
        passes = b.op("And", passes, b.op("Less", x, b.like(6, x)))
    return b.op("Where", passes, gradient, b.like(0, gradient))


@maps("LeakyReluGrad")
def leaky_relu_grad(b: OpBuilder) -> Value:
    """The gradient, times alpha where the feature is not above 0"""
    gradient, x = b.input(0), b.input(1)
    less = b.op("Mul", gradient, b.like(b.float_attr("alpha"), x))
    return b.op("Where", b.op("Greater", x, b.like(0, x)), gradient, less)


@maps("EluGrad", "SeluGrad")
def elu_grad(b: OpBuilder) -> Value:
    """From the outputs: below 0 they are an exponential less a constant"""
    gradient, y = b.input(0), b.input(1)
    scale, offset = (1.0, 1.0) if b.node.op == "EluGrad" else (_SELU_SCALE, _SELU_SCALE * _SELU_ALPHA)
    below = b.op("Mul", gradient, b.op("Add", y, b.like(offset, y)))
    above = gradient if scale == 1 else b.op("Mul", gradient, b.like(scale, y))
    return b.op("Where", b.op("Less", y, b.like(0, y)), below, above)


@maps("SoftplusGrad")
def softplus_grad(b: OpBuilder) -> Value:
    """The gradient times Sigmoid"""
    return b.op("Mul", b.input(0), b.op("Sigmoid", b.input(1)))


@maps("SoftsignGrad")
def softsign_grad(b: OpBuilder) -> Value:
    """The gradient / (1 + |x|)²"""
    x = b.input(1)
    divisor = b.op("Add", b.op("Abs", x), b.like(1, x))
    return b.op("Div", b.input(0), b.op("Mul", divisor, divisor))


@maps("SigmoidGrad", "TanhGrad", "SqrtGrad", "RsqrtGrad", "InvGrad", "ReciprocalGrad")
def grad_of_output(b: OpBuilder) -> Value:
    """A polynomial of the output, or its reciprocal, times the gradient"""
    y, gradient = b.input(0), b.input(1)
    square = b.op("Mul", y, y)
    match b.node.op:
        case "SigmoidGrad":
            slope = b.op("Sub", y, square)
        case "TanhGrad":
            slope = b.op("Sub", b.like(1, y), square)
        case "SqrtGrad":
            return b.op("Div", b.op("Mul", gradient, b.like(0.5, y)), y)
        case "RsqrtGrad":
            slope = b.op("Mul", b.op("Mul", square, y), b.like(-0.5, y))
        case _:
            slope = b.op("Neg", square)
    return b.op("Mul", gradient, slope)


@maps("BiasAddGrad")
def bias_grad(b: OpBuilder) -> Value:
    """ReduceSum over all dims but that of the channels"""
    rank = b.rank(0)
    channels = 1 if b.text_attr("data_format").startswith("NC") else rank - 1
    return b.op("ReduceSum", b.input(0), b.const([axis for axis in range(rank) if axis != channels]), keepdims=0)


@maps("SoftmaxCrossEntropyWithLogits")
def cross_entropy(b: OpBuilder) -> Sequence[Value | None]:
    """−Σ labels · LogSoftmax, and Softmax − labels"""
    x, labels = b.input(0), b.input(1)
    x = b.op("Expand", x, b.op("Shape", labels))
    products = b.op("Mul", labels, b.op("LogSoftmax", x, axis=-1))
    loss = b.op("Neg", b.op("ReduceSum", products, b.const([1]), keepdims=0))
    return [loss, b.op("Sub", b.op("Softmax", x, axis=-1), labels)]


@maps("SparseSoftmaxCrossEntropyWithLogits")
def sparse_cross_entropy(b: OpBuilder) -> Sequence[Value | None]:
    """−LogSoftmax at the label, and Softmax less 1 there"""
    x, labels = b.input(0), b.unsqueeze(b.cast(b.input(1), DType.INT64), 1)
    classes = b.op("Shape", x, start=1)
    in_range = b.op("And", b.op("GreaterOrEqual", labels, b.const(0)), b.op("Less", labels, classes))
    places = b.op("Where", in_range, labels, b.const(0))
    picked = b.op("GatherElements", b.op("LogSoftmax", x, axis=-1), places, axis=1)
    nothing = b.like(math.nan, x)
    loss = b.squeeze(b.op("Neg", b.op("Where", in_range, picked, nothing)), 1)
    numbers = b.op("Range", b.const(0), b.squeeze(classes, 0), b.const(1))
    hot = b.cast(b.op("Equal", numbers, places), x.desc.dtype)
    gradient = b.op("Sub", b.op("Softmax", x, axis=-1), hot)
    return [loss, b.op("Where", in_range, gradient, nothing)]
