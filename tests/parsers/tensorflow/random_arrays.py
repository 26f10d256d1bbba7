"""Recipes of random graphs for ops that move elements and for image ops."""

from __future__ import annotations

import numpy as np

from tests.parsers.tensorflow.graphs import Array, Type
from tests.parsers.tensorflow.random_graphs import Item, Sketch, Unfit, recipe

INT = Type("int32")


def _moved(s: Sketch, op: str, x: Item, others: list[str], array: Array, **attrs: object) -> Item:
    return s.put(op, [x.name, *others], array, is_exact=x.is_exact, T=x.type, **attrs)


@recipe
def reshape(s: Sketch) -> None:
    x = s.take(s.pick("ffi"), min_rank=1)
    sizes = [int(size) for size in x.array.shape]
    at = int(s.rng.integers(len(sizes)))
    new = [*sizes[:at], -1] if s.rng.random() < 0.5 or at == len(sizes) - 1 else [-1, *sizes[at + 1 :]]
    if 0 in sizes:
        raise Unfit
    _moved(s, "Reshape", x, [s.const(new, "int32")], x.array.reshape(new), Tshape=INT)


@recipe
def transpose(s: Sketch) -> None:
    x = s.take(s.pick("ffi"), min_rank=2)
    first = [0] if s.is_open else []
    perm = [*first, *(int(axis) + len(first) for axis in s.rng.permutation(x.array.ndim - len(first)))]
    _moved(s, "Transpose", x, [s.const(perm, "int32")], x.array.transpose(perm), Tperm=INT)


@recipe
def expand(s: Sketch) -> None:
    x = s.take(s.pick("fib"))
    if x.array.ndim > 4:
        raise Unfit
    axis = int(s.rng.integers(min(1, x.array.ndim) if s.is_open else -x.array.ndim - 1, x.array.ndim + 1))
    _moved(s, "ExpandDims", x, [s.const(axis, "int32")], np.expand_dims(x.array, axis), Tdim=INT)


@recipe
def squeeze(s: Sketch) -> None:
    x = s.take(s.pick("fi"))
    axes = [axis for axis, size in enumerate(x.array.shape) if size == 1 and axis > 0]
    if not axes:
        raise Unfit
    _moved(s, "Squeeze", x, [], x.array.squeeze(axes[0]), squeeze_dims=[axes[0]])


@recipe
def join(s: Sketch) -> None:
    x = s.take(s.pick("ffi"), min_rank=1)
    axis = int(s.rng.integers(x.array.ndim))
    attrs = {"T": x.type, "Tidx": INT, "N": 2}
    s.put(
        "ConcatV2",
        [x.name, x.name, s.const(axis, "int32")],
        np.concatenate([x.array] * 2, axis),
        is_exact=x.is_exact,
        **attrs,
    )


@recipe
def stack(s: Sketch) -> None:
    x = s.take()
    axis = int(s.rng.integers(min(1, x.array.ndim) if s.is_open else 0, x.array.ndim + 1))
    if x.array.ndim > 3:
        raise Unfit
    s.put("Pack", [x.name, x.name], np.stack([x.array] * 2, axis), is_exact=x.is_exact, T=x.type, N=2, axis=axis)


@recipe
def split(s: Sketch) -> None:
    x = s.take(min_rank=1)
    axis = x.array.ndim - 1
    if x.array.shape[axis] % 2 or not x.array.size:
        raise Unfit
    output = s.node("Split", [s.const(axis, "int32"), x.name], T=x.type, num_split=2)
    first, second = np.split(x.array, 2, axis)
    s.add_item(output, first, is_exact=x.is_exact)
    s.add_item(f"{output}:1", second, is_exact=x.is_exact)


@recipe
def unstack(s: Sketch) -> None:
    x = s.take(min_rank=2)
    size = x.array.shape[-1]
    output = s.node("Unpack", [x.name], T=x.type, num=size, axis=-1)
    s.add_item(f"{output}:{size - 1}" if size > 1 else output, x.array[..., -1], is_exact=x.is_exact)


@recipe
def pad(s: Sketch) -> None:
    x = s.take(min_rank=1)
    pads = s.rng.integers(0, 3, (x.array.ndim, 2))
    _moved(s, "Pad", x, [s.const(pads, "int32")], np.pad(x.array, pads), Tpaddings=INT)


