"""Windows of images as they are, and the largest sum with a filter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import OpBuilder, maps
from atcpy.parsers.tensorflow.ops.spatial.conv import Layout, Steps, steps_of


def _steps(b: OpBuilder, rank: int) -> Steps:
    return steps_of(b, Layout(rank, is_first=False), dilations="rates")


def _windows(b: OpBuilder, steps: Steps, kernel: Sequence[int], border: float) -> Value:
    """[N, S…, C] → [N, S'…, K…, C]: the elements under each window, `border` where it reaches beyond."""
    x, rank = b.input(0), b.rank(0)
    sizes = [dim for dim in b.shape(0)[1:-1] if isinstance(dim, int)]
    if len(sizes) != rank - 2 or len(kernel) != rank - 2:
        raise b.unsupported("an image of unknown sizes", "give the shapes of the inputs: --input_shape")
    pads = steps.same_pads(sizes, kernel) if steps.pads is None else steps.pads
    assert pads is not None, "sizes are known"
    begins, ends = pads[: rank - 2], pads[rank - 2 :]
    if any(pads):
        x = b.op("Pad", x, b.const([0, *begins, 0, 0, *ends, 0]), b.like(border, x))
    for axis in reversed(range(rank - 2)):
        stride, rate, taps = steps.strides[axis], steps.dilations[axis], kernel[axis]
        room = begins[axis] + sizes[axis] + ends[axis] - ((taps - 1) * rate + 1)
        starts = np.arange(0, room + 1, stride)[:, None]
        x = b.op("Gather", x, b.const(starts + np.arange(taps) * rate), axis=axis + 1)
    order = (0, *range(1, 2 * rank - 4, 2), *range(2, 2 * rank - 3, 2), 2 * rank - 3)
    return b.transpose(x, order)


@maps("ExtractImagePatches", "ExtractVolumePatches")
def patches(b: OpBuilder) -> Value:
    """Gather of the rows and columns under each window"""
    rank = 4 if b.node.op == "ExtractImagePatches" else 5
    if b.rank(0) != rank or len(b.ints_attr("ksizes")) != rank:
        raise b.invalid(f"an image of {b.rank(0)} dims, ksizes {b.ints_attr('ksizes')}")
    channels = b.dim_of(b.input(0), -1)
    if not isinstance(channels, int):
        raise b.unsupported("channels of an unknown number", "give the shapes of the inputs: --input_shape")
    kernel = b.ints_attr("ksizes")[1:-1]
    found = _windows(b, _steps(b, rank), kernel, 0)
    batch, *sides = b.shape_of(found)[: rank - 1]
    sizes = [dim if isinstance(dim, int) else -1 for dim in (batch, *sides)]
    return b.reshape(found, [*sizes, int(np.prod(kernel)) * channels])


@maps("Dilation2D")
def dilation(b: OpBuilder) -> Value:
    """The largest of x + filter under each window"""
    kernel = [dim for dim in b.shape(1)[:2] if isinstance(dim, int)]
    if b.rank(0) != 4 or b.rank(1) != 3:
        raise b.invalid(f"inputs of {b.rank(0)} and {b.rank(1)} dims")
    dtype = b.dtype(0)
    if not dtype.is_float:
        raise b.unsupported(f"values of type {dtype.long}")
    found = _windows(b, _steps(b, 4), kernel, float("-inf"))
    sums = b.op("Add", found, b.input(1))
    return b.op("ReduceMax", sums, b.const([3, 4], DType.INT64), keepdims=0)
