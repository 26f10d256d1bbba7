"""Windows of images as they are, and the largest sum with a filter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import Op, maps
from atcpy.parsers.tensorflow.ops.spatial import Layout, Steps


def _steps(op: Op, strides: str, rank: int) -> Steps:
    layout, padding = Layout(rank, is_first=False), op.text_attr("padding")
    steps = op.ints_attr(strides)
    rates = op.ints_attr("rates") if op.attr("rates") else (1,) * rank
    if padding not in {"SAME", "VALID"} or {len(steps), len(rates)} != {rank} or min(*steps, *rates) < 1:
        what = f"padding {padding}, {strides} {steps}, rates {rates}"
        raise ModelInvalid("E13014", what, where=op.where)
    if any(step != 1 for step in (*layout.others(steps), *layout.others(rates))):
        raise op.refuse("steps over the batch or the channels")
    none = None if padding == "SAME" else (0,) * (2 * (rank - 2))
    return Steps(layout.spatial(steps), layout.spatial(rates), none)


def _windows(op: Op, steps: Steps, kernel: Sequence[int], border: float) -> Value:
    """[N, S…, C] → [N, S'…, K…, C]: the elements under each window, `border` where it reaches beyond."""
    x, rank = op.input(0), op.rank(0)
    sizes = [dim for dim in op.shape(0)[1:-1] if isinstance(dim, int)]
    if len(sizes) != rank - 2 or len(kernel) != rank - 2:
        raise op.refuse("an image of unknown sizes", "give the shapes of the inputs: --input_shape")
    pads = steps.same_pads(sizes, kernel) if steps.pads is None else steps.pads
    assert pads is not None, "sizes are known"
    begins, ends = pads[: rank - 2], pads[rank - 2 :]
    if any(pads):
        x = op.add("Pad", x, op.const([0, *begins, 0, 0, *ends, 0]), op.like(border, x))
    for axis in reversed(range(rank - 2)):
        stride, rate, taps = steps.strides[axis], steps.dilations[axis], kernel[axis]
        room = begins[axis] + sizes[axis] + ends[axis] - ((taps - 1) * rate + 1)
        starts = np.arange(0, room + 1, stride)[:, None]
        x = op.add("Gather", x, op.const(starts + np.arange(taps) * rate), axis=axis + 1)
    order = (0, *range(1, 2 * rank - 4, 2), *range(2, 2 * rank - 3, 2), 2 * rank - 3)
    return op.transpose(x, order)


@maps("ExtractImagePatches", "ExtractVolumePatches")
def patches(op: Op) -> Value:
    """Gather of the rows and columns under each window"""
    rank = 4 if op.node.op == "ExtractImagePatches" else 5
    if op.rank(0) != rank or len(op.ints_attr("ksizes")) != rank:
        raise ModelInvalid("E13014", f"an image of {op.rank(0)} dims, ksizes {op.ints_attr('ksizes')}", where=op.where)
    channels = op.shape(0)[-1]
    if not isinstance(channels, int):
        raise op.refuse("channels of an unknown number", "give the shapes of the inputs: --input_shape")
    kernel = op.ints_attr("ksizes")[1:-1]
    found = _windows(op, _steps(op, "strides", rank), kernel, 0)
    batch, *sides = op.shape_of(found)[: rank - 1]
    wanted = [-1 if not isinstance(dim, int) else dim for dim in (batch, *sides)]
    return op.reshape(found, [*wanted, int(np.prod(kernel)) * channels])


@maps("Dilation2D")
def dilation(op: Op) -> Value:
    """The largest of x + filter under each window"""
    kernel = [dim for dim in op.shape(1)[:2] if isinstance(dim, int)]
    if op.rank(0) != 4 or op.rank(1) != 3:
        raise ModelInvalid("E13014", f"inputs of {op.rank(0)} and {op.rank(1)} dims", where=op.where)
    dtype = op.dtype(0)
    if not dtype.is_float:
        raise op.refuse(f"values of type {dtype.long}")
    found = _windows(op, _steps(op, "strides", 4), kernel, float("-inf"))
    sums = op.add("Add", found, op.input(1))
    return op.add("ReduceMax", sums, op.const([3, 4], DType.INT64), keepdims=0)
