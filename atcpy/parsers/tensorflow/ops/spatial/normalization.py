"""Normalisation: of batches, and of what lies beside each other among the channels."""

from __future__ import annotations

import math

from atcpy.ir import DType, Value
from atcpy.ops.lowerings.averages import moving_average
from atcpy.ops.lowerings.normalization import train_batch_norm
from atcpy.parsers.tensorflow.op import OpBuilder, maps
from atcpy.parsers.tensorflow.ops.spatial.conv import Layout, layout_of


@maps("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def batch_norm(b: OpBuilder) -> list[Value | None]:
    """BatchNormalization; while training, by the statistics of the batch"""
    layout = layout_of(b, b.rank(0))
    x = layout.enter(b, b.input(0))
    scale, offset, mean, variance = (b.input(index) for index in range(1, 5))
    epsilon = b.float_attr("epsilon")
    if not b.bool_attr("is_training"):
        y = b.op("BatchNormalization", x, scale, offset, mean, variance, epsilon=epsilon)
        return [layout.leave(b, y), mean, variance, mean, variance]
    wide = b.cast(x, DType.FLOAT32)
    y, of_batch, biased = train_batch_norm(b, wide, scale, offset, epsilon)
    momentum = 1 - b.float_attr("exponential_avg_factor")
    running = [moving_average(b, mean, of_batch, momentum)]
    running.append(moving_average(b, variance, _unbiased(b, biased, x), momentum))
    return [layout.leave(b, b.cast(y, x.desc.dtype)), *running, of_batch, biased]


@maps("BatchNormWithGlobalNormalization")
def old_batch_norm(b: OpBuilder) -> Value:
    """BatchNormalization, without scale if an attribute says so"""
    layout = Layout(4, is_first=False)
    x, mean, variance, offset, scale = (b.input(index) for index in range(5))
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


@maps("LRN")
def local_response(b: OpBuilder) -> Value:
    """LRN over the channels"""
    size = 2 * b.int_attr("depth_radius") + 1
    layout = Layout(b.rank(0), is_first=False)
    attrs = {"size": size, "alpha": b.float_attr("alpha") * size}
    y = b.op("LRN", layout.enter(b, b.input(0)), bias=b.float_attr("bias"), beta=b.float_attr("beta"), **attrs)
    return layout.leave(b, y)
