"""Gradients of elementwise ops, and losses with theirs, as graphs that train have them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import Op, maps

_SELU_SCALE = 1.0507009873554805
_SELU_ALPHA = 1.6732632423543772


@maps("ReluGrad", "Relu6Grad")
def relu_grad(op: Op) -> Value:
    """The gradient where the feature is above 0, and below 6"""
    gradient, x = op.input(0), op.input(1)
    passes = op.add("Greater", x, op.like(0, x))
    if op.node.op == "Relu6Grad":
        passes = op.add("And", passes, op.add("Less", x, op.like(6, x)))
    return op.add("Where", passes, gradient, op.like(0, gradient))


@maps("LeakyReluGrad")
def leaky_relu_grad(op: Op) -> Value:
    """The gradient, times alpha where the feature is not above 0"""
    gradient, x = op.input(0), op.input(1)
    less = op.add("Mul", gradient, op.like(op.float_attr("alpha"), x))
    return op.add("Where", op.add("Greater", x, op.like(0, x)), gradient, less)


@maps("EluGrad", "SeluGrad")
def elu_grad(op: Op) -> Value:
    """From the outputs: below 0 they are an exponential less a constant"""
    gradient, y = op.input(0), op.input(1)
    scale, offset = (1.0, 1.0) if op.node.op == "EluGrad" else (_SELU_SCALE, _SELU_SCALE * _SELU_ALPHA)
    below = op.add("Mul", gradient, op.add("Add", y, op.like(offset, y)))
    above = gradient if scale == 1 else op.add("Mul", gradient, op.like(scale, y))
    return op.add("Where", op.add("Less", y, op.like(0, y)), below, above)


@maps("SoftplusGrad")
def softplus_grad(op: Op) -> Value:
    """The gradient times Sigmoid"""
    return op.add("Mul", op.input(0), op.add("Sigmoid", op.input(1)))


@maps("SoftsignGrad")
def softsign_grad(op: Op) -> Value:
    """The gradient / (1 + |x|)²"""
    x = op.input(1)
    divisor = op.add("Add", op.add("Abs", x), op.like(1, x))
    return op.add("Div", op.input(0), op.add("Mul", divisor, divisor))


@maps("SigmoidGrad", "TanhGrad", "SqrtGrad", "RsqrtGrad", "InvGrad", "ReciprocalGrad")
def grad_of_output(op: Op) -> Value:
    """A polynomial of the output, or its reciprocal, times the gradient"""
    y, gradient = op.input(0), op.input(1)
    square = op.add("Mul", y, y)
    match op.node.op:
        case "SigmoidGrad":
            slope = op.add("Sub", y, square)
        case "TanhGrad":
            slope = op.add("Sub", op.like(1, y), square)
        case "SqrtGrad":
            return op.add("Div", op.add("Mul", gradient, op.like(0.5, y)), y)
        case "RsqrtGrad":
            slope = op.add("Mul", op.add("Mul", square, y), op.like(-0.5, y))
        case _:
            slope = op.add("Neg", square)
    return op.add("Mul", gradient, slope)


@maps("BiasAddGrad")
def bias_grad(op: Op) -> Value:
    """ReduceSum over all dims but that of the channels"""
    rank = op.rank(0)
    channels = 1 if op.text_attr("data_format").startswith("NC") else rank - 1
    return op.add("ReduceSum", op.input(0), op.const([axis for axis in range(rank) if axis != channels]), keepdims=0)


@maps("SoftmaxCrossEntropyWithLogits")
def cross_entropy(op: Op) -> Sequence[Value | None]:
    """−Σ labels · LogSoftmax, and Softmax − labels"""
    x, labels = op.input(0), op.input(1)
    x = op.add("Expand", x, op.add("Shape", labels))
    products = op.add("Mul", labels, op.add("LogSoftmax", x, axis=-1))
    loss = op.add("Neg", op.add("ReduceSum", products, op.const([1]), keepdims=0))
    return [loss, op.add("Sub", op.add("Softmax", x, axis=-1), labels)]


@maps("SparseSoftmaxCrossEntropyWithLogits")
def sparse_cross_entropy(op: Op) -> Sequence[Value | None]:
    """−LogSoftmax at the label, and Softmax less 1 there"""
    x, labels = op.input(0), op.unsqueeze(op.cast(op.input(1), DType.INT64), 1)
    classes = op.add("Shape", x, start=1)
    in_range = op.add("And", op.add("GreaterOrEqual", labels, op.const(0)), op.add("Less", labels, classes))
    places = op.add("Where", in_range, labels, op.const(0))
    picked = op.add("GatherElements", op.add("LogSoftmax", x, axis=-1), places, axis=1)
    nothing = op.like(math.nan, x)
    loss = op.squeeze(op.add("Neg", op.add("Where", in_range, picked, nothing)), 1)
    numbers = op.add("Range", op.const(0), op.squeeze(classes, 0), op.const(1))
    hot = op.cast(op.add("Equal", numbers, places), x.desc.dtype)
    gradient = op.add("Sub", op.add("Softmax", x, axis=-1), hot)
    return [loss, op.add("Where", in_range, gradient, nothing)]