@recipe
def mirror(s: Sketch) -> None:
    x = s.take(min_rank=2)
    if min(x.array.shape[1:]) < 2:
        raise Unfit
    pads = np.array([[0, 0], *s.rng.integers(0, 2, (x.array.ndim - 1, 2))])
    mode = s.pick(["REFLECT", "SYMMETRIC"])
    _moved(s, "MirrorPad", x, [s.const(pads, "int32")], np.pad(x.array, pads, mode.lower()), Tpaddings=INT, mode=mode)


@recipe
def reverse(s: Sketch) -> None:
    x = s.take(s.pick("fi"), min_rank=1)
    axis = int(s.rng.integers(x.array.ndim))
    _moved(s, "ReverseV2", x, [s.const([axis], "int32")], np.flip(x.array, axis), Tidx=INT)


@recipe
def gather(s: Sketch) -> None:
    x = s.take(min_rank=1)
    axis = int(s.rng.integers(x.array.ndim))
    indices = s.rng.integers(0, x.array.shape[axis], s.pick([(2,), (3, 2), ()])) if x.array.size else None
    if indices is None:
        raise Unfit
    inputs = [s.const(indices, "int32"), s.const(axis, "int32")]
    array = np.take(x.array, indices, axis)
    attrs = {"Tparams": x.type, "Tindices": INT, "Taxis": INT, "batch_dims": 0}
    s.put("GatherV2", [x.name, *inputs], array, is_exact=x.is_exact, **attrs)


@recipe
def window_of(s: Sketch) -> None:
    x = s.take(s.pick("ffi"), min_rank=1)
    sizes = x.array.shape
    starts = [int(s.rng.integers(size)) if axis and size else 0 for axis, size in enumerate(sizes)]
    counts = [-1 if s.rng.random() < 0.5 or not axis else int(s.rng.integers(1, size - start + 1))
              for axis, (size, start) in enumerate(zip(sizes, starts, strict=True))]  # fmt: skip
    where = tuple(slice(a, None if n < 0 else a + n) for a, n in zip(starts, counts, strict=True))
    _moved(s, "Slice", x, [s.const(starts, "int32"), s.const(counts, "int32")], x.array[where], Index=INT)


@recipe
def steps_of(s: Sketch) -> None:
    x = s.take(s.pick("ffi"), min_rank=2)
    size = x.array.shape[1]
    step = s.pick([1, 2, -1])
    is_row = bool(s.rng.random() < 0.3)
    begin = [0, size - 1 if step < 0 else 0]
    if is_row:
        where: tuple[object, ...] = (slice(None), begin[1])
    else:
        where = (slice(None), slice(begin[1], None, step))
    masks = {"begin_mask": 1, "end_mask": 3, "shrink_axis_mask": 2 * is_row, "ellipsis_mask": 0, "new_axis_mask": 0}
    inputs = [s.const(begin, "int32"), s.const([0, 0], "int32"), s.const([1, 1 if is_row else step], "int32")]
    _moved(s, "StridedSlice", x, inputs, x.array[where], Index=INT, **masks)


@recipe
def rows_of_unknown_count(s: Sketch) -> None:
    """Reshape to a computed shape [batch, −1]."""
    x = s.take(min_rank=2)
    if not x.array.size:
        raise Unfit
    shape = s.node("Shape", [x.name], T=x.type, out_type=INT)
    masks = {"begin_mask": 0, "end_mask": 0, "shrink_axis_mask": 1, "ellipsis_mask": 0, "new_axis_mask": 0}
    ends = [s.const([item], "int32") for item in (0, 1, 1)]
    batch = s.node("StridedSlice", [shape, *ends], T=INT, Index=INT, **masks)
    target = s.node("Pack", [batch, s.const(-1, "int32")], T=INT, N=2, axis=0)
    _moved(s, "Reshape", x, [target], x.array.reshape(x.array.shape[0], -1), Tshape=INT)


@recipe
def one_hot(s: Sketch) -> None:
    x = s.take("i", is_exact=True)
    if x.array.ndim > 3:
        raise Unfit
    array = np.where(x.array[..., None] == np.arange(4), 1.5, -0.5)
    inputs = [x.name, s.const(4, "int32"), s.const(1.5, "float32"), s.const(-0.5, "float32")]
    s.put("OneHot", inputs, array, is_exact=True, T=Type("float32"), TI=x.type, axis=-1)


