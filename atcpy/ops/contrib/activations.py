"""Gelu in its many spellings, and other activations with what is added to their operands."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import Builder, Node, Value
from atcpy.ops.contrib.record import contrib


@contrib("Gelu", "X")
def gelu(node: Node, b: Builder) -> Sequence[Value]:
    """Gelu by erf."""
    return [b.op("Gelu", node.operand(0))]


@contrib("BiasGelu", "A B")
def bias_gelu(node: Node, b: Builder) -> Sequence[Value]:
    """Gelu(A + B)"""
    return [b.op("Gelu", b.sum(node.operand(0), node.operand(1)))]


@contrib("FastGelu", "X bias?")
def fast_gelu(node: Node, b: Builder) -> Sequence[Value]:
    """Gelu(X + bias) by tanh."""
    return [b.op("Gelu", b.sum(node.operand(0), node.input(1)), approximate="tanh")]


@contrib("GemmFastGelu", "X W bias?")
def gemm_fast_gelu(node: Node, b: Builder) -> Sequence[Value]:
    """Gelu(X · W + bias) by tanh."""
    product = b.op("MatMul", node.operand(0), node.operand(1))
    return [b.op("Gelu", b.sum(product, node.input(2)), approximate="tanh")]


@contrib("QuickGelu", "X", "alpha:f")
def quick_gelu(node: Node, b: Builder) -> Sequence[Value]:
    """x · Sigmoid(alpha · x)"""
    return [b.op("Swish", node.operand(0), alpha=node.float_attr("alpha", 1.702))]


@contrib("BiasSplitGelu", "X bias")
def bias_split_gelu(node: Node, b: Builder) -> Sequence[Value]:
    """a · Gelu(b), where a and b are the halves of X + bias."""
    left, right = b.ops("Split", b.sum(node.operand(0), node.operand(1)), outputs=2, axis=-1, num_outputs=2)
    return [b.op("Mul", left, b.op("Gelu", right))]


@contrib("BiasAdd", "X bias skip")
def bias_add(node: Node, b: Builder) -> Sequence[Value]:
    """X + bias + skip"""
    return [b.sum(*node.operands)]


@contrib("BiasDropout BitmaskBiasDropout", "data bias residual? ratio? training_mode?", "seed:i", outputs=(1, 2))
def bias_dropout(node: Node, b: Builder) -> Sequence[Value]:
    """data + bias + residual: nothing is dropped in inference, and there is no mask."""
    mode = node.input(4)
    if mode is not None and (mode.tensor is None or mode.tensor.array.any()):
        raise b.unsupported("training_mode is not false", "export the model for inference")
    if any(value.use_count for value in node.outputs[1:]):
        raise b.unsupported("the mask is made in training only", "export the model for inference")
    return [b.sum(node.operand(0), node.operand(1), node.input(2))]


@contrib("BiasSoftmax", "data bias", "axis:i is_inner_broadcast:i!")
def bias_softmax(node: Node, b: Builder) -> Sequence[Value]:
    """Softmax(data + bias) over all axes from `axis` on; numpy's broadcasting says which rows share the bias."""
    total = b.sum(node.operand(0), node.operand(1))
    axis, shape = node.int_attr("axis", 1), node.operand(0).desc.shape
    if shape is None:
        hint = "export the model with the shapes of its inputs"
        raise b.unsupported(f'the rank of "{node.operand(0).name}" is not known', hint)
    if axis in (-1, len(shape) - 1):
        return [b.op("Softmax", total, axis=-1)]
    rows = b.op("Softmax", b.op("Flatten", total, axis=axis), axis=-1)
    return [b.op("Reshape", rows, b.op("Shape", total))]


@contrib("GatedAdd", "X Y gate")
def gated_add(node: Node, b: Builder) -> Sequence[Value]:
    """X + Y · gate"""
    return [b.op("Add", node.operand(0), b.op("Mul", node.operand(1), node.operand(2)))]


@contrib("ScaledSiLU", "X scale?", "alpha:f")
def scaled_silu(node: Node, b: Builder) -> Sequence[Value]:
    """z · Sigmoid(z) for z = scale · X."""
    x, scale = node.operand(0), node.input(1)
    z = b.scale(x, node.float_attr("alpha", 1.0)) if scale is None else b.op("Mul", x, b.cast_like(scale, x))
    return [b.op("Swish", z)]
