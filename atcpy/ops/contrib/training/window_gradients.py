"""Gradients of convolutions and pooling, as ONNX Runtime's training writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from atcpy.ir import DType, Value
from atcpy.ir.builder import INT64_MAX
from atcpy.ir.shape import Shape
from atcpy.ir.tensor import Array
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.contrib.record import STANDARD, contrib
from atcpy.ops.contrib.training.movement_gradients import scatter_elements
from atcpy.ops.core.spatial import Window, output_size, same_padding, window_of
from atcpy.ops.lowerings.transposed_conv import cut_conv_transpose

_WINDOW = "auto_pad:s dilations:I kernel_shape:I pads:I strides:I"
_CONV = f"{_WINDOW} group:i"
_POOL = f"{_WINDOW} ceil_mode:i"
_MAX_ELEMENTS = 2**24  # of a channel of pooled data, and of a pooling window
_MAX_TAPS = 64
_ROWS = 32  # of a product: below so many channels, several taps have one together


def _whole(dims: Sequence[object]) -> tuple[int, ...] | None:
    """Sizes, if all of them are numbers."""
    sizes = tuple(dim for dim in dims if isinstance(dim, int))
    return sizes if len(sizes) == len(dims) else None


def _kernel(e: Expansion, rank: int, weights: Value | None = None) -> tuple[int, ...]:
    """The size of the window: the attribute, or that of the weights."""
    kernel = e.node.ints_attr("kernel_shape") if "kernel_shape" in e.node.attrs else None
    if kernel is None and weights is not None:
        kernel = _whole(e.shape_of(weights)[2:])
    if kernel is None:
        raise e.unsupported("the size of the window is not known", "export the model with kernel_shape")
    if rank < 3 or len(kernel) != rank - 2 or not all(0 < taps < 2**31 for taps in kernel):
        raise e.invalid(f"a window {tuple(kernel)} over data of rank {rank}")
    return tuple(kernel)


def _window(e: Expansion, kernel: tuple[int, ...], shape: Shape | None) -> Window:
    """Read the node's window over data of this shape. Raises Unsupported if its padding depends on an unknown size."""
    auto = e.node.str_attr("auto_pad", "NOTSET")
    if not auto.startswith("SAME"):
        return window_of(e.node, kernel, ())
    sizes = () if shape is None else shape[2:]
    window = window_of(e.node, kernel, sizes)
    dims = zip(sizes, window.strides, strict=False)
    known = [same_padding(size, window.effective(axis), stride) for axis, (size, stride) in enumerate(dims)]
    if len(known) != len(kernel) or None in known:
        raise e.unsupported(f"auto_pad = {auto} of unknown sizes", "export the model with fixed sizes, or with pads")
    return window


def _is_dense(window: Window) -> bool:
    """Return whether the window moves by single steps."""
    return max(window.strides) == 1


def _of_data(e: Expansion, window: Window, dy: Value, w: Value, x: Value, group: int) -> Value:
    """Return the gradient of x by a transposed convolution."""
    if _is_dense(window):
        pads = (*window.pads_begin, *window.pads_end)
        return e.op("ConvTranspose", dy, w, pads=pads, dilations=window.dilations, group=group)
    begins, sizes = e.const(window.pads_begin), e.slice(e.op("Shape", x), 2, INT64_MAX, 0)
    attrs = {"dilations": window.dilations, "group": group}
    return cut_conv_transpose(e, dy, w, begins, sizes, strides=window.strides, **attrs)


