"""Normalisation: of batches, and of what lies beside each other among the channels."""

from __future__ import annotations

import math

from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import OpBuilder, maps
from atcpy.parsers.tensorflow.ops.spatial.conv import Layout, layout_of


@maps("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def batch_norm(b: OpBuilder) -> list[Value | None]:
    """BatchNormalization; while training, by the statistics of the batch"""
    layout = layout_of(b, b.rank(0))
    x = layout.enter(b, b.input(0))
    scale, offset, mean, variance = (b.input(place) for place in range(1, 5))
    epsilon = b.float_attr("epsilon")
    if not b.bool_attr("is_training"):
        y = b.op("BatchNormalization", x, scale, offset, mean, variance, epsilon=epsilon)
        return [layout.leave(b, y), mean, variance, mean, variance]
    dtype = x.desc.dtype
    wide = b.cast(x, DType.FLOAT32)
    axes = b.const([0, *range(2, layout.rank)])
    of_batch = b.op("ReduceMean", wide, axes, keepdims=0)
    centred = b.op("Sub", wide, b.op("ReduceMean", wide, axes, keepdims=1))
    spread = b.op("ReduceMean", b.op("Mul", centred, centred), axes, keepdims=0)
    y = b.cast(b.op("BatchNormalization", wide, scale, offset, of_batch, spread, epsilon=epsilon), dtype)
    factor = b.float_attr("exponential_avg_factor")
    moments = [_moved(b, of_batch, mean, factor), _moved(b, _unbiased(b, spread, x), variance, factor)]
    return [layout.leave(b, y), *moments, of_batch, spread]


@maps("BatchNormWithGlobalNormalization")
def old_batch_norm(b: OpBuilder) -> Value:
    """BatchNormalization, without scale if it is told so"""
    layout = Layout(4, is_first=False)
    x, mean, variance, offset, scale = (b.input(place) for place in range(5))
    if not b.bool_attr("scale_after_normalization"):
        scale = b.op("Expand", b.like(1, mean), b.op("Shape", mean))
    epsilon = b.float_attr("variance_epsilon")
    x = layout.enter(b, x)
    return layout.leave(b, b.op("BatchNormalization", x, scale, offset, mean, variance, epsilon=epsilon))


def _unbiased(b: OpBuilder, variance: Value, x: Value) -> Value:
    """A variance over n elements with n − 1 in its denominator."""
    rest = [size for axis, size in enumerate(b.shape_of(x)) if axis != 1]
    sizes = [size for size in rest if isinstance(size, int)]
    if len(sizes) == len(rest):
        count = math.prod(sizes)
        return b.op("Mul", variance, b.like(count / max(count - 1, 1), variance))
    number = b.cast(b.op("Div", b.op("Size", x), b.op("Size", variance)), DType.FLOAT32)
    less = b.op("Max", b.op("Sub", number, b.like(1, number)), b.like(1, number))
    return b.op("Mul", variance, b.op("Div", number, less))


def _moved(b: OpBuilder, new: Value, old: Value, factor: float) -> Value:
    """The running statistic after this batch."""
    if factor == 1:
        return new
    return b.op("Add", b.op("Mul", old, b.like(1 - factor, old)), b.op("Mul", new, b.like(factor, new)))


@maps("LRN")
def local_response(b: OpBuilder) -> Value:
    """LRN over the channels"""
    size = 2 * b.int_attr("depth_radius") + 1
    layout = Layout(b.rank(0), is_first=False)
    attrs = {"size": size, "alpha": b.float_attr("alpha") * size}
    y = b.op("LRN", layout.enter(b, b.input(0)), bias=b.float_attr("bias"), beta=b.float_attr("beta"), **attrs)
    return layout.leave(b, y)
