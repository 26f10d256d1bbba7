"""Gelu in its many spellings, and other activations with what is added to their operands."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import Value
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.contrib.record import contrib


@contrib("Gelu", "X")
def gelu(e: Expansion) -> Value:
    """Gelu by erf."""
    return e.op("Gelu", e.operand("X"))


@contrib("BiasGelu", "A B")
def bias_gelu(e: Expansion) -> Value:
    """Gelu(A + B)"""
    return e.op("Gelu", e.sum(e.operand("A"), e.operand("B")))


@contrib("FastGelu", "X bias?")
def fast_gelu(e: Expansion) -> Value:
    """Gelu(X + bias) by tanh."""
    return e.op("Gelu", e.sum(e.operand("X"), e.input("bias")), approximate="tanh")


@contrib("GemmFastGelu", "X W bias?")
def gemm_fast_gelu(e: Expansion) -> Value:
    """Gelu(X · W + bias) by tanh."""
    product = e.op("MatMul", e.operand("X"), e.operand("W"))
    return e.op("Gelu", e.sum(product, e.input("bias")), approximate="tanh")


@contrib("QuickGelu", "X", "alpha:f")
def quick_gelu(e: Expansion) -> Value:
    """x · Sigmoid(alpha · x)"""
    return e.op("Swish", e.operand("X"), alpha=e.node.float_attr("alpha", 1.702))


@contrib("BiasSplitGelu", "X bias")
def bias_split_gelu(e: Expansion) -> Value:
    """a · Gelu(b), where a and b are the halves of X + bias."""
    left, right = e.ops("Split", e.sum(e.operand("X"), e.operand("bias")), outputs=2, axis=-1, num_outputs=2)
    return e.op("Mul", left, e.op("Gelu", right))


@contrib("BiasAdd", "X bias skip")
def bias_add(e: Expansion) -> Value:
    """X + bias + skip"""
    return e.sum(e.operand("X"), e.operand("bias"), e.operand("skip"))


@contrib("BiasDropout BitmaskBiasDropout", "data bias residual? ratio? training_mode?", "seed:i", outputs=(1, 2))
def bias_dropout(e: Expansion) -> Sequence[Value | str]:
    """data + bias + residual: nothing is dropped in inference, and there is no mask."""
    mode = e.input("training_mode")
    if mode is not None and (mode.tensor is None or mode.tensor.array.any()):
        raise e.unsupported("training_mode is not false", "export the model for inference")
    return [e.sum(e.operand("data"), e.operand("bias"), e.input("residual")), "the mask is made in training only"]


@contrib("BiasSoftmax", "data bias", "axis:i is_inner_broadcast:i!")
def bias_softmax(e: Expansion) -> Value:
    """Softmax(data + bias) over all axes from `axis` on; numpy's broadcasting says which rows share the bias."""
    total = e.sum(e.operand("data"), e.operand("bias"))
    axis = e.node.int_attr("axis", 1)
    if axis in (-1, e.rank_of(e.operand("data")) - 1):
        return e.op("Softmax", total, axis=-1)
    rows = e.op("Softmax", e.op("Flatten", total, axis=axis), axis=-1)
    return e.op("Reshape", rows, e.op("Shape", total))


@contrib("GatedAdd", "X Y gate")
def gated_add(e: Expansion) -> Value:
    """X + Y · gate"""
    return e.op("Add", e.operand("X"), e.op("Mul", e.operand("Y"), e.operand("gate")))


@contrib("ScaledSiLU", "X scale?", "alpha:f")
def scaled_silu(e: Expansion) -> Value:
    """z · Sigmoid(z) for z = scale · X."""
    x, scale = e.operand("X"), e.input("scale")
    z = e.scale(x, e.node.float_attr("alpha", 1.0)) if scale is None else e.op("Mul", x, e.cast_like(scale, x))
    return e.op("Swish", z)


# --- activations that other ops carry along --------------------------------------------------------

# The attributes of an activation in the order in which ONNX Runtime lists its parameters.
_PARAMS = {
    "Relu": (), "Tanh": (), "Sigmoid": (), "HardSwish": (), "Softplus": (), "Softsign": (),
    "LeakyRelu": ("alpha",), "Elu": ("alpha",), "ThresholdedRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"),
}  # fmt: skip


def activated(e: Expansion, y: Value, name: str, params: Sequence[float]) -> Value:
    """The activation of this name on y; none if the name is empty."""
    if not name:
        return y
    if name == "Clip":
        if len(params) != 2:
            raise e.invalid(f"Clip with {len(params)} bounds")
        return e.op("Clip", y, e.like(params[0], y), e.like(params[1], y))
    if name not in _PARAMS:
        raise e.unsupported(f'activation "{name}"', "export the model without ONNX Runtime's optimization")
    return e.op(name, y, **dict(zip(_PARAMS[name], params, strict=False)))
