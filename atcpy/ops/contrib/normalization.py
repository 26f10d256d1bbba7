"""Layer and group normalization with what ONNX Runtime fuses before it."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import DType, Value
from atcpy.ops.contrib.convolution import channels_first, channels_last
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.contrib.record import STANDARD, contrib

_EPSILON = 1e-12
_LAYER = "axis:i epsilon:f stash_type:i"
_NO_MEAN = "ONNX Runtime does not compute it, either"


def layer_norm(e: Expansion, x: Value, scale: Value, bias: Value | None) -> list[Value]:
    """LayerNormalization along the last axis, with mean and inverse deviation if somebody may read them."""
    outputs = 3 if e.has_output(1) else 1
    epsilon = e.node.float_attr("epsilon", _EPSILON)
    return e.ops("LayerNormalization", x, scale, bias, outputs=outputs, axis=-1, epsilon=epsilon)


def _inverse_rms(e: Expansion, x: Value, axes: list[int]) -> Value:
    """1 / √(mean(x²) + epsilon) in float32"""
    wide = e.cast(x, DType.FLOAT32)
    mean = e.op("ReduceMean", e.op("Mul", wide, wide), e.const(axes), keepdims=1)
    epsilon = e.const(e.node.float_attr("epsilon", _EPSILON), DType.FLOAT32)
    return e.op("Reciprocal", e.op("Sqrt", e.op("Add", mean, epsilon)))


@contrib("SkipLayerNormalization", "input skip gamma beta? bias?", "epsilon:f", outputs=(1, 4))
def skip_layer_normalization(e: Expansion) -> Sequence[Value | str]:
    """LayerNormalization(input + skip + bias); output 3 is the sum."""
    # A product before it takes the bias along, and then the skip.
    total = e.sum(e.operand("input"), e.input("bias"), e.operand("skip"))
    first, *statistics = layer_norm(e, total, e.operand("gamma"), e.input("beta"))
    return [first, *(statistics or ("", "")), total]


@contrib("SkipSimplifiedLayerNormalization", "input skip gamma bias?", "epsilon:f", outputs=(1, 4))
def skip_simplified_layer_normalization(e: Expansion) -> Sequence[Value | str]:
    """RMSNormalization(input + skip + bias); output 3 is the sum."""
    # A product before it takes the bias along, and then the skip.
    total = e.sum(e.operand("input"), e.input("bias"), e.operand("skip"))
    y = e.op("RMSNormalization", total, e.operand("gamma"), axis=-1, epsilon=e.node.float_attr("epsilon", _EPSILON))
    return [y, _NO_MEAN, _inverse_rms(e, total, [-1]) if e.has_output(2) else "", total]


@contrib("SimplifiedLayerNormalization", "X scale", _LAYER, outputs=(1, 2), domain=STANDARD)
def simplified_layer_normalization(e: Expansion) -> Sequence[Value]:
    """RMSNormalization, which ONNX has had since opset 23; output 1 is the inverse deviation."""
    x = e.operand("X")
    y = e.op("RMSNormalization", x, e.operand("scale"), **e.node.attrs)
    if not e.has_output(1):
        return [y]
    rank = e.rank_of(x)
    return [y, _inverse_rms(e, x, [*range(e.axis("axis", -1, rank), rank)])]


@contrib("GatedRMSNorm", "X scale gate", "activation:s epsilon:f")
def gated_rms_norm(e: Expansion) -> Value:
    """RMSNormalization of each run of elements as long as `scale`, times the activation of the gate."""
    x, scale, gate = e.operand("X"), e.operand("scale"), e.operand("gate")
    kind = e.node.str_attr("activation", "silu")
    if kind not in ("silu", "swish", "sigmoid"):
        raise e.invalid(f'activation = "{kind}"')
    shape = e.op("Shape", x)
    runs = e.op("Reshape", x, e.op("Concat", e.const([-1]), e.dim(scale, 0), axis=0))
    y = e.op("RMSNormalization", runs, scale, axis=-1, epsilon=e.node.float_attr("epsilon", 1e-5))
    opened = e.op("Sigmoid" if kind == "sigmoid" else "Swish", gate)
    return e.op("Mul", e.op("Reshape", y, shape), opened)


def _group_norm(e: Expansion, x: Value, rank: int) -> Value:
    """GroupNormalization of what lies as the node's X does, and Swish if `activation` is 1."""
    is_last = e.node.int_attr("channels_last", 1)
    planes = channels_first(e, x) if is_last else x
    params = [e.cast_like(e.operand(name), x) for name in ("gamma", "beta")]
    y = e.op(
        "GroupNormalization",
        planes,
        *params,
        num_groups=e.count("groups"),
        epsilon=e.node.float_attr("epsilon", 1e-5),
    )
    if e.node.int_attr("activation", 0):
        y = e.op("Swish", y)
    return channels_last(e, y, rank) if is_last else y


_GROUP = "activation:i! groups:i! channels_last:i epsilon:f"


@contrib("GroupNorm", "X gamma beta", _GROUP)
def group_norm(e: Expansion) -> Value:
    """GroupNormalization, by default of channels last."""
    x = e.operand("X")
    return _group_norm(e, x, e.rank_of(x))


@contrib("SkipGroupNorm", "X gamma beta skip bias?", _GROUP, outputs=(1, 2))
def skip_group_norm(e: Expansion) -> Sequence[Value]:
    """GroupNorm of X + skip + bias; output 1 is the sum."""
    x, skip, bias = e.operand("X"), e.operand("skip"), e.input("bias")
    rank, is_last = e.rank_of(x), e.node.int_attr("channels_last", 1)
    spatial = range(1, rank - 1) if is_last else range(2, rank)
    if e.rank_of(skip) == 2:
        skip = e.unsqueeze(skip, *spatial)
    if bias is not None and not is_last:
        bias = e.unsqueeze(bias, *range(1, rank - 1))
    total = e.sum(x, skip, bias)
    return [_group_norm(e, total, rank), total]
