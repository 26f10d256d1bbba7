"""Gradients of normalizations, and BatchNormalization while it trains, as ONNX Runtime's training writes them."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import Value
from atcpy.ir.arithmetic import Expr
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.contrib.record import contrib
from atcpy.ops.lowerings.averages import moving_average
from atcpy.ops.lowerings.normalization import train_batch_norm

_LAYER = "axis:i epsilon:f stash_type:i"


def _through_normalization(e: Expansion, x: Value, normal: Expr, inverse: Expr, *, centred: bool) -> list[Value]:
    """Return the gradients of X, whose type `x` has, of the scale, and of the bias if the data were centred. They were
    normalized along their last axes: `normal` is the result before scale and bias, `inverse` 1/deviation.
    """
    scale, rank = e.operand("scale"), e.rank_of(e.operand("Y_grad"))
    axis = e.axis("axis", -1, rank)
    normalized, rows = e.const([*range(axis, rank)]), e.const([*range(axis)])
    dy, factor = (Expr(e, e.cast_like(value, inverse.value)) for value in (e.operand("Y_grad"), scale))

    def mean(value: Expr) -> Expr:
        return Expr(e, e.op("ReduceMean", value.value, normalized, keepdims=1))

    def summed(value: Expr) -> Value:
        total = e.op("ReduceSum", value.value, rows, keepdims=0, noop_with_empty_axes=1)
        return e.cast_like(e.op("Reshape", total, e.op("Shape", scale)), scale)

    part = dy * factor * inverse
    common = normal * mean(part * normal)
    dx = (part - mean(part) if centred else part) - common
    return [e.cast_like(dx.value, x), summed(dy * normal), *([summed(dy)] if centred else [])]


@contrib("LayerNormalizationGrad", "Y_grad X scale mean inv_std_dev", _LAYER, outputs=(3, 3))
def layer_norm_grad(e: Expansion) -> Sequence[Value]:
    """From the mean and 1/deviation that the forward pass kept."""
    inverse = e.operand("inv_std_dev")
    x, mean = (Expr(e, e.cast_like(e.operand(name), inverse)) for name in ("X", "mean"))
    normal = (x - mean) * Expr(e, inverse)
    return _through_normalization(e, e.operand("X"), normal, Expr(e, inverse), centred=True)


@contrib("SimplifiedLayerNormalizationGrad", "Y_grad X scale inv_std_var", _LAYER, outputs=(2, 2))
def rms_norm_grad(e: Expansion) -> Sequence[Value]:
    """From 1/√mean(X²) that the forward pass kept."""
    x, inverse = e.operand("X"), Expr(e, e.operand("inv_std_var"))
    normal = Expr(e, e.cast_like(x, inverse.value)) * inverse
    return _through_normalization(e, x, normal, inverse, centred=False)


@contrib("InvertibleLayerNormalizationGrad", "Y_grad Y scale bias inv_std_var", _LAYER, outputs=(3, 3))
def invertible_layer_norm_grad(e: Expansion) -> Sequence[Value]:
    """From the result, from which bias and scale are removed."""
    inverse = e.operand("inv_std_var")
    y, scale, bias = (Expr(e, e.cast_like(e.operand(name), inverse)) for name in ("Y", "scale", "bias"))
    return _through_normalization(e, e.operand("Y"), (y - bias) / scale, Expr(e, inverse), centred=True)


@contrib("BatchNormalizationGrad", "dY X scale mean variance", "epsilon:f", outputs=(3, 3))
def batch_norm_grad(e: Expansion) -> Sequence[Value]:
    """From the batch's mean and, in spite of its name, 1/deviation: what BatchNormInternal kept."""
    dy, x, rank = Expr(e, e.operand("dY")), Expr(e, e.operand("X")), e.rank_of(e.operand("X"))
    if rank < 2:
        raise e.invalid(f"X has {rank} dims")
    others = e.const([0, *range(2, rank)])

    def per_channel(name: str) -> Expr:
        """[C] → [C, 1…], to stand beside [N, C, …]"""
        vector = Expr(e, e.cast_like(e.operand(name), x.value))
        return vector if rank == 2 else vector.unsqueeze(*range(1, rank - 1))

    def mean(value: Expr) -> Expr:
        return Expr(e, e.op("ReduceMean", value.value, others, keepdims=1))

    inverse = per_channel("variance")
    normal = (x - per_channel("mean")) * inverse
    dx = (dy - mean(dy) - normal * mean(dy * normal)) * (per_channel("scale") * inverse)
    sums = (e.op("ReduceSum", value.value, others, keepdims=0) for value in (dy * normal, dy))
    return [dx.value, *(e.cast_like(total, e.operand("scale")) for total in sums)]


@contrib("BatchNormInternal", "X scale B input_mean input_var", "epsilon:f momentum:f training_mode:i", outputs=(1, 5))
def batch_norm_internal(e: Expansion) -> Sequence[Value | str]:
    """BatchNormalization, with the batch's mean and 1/deviation while training."""
    x, scale, bias, mean, variance = e.node.operands
    epsilon, momentum = e.node.float_attr("epsilon", 1e-5), e.node.float_attr("momentum", 0.9)
    if not e.node.int_attr("training_mode", 1):
        return [e.op("BatchNormalization", x, scale, bias, mean, variance, epsilon=epsilon), *["inference"] * 4]
    y, batch_mean, biased = train_batch_norm(e, x, scale, bias, epsilon)
    running = [moving_average(e, mean, batch_mean, momentum), moving_average(e, variance, biased, momentum)]
    inverse = (Expr(e, biased) + epsilon).apply("Sqrt").apply("Reciprocal").value
    return [y, *running, e.cast_like(batch_mean, mean), e.cast_like(inverse, variance)]