def _batch_inside(e: Expansion, value: Value, group: int, rank: int, *, channels_first: bool) -> Value:
    """[N, g·C, S…] → [C, g·N, S…] or [g·C, N, S…]"""
    if group == 1:
        return e.transpose(value, (1, 0, *range(2, rank)))
    batch, channels = e.dim(value, 0), e.dim(value, 1)
    sides = e.slice(e.op("Shape", value), 2, INT64_MAX, 0)
    groups = e.const([group])
    each = e.op("Div", channels, groups)
    split = e.op("Reshape", value, e.op("Concat", batch, groups, each, sides, axis=0))
    rest = range(3, rank + 1)
    if channels_first:
        turned, ends = e.transpose(split, (1, 2, 0, *rest)), [channels, batch]
    else:
        turned, ends = e.transpose(split, (2, 1, 0, *rest)), [each, e.op("Mul", groups, batch)]
    return e.op("Reshape", turned, e.op("Concat", *ends, sides, axis=0))


@dataclass(frozen=True, slots=True)
class _Products:
    """Both gradients by products of matrices, tap by tap. They run faster than convolutions with computed filters, most
    of all than those with filters as large as the data, and hold no more than a copy of the data at a time.
    """

    e: Expansion
    window: Window
    dy: Value
    x: Value
    group: int
    sizes: tuple[int, ...]  # of the weights

    @property
    def taps(self) -> list[tuple[int, ...]]:
        return list(product(*map(range, self.window.kernel)))

    def _view(self, value: Value, start: Sequence[int], counts: Value, steps: Value | None, channels: int) -> Value:
        """What a tap sees: [N, g, channels, positions]"""
        e, axes = self.e, self.e.const([*range(2, len(self.sizes))])
        first = e.const(start)
        cut = e.op("Slice", value, first, e.op("Add", first, counts), axes, steps)
        return e.reshape(cut, (0, self.group, channels, -1))

    def _padded(self, value: Value, begins: Sequence[int], ends: Sequence[int]) -> Value:
        pads = [0, 0, *begins, 0, 0, *ends]
        return self.e.op("Pad", value, self.e.const(pads)) if any(pads) else value

    def of_weights(self) -> Value:
        """Σ X · dYᵀ for what each tap sees of X."""
        e, window, (filters, inner, *kernel) = self.e, self.window, self.sizes
        steps, one = e.const(window.strides), e.const([1])
        counts = e.slice(e.op("Shape", self.dy), 2, INT64_MAX, 0)
        span = e.op("Add", e.op("Mul", e.op("Sub", counts, one), steps), one)
        padded = self._padded(self.x, window.pads_begin, window.pads_end)
        outer = filters // self.group
        gradient = e.transpose(e.reshape(self.dy, (0, self.group, outer, -1)), (0, 1, 3, 2))
        views = []
        for tap in self.taps:
            start = [at * step for at, step in zip(tap, window.dilations, strict=True)]
            views.append(self._view(padded, start, span, steps, inner))
        together = -(-_ROWS // inner)
        parts = [
            e.op("MatMul", _joined(e, views[first : first + together], 2), gradient)
            for first in range(0, len(views), together)
        ]
        total = e.op("ReduceSum", _joined(e, parts, 2), e.const([0]), keepdims=0)
        own = e.reshape(total, (self.group, *kernel, inner, outer))
        last = len(kernel) + 2
        return e.reshape(e.transpose(own, (0, last, last - 1, *range(1, last - 1))), self.sizes)

    def of_data(self, w: Value) -> Value:
        """Σ Wᵀ · dY: from where each tap sees it, or, with steps, to where Col2Im puts it."""
        e, window, (filters, inner, *_) = self.e, self.window, self.sizes
        outer, taps = filters // self.group, self.taps
        image = e.slice(e.op("Shape", self.x), 2, INT64_MAX, 0)
        parts = e.reshape(w, (self.group, outer, inner, len(taps)))
        if not _is_dense(window):
            turned = e.reshape(e.transpose(parts, (0, 2, 3, 1)), (self.group, inner * len(taps), outer))
            columns = e.op("MatMul", turned, e.reshape(self.dy, (0, self.group, outer, -1)))
            attrs = {"strides": window.strides, "dilations": window.dilations}
            columns = e.reshape(columns, (0, self.group * inner * len(taps), -1))
            block = e.const(window.kernel)
            return e.op("Col2Im", columns, image, block, pads=(*window.pads_begin, *window.pads_end), **attrs)
        turned = e.transpose(parts, (3, 0, 2, 1))  # [taps, g, C, M]
        last = [window.effective(axis) - 1 for axis in range(len(window.kernel))]
        pads = [[end - pad for end, pad in zip(last, own, strict=True)] for own in (window.pads_begin, window.pads_end)]
        padded, total = self._padded(self.dy, *pads), None
        for number, tap in enumerate(taps):
            start = [end - at * step for end, at, step in zip(last, tap, window.dilations, strict=True)]
            own = e.op("Gather", turned, e.const(number), axis=0)
            part = e.op("MatMul", own, self._view(padded, start, image, None, outer))
            total = part if total is None else e.op("Add", total, part)
        assert total is not None
        return e.op("Reshape", total, e.op("Shape", self.x))


def _joined(e: Expansion, values: Sequence[Value], axis: int) -> Value:
    return values[0] if len(values) == 1 else e.op("Concat", *values, axis=axis)


def _products(e: Expansion, window: Window, dy: Value, w: Value, x: Value, group: int) -> _Products | None:
    """The form by products; None where the sizes of the weights are not known, or the taps are many."""
    sizes = None if w.desc.shape is None else _whole(w.desc.shape)
    if sizes is None or min(sizes) < 1 or sizes[2:] != window.kernel or sizes[0] % group:
        return None
    if prod(window.kernel) > _MAX_TAPS:
        return None
    return _Products(e, window, dy, x, group, sizes)


def _of_weights(e: Expansion, window: Window, x: Value, dy: Value, group: int) -> Value:
    """Σ dY · X over batch and positions: a convolution of X with dY, batch and channels exchanged, strides and
    dilations too. It may see a few elements of X that no window reached: these come last and are cut off.
    """
    rank = len(window.kernel) + 2
    data = _batch_inside(e, x, group, rank, channels_first=False)
    filters = _batch_inside(e, dy, group, rank, channels_first=True)
    pads = (*window.pads_begin, *window.pads_end)
    total = e.op(
        "Conv", data, filters, group=group, strides=window.dilations, dilations=window.strides, pads=pads
    )  # fmt: skip
    axes = [*range(2, rank)]
    if not _is_dense(window):
        starts, ends = e.const([0] * len(axes)), e.const(window.kernel)
        total = e.op("Slice", total, starts, ends, e.const(axes))
    return e.transpose(total, (1, 0, *axes))


def _bias(e: Expansion, dy: Value, rank: int) -> Value:
    return e.op("ReduceSum", dy, e.const([0, *range(2, rank)]), keepdims=0)


@contrib("ConvGrad", "dY X W", _CONV, outputs=(0, 3))
@contrib("ConvGrad", "dY X W", _CONV, outputs=(0, 3), domain=STANDARD)  # where it was at first
def conv_grad(e: Expansion) -> Sequence[Value]:
    """The gradients of data, weights and bias."""
    dy, x, w = e.node.operands
    rank = e.rank_of(w)
    window, group = _window(e, _kernel(e, rank, w), x.desc.shape), e.count("group", 1)
    products = _products(e, window, dy, w, x, group)
    if products is not None:
        return [products.of_data(w), products.of_weights(), _bias(e, dy, rank)]
    return [_of_data(e, window, dy, w, x, group), _of_weights(e, window, x, dy, group), _bias(e, dy, rank)]


@contrib("ConvTransposeGrad", "dY X W", f"{_CONV} output_padding:I output_shape:I", outputs=(0, 3))
def conv_transpose_grad(e: Expansion) -> Sequence[Value]:
    """Conv of dY; for the weights data and gradient are swapped."""
    dy, x, w = e.node.operands
    rank = e.rank_of(w)
    if "output_shape" in e.node.attrs or e.node.str_attr("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise e.unsupported("pads that follow from the size of the result", "export the model with pads")
    window, group = _window(e, _kernel(e, rank, w), None), e.count("group", 1)
    pads = (*window.pads_begin, *window.pads_end)
    dx = e.op("Conv", dy, w, group=group, strides=window.strides, dilations=window.dilations, pads=pads)
    products = _products(e, window, x, w, dy, group)
    dw = _of_weights(e, window, dy, x, group) if products is None else products.of_weights()
    return [dx, dw, _bias(e, dy, rank)]


# --- pooling --------------------------------------------------------------------------------------


def _declared_sizes(e: Expansion) -> tuple[int, ...]:
    """Return all sizes of the pooled data but the batch's. The node does not say them, so that ONNX Runtime takes them
    from the type that the model declares for the result.
    """
    shape = e.node.outputs[0].desc.shape
    sizes = None if shape is None else _whole(shape[1:])
    if sizes is None or len(sizes) < 2:
        raise e.unsupported("the shape of its result is not stated", "keep the model's value_info")
    if prod(sizes[1:]) > _MAX_ELEMENTS:
        raise e.invalid(f"a result of {prod(sizes[1:])} elements a channel")
    return sizes


@contrib("MaxPoolGrad", "dY Indices", f"{_POOL} storage_order:i", domain=STANDARD)
def max_pool_grad(e: Expansion) -> Value:
    """Zeros in the shape of the pooled data, with dY added where each window had its maximum."""
    dy, indices = e.node.operands
    e.refuse_attrs("storage_order", "ONNX Runtime does not know it here, either")
    pool = indices.producer
    if pool.op_type == "MaxPool" and indices.index == 1:
        shape = e.op("Shape", pool.operand(0))
    else:
        shape = e.op("Concat", e.dim(dy, 0), e.const(_declared_sizes(e)), axis=0)
    return scatter_elements(e, shape, indices, dy, "add")


def _averaged_counts(e: Expansion, window: Window, sizes: tuple[int, ...]) -> Array:
    """Return how many elements each window averages."""
    ceil_mode, with_pads = bool(e.node.int_attr("ceil_mode", 0)), e.node.int_attr("count_include_pad", 0)
    counts = np.ones((), np.float32)
    for axis, size in enumerate(sizes):
        number = output_size(e.node, size, window, axis, ceil_mode=ceil_mode)
        if not isinstance(number, int) or number * counts.size > _MAX_ELEMENTS:
            raise e.invalid(f"{number} windows along spatial dim {axis}")
        taps, step, begin = window.kernel[axis], window.dilations[axis], window.pads_begin[axis]
        starts = np.arange(number) * window.strides[axis] - begin
        low, high = (-begin, size + window.pads_end[axis]) if with_pads else (0, size)
        below, within = (np.clip(-((starts - bound) // step), 0, taps) for bound in (low, high))
        counts = counts[..., None] * (within - below).astype(np.float32)
    return counts


@contrib("AveragePoolGrad", "dY", f"{_POOL} count_include_pad:i", domain=STANDARD)
def average_pool_grad(e: Expansion) -> Value:
    """Each window's share of dY at all elements that it averaged: a transposed convolution with ones."""
    dy, (channels, *spatial) = e.operand("dY"), _declared_sizes(e)
    kernel, sizes = _kernel(e, len(spatial) + 2), tuple(spatial)
    window = _window(e, kernel, (1, channels, *sizes))
    if prod(kernel) > _MAX_ELEMENTS:
        raise e.invalid(f"kernel_shape = {kernel}")
    counts = e.const(_averaged_counts(e, window, sizes), DType.FLOAT32)
    share = e.op("Div", dy, e.cast_like(counts, dy))
    ones = e.op("Expand", e.like(1.0, dy), e.const([channels, 1, *kernel]))
    attrs = {"dilations": window.dilations, "group": channels}
    begins = e.const(window.pads_begin)
    return cut_conv_transpose(e, share, ones, begins, e.const(sizes), strides=window.strides, **attrs)
