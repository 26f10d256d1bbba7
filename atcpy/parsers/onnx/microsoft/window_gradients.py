"""Gradients of convolutions and pooling, as ONNX Runtime's training writes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from atcpy.ir import DType, Value
from atcpy.ir.builder import INT64_MAX
from atcpy.ir.tensor import Array
from atcpy.parsers.onnx.microsoft.expansion import Expansion
from atcpy.parsers.onnx.microsoft.movement_gradients import placed
from atcpy.parsers.onnx.microsoft.table import STANDARD, microsoft

_WINDOW = "auto_pad:s dilations:I kernel_shape:I pads:I strides:I"
_CONV = f"{_WINDOW} group:i"
_POOL = f"{_WINDOW} ceil_mode:i"
_MOST = 2**31
_MOST_STATED = 2**24
_MOST_TAPS = 64
_ROWS = 32  # of a product: below so many channels, several taps have one together


@dataclass(frozen=True, slots=True)
class _Window:
    """How a window moves over the spatial dims: one entry each."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def is_dense(self) -> bool:
        """Does it move by single steps?"""
        return all(stride == 1 for stride in self.strides)

    @property
    def reach(self) -> tuple[int, ...]:
        """The size of the window with its gaps."""
        return tuple((taps - 1) * step + 1 for taps, step in zip(self.kernel, self.dilations, strict=True))


def _list(e: Expansion, name: str, count: int, default: int, least: int) -> tuple[int, ...]:
    found = e.node.ints_attr(name) if name in e.node.attrs else (default,) * count
    if len(found) != count or not all(least <= number < _MOST for number in found):
        raise e.invalid(f"{name} = {found}")
    return tuple(found)


def _whole(dims: Sequence[object]) -> tuple[int, ...] | None:
    """Sizes, if all of them are numbers."""
    sizes = tuple(dim for dim in dims if isinstance(dim, int))
    return sizes if len(sizes) == len(dims) else None


