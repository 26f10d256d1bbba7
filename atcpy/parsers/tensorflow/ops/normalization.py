"""Normalisation: of batches, and of what lies beside each other among the channels."""

from __future__ import annotations

import math

from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import Op, maps
from atcpy.parsers.tensorflow.ops.spatial import Layout, layout_of


@maps("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def batch_norm(op: Op) -> list[Value | None]:
    """BatchNormalization; while training, by the statistics of the batch"""
    layout = layout_of(op, op.rank(0))
    x = layout.enter(op, op.input(0))
    scale, offset, mean, variance = (op.input(place) for place in range(1, 5))
    epsilon = op.float_attr("epsilon")
    if not op.bool_attr("is_training"):
        y = op.add("BatchNormalization", x, scale, offset, mean, variance, epsilon=epsilon)
        return [layout.leave(op, y), mean, variance, mean, variance]
    dtype = x.desc.dtype
    wide = op.cast(x, DType.FLOAT32)
    axes = op.const([0, *range(2, layout.rank)])
    of_batch = op.add("ReduceMean", wide, axes, keepdims=0)
    centred = op.add("Sub", wide, op.add("ReduceMean", wide, axes, keepdims=1))
    spread = op.add("ReduceMean", op.add("Mul", centred, centred), axes, keepdims=0)
    y = op.cast(op.add("BatchNormalization", wide, scale, offset, of_batch, spread, epsilon=epsilon), dtype)
    factor = op.float_attr("exponential_avg_factor")
    moments = [_moved(op, of_batch, mean, factor), _moved(op, _unbiased(op, spread, x), variance, factor)]
    return [layout.leave(op, y), *moments, of_batch, spread]


@maps("BatchNormWithGlobalNormalization")
def old_batch_norm(op: Op) -> Value:
    """BatchNormalization, without scale if it is told so"""
    layout = Layout(4, is_first=False)
    x, mean, variance, offset, scale = (op.input(place) for place in range(5))
    if not op.bool_attr("scale_after_normalization"):
        scale = op.add("Expand", op.like(1, mean), op.add("Shape", mean))
    epsilon = op.float_attr("variance_epsilon")
    x = layout.enter(op, x)
    return layout.leave(op, op.add("BatchNormalization", x, scale, offset, mean, variance, epsilon=epsilon))


def _unbiased(op: Op, variance: Value, x: Value) -> Value:
    """A variance over n elements with n − 1 in its denominator."""
    rest = [size for axis, size in enumerate(op.shape_of(x)) if axis != 1]
    sizes = [size for size in rest if isinstance(size, int)]
    if len(sizes) == len(rest):
        count = math.prod(sizes)
        return op.add("Mul", variance, op.like(count / max(count - 1, 1), variance))
    number = op.cast(op.add("Div", op.add("Size", x), op.add("Size", variance)), DType.FLOAT32)
    less = op.add("Max", op.add("Sub", number, op.like(1, number)), op.like(1, number))
    return op.add("Mul", variance, op.add("Div", number, less))


def _moved(op: Op, new: Value, old: Value, factor: float) -> Value:
    """The running statistic after this batch."""
    if factor == 1:
        return new
    return op.add("Add", op.add("Mul", old, op.like(1 - factor, old)), op.add("Mul", new, op.like(factor, new)))


@maps("LRN")
def local_response(op: Op) -> Value:
    """LRN over the channels"""
    size = 2 * op.int_attr("depth_radius") + 1
    layout = Layout(op.rank(0), is_first=False)
    attrs = {"size": size, "alpha": op.float_attr("alpha") * size}
    y = op.add("LRN", layout.enter(op, op.input(0)), bias=op.float_attr("bias"), beta=op.float_attr("beta"), **attrs)
    return layout.leave(op, y)
