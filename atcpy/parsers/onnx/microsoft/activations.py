"""Gelu in its many spellings, and the activations that other ops of ONNX Runtime carry along."""

from collections.abc import Sequence

from atcpy.ir import Value
from atcpy.parsers.onnx.microsoft.expansion import Expansion
from atcpy.parsers.onnx.microsoft.table import microsoft

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


@microsoft("Gelu", "X")
def gelu(e: Expansion) -> None:
    """Gelu by erf."""
    e.finish(e.op("Gelu", e.operand("X")))


@microsoft("BiasGelu", "A B")
def bias_gelu(e: Expansion) -> None:
    """Gelu(A + B)"""
    e.finish(e.op("Gelu", e.sum(e.operand("A"), e.operand("B"))))


@microsoft("FastGelu", "X bias?")
def fast_gelu(e: Expansion) -> None:
    """Gelu(X + bias) by tanh."""
    e.finish(e.op("Gelu", e.sum(e.operand("X"), e.input("bias")), approximate="tanh"))


@microsoft("GemmFastGelu", "X W bias?")
def gemm_fast_gelu(e: Expansion) -> None:
    """Gelu(X · W + bias) by tanh."""
    product = e.op("MatMul", e.operand("X"), e.operand("W"))
    e.finish(e.op("Gelu", e.sum(product, e.input("bias")), approximate="tanh"))


@microsoft("QuickGelu", "X", "alpha:f")
def quick_gelu(e: Expansion) -> None:
    """x · Sigmoid(alpha · x)"""
    e.finish(e.op("Swish", e.operand("X"), alpha=e.node.float_attr("alpha", 1.702)))


@microsoft("BiasSplitGelu", "X bias")
def bias_split_gelu(e: Expansion) -> None:
    """a · Gelu(b), where a and b are the halves of X + bias."""
    a, b = e.ops("Split", e.sum(e.operand("X"), e.operand("bias")), outputs=2, axis=-1, num_outputs=2)
    e.finish(e.op("Mul", a, e.op("Gelu", b)))


@microsoft("BiasAdd", "X bias skip")
def bias_add(e: Expansion) -> None:
    """X + bias + skip"""
    e.finish(e.sum(e.operand("X"), e.operand("bias"), e.operand("skip")))


@microsoft("BiasDropout BitmaskBiasDropout", "data bias residual? ratio? training_mode?", "seed:i", outputs=(1, 2))
def bias_dropout(e: Expansion) -> None:
    """data + bias + residual: nothing is dropped in inference."""
    mode = e.input("training_mode")
    if mode is not None and (mode.tensor is None or mode.tensor.array.any()):
        raise e.unsupported("training_mode is not false", "export the model for inference")
    e.finish(e.sum(e.operand("data"), e.operand("bias"), e.input("residual")), "the mask is made in training only")


@microsoft("BiasSoftmax", "data bias", "axis:i is_inner_broadcast:i!")
def bias_softmax(e: Expansion) -> None:
    """Softmax(data + bias) over all axes from `axis` on; numpy's broadcasting says which rows share the bias."""
    total = e.sum(e.operand("data"), e.operand("bias"))
    axis = e.node.int_attr("axis", 1)
    if axis in (-1, e.known_rank(e.operand("data")) - 1):
        e.finish(e.op("Softmax", total, axis=-1))
    else:
        rows = e.op("Softmax", e.op("Flatten", total, axis=axis), axis=-1)
        e.finish(e.op("Reshape", rows, e.op("Shape", total)))


@microsoft("GatedAdd", "X Y gate")
def gated_add(e: Expansion) -> None:
    """X + Y · gate"""
    e.finish(e.op("Add", e.operand("X"), e.op("Mul", e.operand("Y"), e.operand("gate"))))


@microsoft("ScaledSiLU", "X scale?", "alpha:f")
def scaled_silu(e: Expansion) -> None:
    """z · Sigmoid(z) for z = scale · X."""
    x, scale = e.operand("X"), e.input("scale")
    z = e.scale(x, e.node.float_attr("alpha", 1.0)) if scale is None else e.op("Mul", x, e.cast_like(scale, x))
    e.finish(e.op("Swish", z))