def _window(e: Expansion, kernel: tuple[int, ...], sizes: tuple[int, ...] | None) -> _Window:
    """The window of the node over dims of these sizes, which only `auto_pad` needs."""
    count = len(kernel)
    strides, dilations = (_list(e, name, count, 1, 1) for name in ("strides", "dilations"))
    pads = _list(e, "pads", 2 * count, 0, 0)
    window = _Window(kernel, strides, dilations, pads[:count], pads[count:])
    auto = e.node.str_attr("auto_pad", "NOTSET")
    if auto == "VALID":
        return _Window(kernel, strides, dilations, (0,) * count, (0,) * count)
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        return window
    if sizes is None and not window.is_dense:
        raise e.unsupported(f"auto_pad = {auto} of unknown sizes", "export the model with fixed sizes, or with pads")
    totals = (
        [reach - 1 for reach in window.reach]
        if sizes is None
        else [
            max((-(-size // stride) - 1) * stride + reach - size, 0)
            for size, stride, reach in zip(sizes, strides, window.reach, strict=True)
        ]
    )
    less, more = tuple(total // 2 for total in totals), tuple(total - total // 2 for total in totals)
    return _Window(kernel, strides, dilations, *((less, more) if auto == "SAME_UPPER" else (more, less)))


def _kernel(e: Expansion, rank: int, weights: Value | None = None) -> tuple[int, ...]:
    """The size of the window: the attribute, or that of the weights."""
    kernel = e.node.ints_attr("kernel_shape") if "kernel_shape" in e.node.attrs else None
    if kernel is None and weights is not None and weights.desc.shape is not None:
        kernel = _whole(weights.desc.shape[2:])
    if kernel is None:
        raise e.unsupported("the size of the window is not known", "export the model with kernel_shape")
    if rank < 3 or len(kernel) != rank - 2 or not all(0 < taps < _MOST for taps in kernel):
        raise e.invalid(f"a window {tuple(kernel)} over data of rank {rank}")
    return tuple(kernel)


def _sizes(e: Expansion, value: Value) -> tuple[int, ...] | None:
    """The sizes of the spatial dims, if the model tells them."""
    shape = e.declared(value).shape
    return None if shape is None else _whole(shape[2:])


def _given_back(e: Expansion, window: _Window, dy: Value, w: Value, x: Value, group: int) -> Value:
    """What a convolution gives back to its input: the transposed one. With steps above 1 the size of that leaves some
    room, so that it is all that it can be, cut to the size of x.
    """
    attrs = {"strides": window.strides, "dilations": window.dilations, "group": group}
    if window.is_dense:
        return e.op("ConvTranspose", dy, w, pads=(*window.begins, *window.ends), **attrs)
    whole = e.op("ConvTranspose", dy, w, output_padding=tuple(stride - 1 for stride in window.strides), **attrs)
    begins, sizes = e.const(window.begins), e.slice(e.op("Shape", x), 2, INT64_MAX, 0)
    axes = e.const([*range(2, len(window.kernel) + 2)])
    return e.op("Slice", whole, begins, e.op("Add", begins, sizes), axes)


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
    window: _Window
    dy: Value
    x: Value
    group: int
    sizes: tuple[int, ...]  # of the weights

    @property
    def taps(self) -> list[tuple[int, ...]]:
        return list(product(*map(range, self.window.kernel)))

    def _view(self, value: Value, start: Sequence[int], counts: Value, steps: Value | None, channels: int) -> Value:
        """What a tap sees: [N, g, channels, places]"""
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
        padded = self._padded(self.x, window.begins, window.ends)
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
        if not window.is_dense:
            turned = e.reshape(e.transpose(parts, (0, 2, 3, 1)), (self.group, inner * len(taps), outer))
            columns = e.op("MatMul", turned, e.reshape(self.dy, (0, self.group, outer, -1)))
            attrs = {"strides": window.strides, "dilations": window.dilations}
            columns = e.reshape(columns, (0, self.group * inner * len(taps), -1))
            block = e.const(window.kernel)
            return e.op("Col2Im", columns, image, block, pads=(*window.begins, *window.ends), **attrs)
        turned = e.transpose(parts, (3, 0, 2, 1))  # [taps, g, C, M]
        most = [reach - 1 for reach in window.reach]
        pads = [[end - pad for end, pad in zip(most, own, strict=True)] for own in (window.begins, window.ends)]
        padded, total = self._padded(self.dy, *pads), None
        for number, tap in enumerate(taps):
            start = [end - at * step for end, at, step in zip(most, tap, window.dilations, strict=True)]
            own = e.op("Gather", turned, e.const(number), axis=0)
            part = e.op("MatMul", own, self._view(padded, start, image, None, outer))
            total = part if total is None else e.op("Add", total, part)
        assert total is not None
        return e.op("Reshape", total, e.op("Shape", self.x))


def _joined(e: Expansion, values: Sequence[Value], axis: int) -> Value:
    return values[0] if len(values) == 1 else e.op("Concat", *values, axis=axis)


def _products(e: Expansion, window: _Window, dy: Value, w: Value, x: Value, group: int) -> _Products | None:
    """The form by products; None where the sizes of the weights are not known, or the taps are many."""
    sizes = None if w.desc.shape is None else _whole(w.desc.shape)
    if sizes is None or min(sizes) < 1 or sizes[2:] != window.kernel or sizes[0] % group:
        return None
    if prod(window.kernel) > _MOST_TAPS:
        return None
    return _Products(e, window, dy, x, group, sizes)


def _of_weights(e: Expansion, window: _Window, x: Value, dy: Value, group: int) -> Value:
    """Σ dY · X over batch and places: a convolution of X with dY, batch and channels exchanged, strides and dilations
    too. It may see a few elements of X that no window reached: these come last and are cut off.
    """
    rank = len(window.kernel) + 2
    data = _batch_inside(e, x, group, rank, channels_first=False)
    filters = _batch_inside(e, dy, group, rank, channels_first=True)
    pads = (*window.begins, *window.ends)
    total = e.op(
        "Conv", data, filters, group=group, strides=window.dilations, dilations=window.strides, pads=pads
    )  # fmt: skip
    axes = [*range(2, rank)]
    if not window.is_dense:
        starts, ends = e.const([0] * len(axes)), e.const(window.kernel)
        total = e.op("Slice", total, starts, ends, e.const(axes))
    return e.transpose(total, (1, 0, *axes))


def _bias(e: Expansion, dy: Value, rank: int) -> Value:
    return e.op("ReduceSum", dy, e.const([0, *range(2, rank)]), keepdims=0)


def _conv_grad(e: Expansion) -> None:
    """The gradients of data, weights and bias; those that nobody reads are left out."""
    dy, x, w = e.operand("dY"), e.operand("X"), e.operand("W")
    rank = e.known_rank(w)
    window = _window(e, _kernel(e, rank, w), _sizes(e, x))
    group = e.count("group", 1)
    products = _products(e, window, dy, w, x, group)
    if products is not None:
        e.finish(products.of_data(w), products.of_weights(), _bias(e, dy, rank))
        return
    e.finish(_given_back(e, window, dy, w, x, group), _of_weights(e, window, x, dy, group), _bias(e, dy, rank))


for _domain in ("com.microsoft", STANDARD):  # it was in the standard's domain at first
    microsoft("ConvGrad", "dY X W", _CONV, outputs=(0, 3), domain=_domain)(_conv_grad)


@microsoft("ConvTransposeGrad", "dY X W", f"{_CONV} output_padding:I output_shape:I", outputs=(0, 3))
def conv_transpose_grad(e: Expansion) -> None:
    """Conv of dY; for the weights data and gradient change places."""
    dy, x, w = e.operand("dY"), e.operand("X"), e.operand("W")
    rank = e.known_rank(w)
    if "output_shape" in e.node.attrs or e.node.str_attr("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise e.unsupported("pads that follow from the size of the result", "export the model with pads")
    window, group = _window(e, _kernel(e, rank, w), None), e.count("group", 1)
    attrs = {"strides": window.strides, "dilations": window.dilations, "pads": (*window.begins, *window.ends)}
    dx = e.op("Conv", dy, w, group=group, **attrs)
    products = _products(e, window, x, w, dy, group)
    dw = _of_weights(e, window, dy, x, group) if products is None else products.of_weights()
    e.finish(dx, dw, _bias(e, dy, rank))


# --- pooling --------------------------------------------------------------------------------------


def _stated_sizes(e: Expansion) -> tuple[int, ...]:
    """All sizes of the pooled data but the batch's. The node does not say them, so that ONNX Runtime takes them from
    the type that the model states for the result.
    """
    shape = e.declared(e.node.outputs[0]).shape
    sizes = None if shape is None else _whole(shape[1:])
    if sizes is None or len(sizes) < 2:
        raise e.unsupported("the shape of its result is not stated", "keep the model's value_info")
    if prod(sizes[1:]) > _MOST_STATED:
        raise e.invalid(f"a result of {prod(sizes[1:])} elements a channel")
    return sizes


@microsoft("MaxPoolGrad", "dY Indices", f"{_POOL} storage_order:i", domain=STANDARD)
def max_pool_grad(e: Expansion) -> None:
    """Zeros in the shape of the pooled data, with dY added where each window had its maximum."""
    dy, indices = e.operand("dY"), e.operand("Indices")
    e.refuse_attrs("storage_order", "ONNX Runtime does not know it here, either")
    pool = indices.producer
    if pool.op_type == "MaxPool" and indices.index == 1:
        shape = e.op("Shape", pool.operand(0))
    else:
        shape = e.op("Concat", e.dim(dy, 0), e.const(_stated_sizes(e)), axis=0)
    e.finish(placed(e, shape, indices, dy, "add"))


def _counted(e: Expansion, window: _Window, sizes: tuple[int, ...]) -> Array:
    """How many elements each window averages."""
    with_pads, counts = e.node.int_attr("count_include_pad", 0), np.ones((), np.float32)
    for size, taps, stride, step, reach, begin, end in zip(
        sizes, window.kernel, window.strides, window.dilations, window.reach, window.begins, window.ends, strict=True
    ):
        room = size + begin + end - reach
        if room < 0:
            raise e.invalid(f"a window of {reach} over {size} elements with {begin + end} pads")
        number = room // stride + 1
        if e.node.int_attr("ceil_mode", 0) and room % stride and number * stride < size + begin:
            number += 1
        at = np.arange(number)[:, None] * stride + np.arange(taps) * step - begin
        low, high = (-begin, size + end) if with_pads else (0, size)
        counts = counts[..., None] * ((at >= low) & (at < high)).sum(1).astype(np.float32)
    return counts


@microsoft("AveragePoolGrad", "dY", f"{_POOL} count_include_pad:i", domain=STANDARD)
def average_pool_grad(e: Expansion) -> None:
    """Each window's share of dY at all elements that it averaged: a transposed convolution with ones."""
    dy = e.operand("dY")
    channels, *sizes = _stated_sizes(e)
    kernel = _kernel(e, len(sizes) + 2)
    window = _window(e, kernel, tuple(sizes))
    if prod(kernel) > _MOST_STATED:
        raise e.invalid(f"kernel_shape = {kernel}")
    counts = _counted(e, window, tuple(sizes))
    share = e.op("Div", dy, e.cast_like(e.const(counts, DType.FLOAT32), dy))
    ones = e.op("Expand", e.like(1.0, dy), e.const([channels, 1, *kernel]))
    attrs = {"strides": window.strides, "dilations": window.dilations, "group": channels}
    whole = e.op("ConvTranspose", share, ones, **attrs)
    # Cut where data began; a step or a window that reached over the end leaves too little or too much behind it.
    ends = [
        (n - 1) * stride + reach for n, stride, reach in zip(counts.shape, window.strides, window.reach, strict=True)
    ]
    behind = [size + begin - end for size, begin, end in zip(sizes, window.begins, ends, strict=True)]
    pads = [0, 0, *(-begin for begin in window.begins), 0, 0, *behind]
    e.finish(e.op("Pad", whole, e.const(pads)))