# --- images, NHWC ------------------------------------------------------------------------------


def _pads(size: int, window: int, stride: int, padding: str) -> tuple[int, int, int]:
    """Pads before and after, and the size of the result."""
    if padding == "VALID":
        return 0, 0, (size - window) // stride + 1
    out = -(-size // stride)
    total = max((out - 1) * stride + window - size, 0)
    return total // 2, total - total // 2, out


def _windows(s: Sketch, x: Array, window: int, stride: int, padding: str, filler: float) -> Array:
    """Each window of an image: [n, rows, columns, window, window, channels]."""
    (top, bottom, rows), (left, right, columns) = (_pads(size, window, stride, padding) for size in x.shape[1:3])
    if rows < 1 or columns < 1 or not x.size:
        raise Unfit
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=filler)
    views = np.lib.stride_tricks.sliding_window_view(padded, (window, window), (1, 2))
    return views[:, ::stride, ::stride][:, :rows, :columns].transpose(0, 1, 2, 4, 5, 3)


def _drawn(s: Sketch) -> tuple[Item, int, int, str, dict[str, object]]:
    x, window, stride, padding = s.take(rank=4), s.pick([1, 2, 3]), s.pick([1, 1, 2]), s.pick(["SAME", "VALID"])
    attrs = {"T": x.type, "strides": [1, stride, stride, 1], "padding": padding, "data_format": "NHWC"}
    return x, window, stride, padding, attrs


@recipe
def convolution(s: Sketch) -> None:
    x, window, stride, padding, attrs = _drawn(s)
    views = _windows(s, x.array, window, stride, padding, 0)
    channels = x.array.shape[3]
    if s.rng.random() < 0.6:
        name, w = s.weights(window, window, channels, int(s.rng.integers(1, 6)), scale=0.3)
        output = s.node("Conv2D", [x.name, name], dilations=[1, 1, 1, 1], **attrs)
        array = np.einsum("nrcijk,ijko->nrco", views, w)
    else:
        name, w = s.weights(window, window, channels, 2)
        output = s.node("DepthwiseConv2dNative", [x.name, name], dilations=[1, 1, 1, 1], **attrs)
        array = np.einsum("nrcijk,ijkm->nrckm", views, w).reshape(*views.shape[:3], -1)
    bias, b = s.weights(array.shape[3])
    s.put("BiasAdd", [output, bias], array + b, T=x.type, data_format="NHWC")


@recipe
def pooling(s: Sketch) -> None:
    x, window, stride, padding, attrs = _drawn(s)
    attrs["ksize"] = [1, window, window, 1]
    if s.rng.random() < 0.5:
        array = _windows(s, x.array, window, stride, padding, -np.inf).max((3, 4))
        s.put("MaxPool", [x.name], array, is_exact=x.is_exact, **attrs)
    else:
        s.put("AvgPool", [x.name], np.nanmean(_windows(s, x.array, window, stride, padding, np.nan), (3, 4)), **attrs)


@recipe
def batch_norm(s: Sketch) -> None:
    x = s.take(rank=4)
    (scale, g), (offset, b), (mean, m) = (s.weights(x.array.shape[3]) for _ in range(3))
    variance = s.rng.random(x.array.shape[3]).astype(np.float32) + np.float32(0.5)
    inputs = [x.name, scale, offset, mean, s.const(variance)]
    attrs = {"epsilon": 0.01, "is_training": False, "data_format": "NHWC", "U": x.type, "T": x.type}
    s.put("FusedBatchNormV3", inputs, (x.array - m) / np.sqrt(variance.astype(np.float64) + 0.01) * g + b, **attrs)


@recipe
def blocks(s: Sketch) -> None:
    x = s.take(rank=4)
    n, rows, columns, channels = x.array.shape
    if rows % 2 or columns % 2 or not x.array.size:
        raise Unfit
    parts = x.array.reshape(n, rows // 2, 2, columns // 2, 2, channels).transpose(0, 1, 3, 2, 4, 5)
    array = parts.reshape(n, rows // 2, columns // 2, 4 * channels)
    _moved(s, "SpaceToDepth", x, [], array, block_size=2, data_format="NHWC")
