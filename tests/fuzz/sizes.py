"""Steps that compute sizes: chains of Shape, Gather, Unsqueeze and Concat as early PyTorch exporters wrote them, and
32-bit sizes as TensorFlow exporters did.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from atcpy.ir import DType
from tests.fuzz.builder import EVERY, Builder, Value

_SIZES = (DType.INT64, DType.INT32)


def by_sizes(b: Builder) -> None:
    """A reshape, slice, expansion or filled tensor whose sizes are computed from shapes of values."""
    x = b.value(EVERY, lambda shape: 0 < len(shape) <= 4 and 0 not in shape)
    if x is not None:
        b.pick([_view, _view, _slice, _expand, _append_zeros, _heads, _number])(b, x)


def _shape(b: Builder, x: Value) -> Value:
    shape = b.add("Shape", [x], DType.INT64, (len(x.shape),))
    if b.chance(0.3):
        return b.add("Cast", [shape], DType.INT32, shape.shape, to=DType.INT32.onnx)
    return shape


def _size(b: Builder, x: Value, axis: int) -> Value:
    """The size of an axis as a computed scalar."""
    shape = _shape(b, x)
    if b.chance(0.3):
        begin, end, axes = (b.constant(np.array([item], shape.dtype.numpy)) for item in (axis, axis + 1, 0))
        part = b.add("Slice", [shape, begin, end, axes], shape.dtype, (1,))
        return b.add("Squeeze", [part, b.constant(np.array([0]))], shape.dtype, ())
    return b.add("Gather", [shape, b.constant(np.array(axis))], shape.dtype, (), axis=0)


def _number_of(b: Builder, number: int, dtype: DType) -> Value:
    return b.constant(np.array(number, dtype.numpy))


def _list(b: Builder, sizes: Sequence[Value | int]) -> Value:
    """A 1-D tensor of sizes; Python integers become constants."""
    dtype = next((size.dtype for size in sizes if isinstance(size, Value)), DType.INT64)
    items = []
    for size in sizes:
        if isinstance(size, int):
            items.append(b.constant(np.array([size], dtype.numpy)))
            continue
        if size.dtype is not dtype:
            size = b.add("Cast", [size], dtype, (), to=dtype.onnx)
        items.append(b.add("Unsqueeze", [size, b.constant(np.array([0]))], dtype, (1,)))
    return b.add("Concat", items, dtype, (len(items),), axis=0)


def _as_64_bits(b: Builder, sizes: Value) -> Value:
    if sizes.dtype is DType.INT64:
        return sizes
    return b.add("Cast", [sizes], DType.INT64, sizes.shape, to=DType.INT64.onnx)


def _sizes_of(b: Builder, x: Value) -> list[Value | int]:
    """The sizes of all axes, some as Python integers."""
    return [size if b.chance(0.3) else _size(b, x, axis) for axis, size in enumerate(x.shape)]


def _product(b: Builder, first: Value | int, second: Value | int) -> Value | int:
    if isinstance(first, int) and isinstance(second, int):
        return first * second
    dtype = first.dtype if isinstance(first, Value) else second.dtype if isinstance(second, Value) else DType.INT64
    operands = []
    for factor in (first, second):
        if isinstance(factor, int):
            factor = _number_of(b, factor, dtype)
        operands.append(factor if factor.dtype is dtype else b.add("Cast", [factor], dtype, (), to=dtype.onnx))
    return b.add("Mul", operands, dtype, ())


def _view(b: Builder, x: Value) -> None:
    """Merge two axes, or split one by a factor; one of the sizes may be −1."""
    sizes, shape = _sizes_of(b, x), list(x.shape)
    axis = b.below(len(shape))
    if len(shape) > 1 and b.chance(0.6):
        axis = min(axis, len(shape) - 2)
        sizes[axis : axis + 2] = [_product(b, sizes[axis], sizes[axis + 1])]
        shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
    else:
        factor = next((factor for factor in (2, 3, 5) if shape[axis] % factor == 0), 1)
        whole = sizes[axis]
        if isinstance(whole, int):
            quotient: Value | int = whole // factor
        else:
            quotient = b.add("Div", [whole, _number_of(b, factor, whole.dtype)], whole.dtype, ())
        parts, numbers = [quotient, factor], [shape[axis] // factor, factor]
        if b.chance(0.5):
            parts, numbers = parts[::-1], numbers[::-1]
        sizes[axis : axis + 1], shape[axis : axis + 1] = parts, numbers
    if b.chance(0.3):
        sizes[b.below(len(sizes))] = -1
    b.add("Reshape", [x, _as_64_bits(b, _list(b, sizes))], x.dtype, shape)


def _heads(b: Builder, x: Value) -> None:
    """Split the last axis into heads, transpose, and merge again, as attention does."""
    if len(x.shape) != 3:
        return
    n, length, width = x.shape
    heads = next((factor for factor in (4, 2, 3) if width % factor == 0), 1)
    batch, rows = _size(b, x, 0), _size(b, x, 1)
    split = _as_64_bits(b, _list(b, [batch, -1 if b.chance(0.3) else rows, heads, width // heads]))
    y = b.add("Reshape", [x, split], x.dtype, (n, length, heads, width // heads))
    y = b.add("Transpose", [y], x.dtype, (n, heads, length, width // heads), perm=[0, 2, 1, 3])
    if b.chance(0.5):
        return
    if b.chance(0.5):
        y = b.add("Identity" if x.dtype is DType.BOOL else "Max", [y], x.dtype, y.shape)
    y = b.add("Transpose", [y], x.dtype, (n, length, heads, width // heads), perm=[0, 2, 1, 3])
    joined = [_product(b, batch, rows), width] if b.chance(0.5) else [batch, _size(b, y, 1), -1]
    shape = (n * length, width) if len(joined) == 2 else (n, length, width)
    b.add("Reshape", [y, _as_64_bits(b, _list(b, joined))], x.dtype, shape)


def _slice(b: Builder, x: Value) -> None:
    """Slice off the first or second part of an axis, at its middle or at a distance from its end."""
    axis = b.below(len(x.shape))
    size, whole = x.shape[axis], _size(b, x, axis)
    dtype = whole.dtype
    first_length = b.below(size + 1)
    if b.chance(0.5):
        middle = b.add("Div", [whole, _number_of(b, 2, dtype)], dtype, ())
        first_length = size // 2
    else:
        middle = b.add("Sub", [whole, _number_of(b, size - first_length, dtype)], dtype, ())
    low, high = ((0, middle), (middle, b.pick([size, whole, int(np.iinfo(dtype.numpy).max)])))[b.below(2)]
    begin, end, axes = (
        _list(b, [bound]) if isinstance(bound, Value) else b.constant(np.array([bound], dtype.numpy))
        for bound in (low, high, axis)
    )
    count = first_length if low == 0 else size - first_length
    b.add("Slice", [x, begin, end, axes], x.dtype, (*x.shape[:axis], count, *x.shape[axis + 1 :]))


def _expand(b: Builder, x: Value) -> None:
    """Expand to the computed shape of another value."""
    small = b.partner(x, one_way=True)
    b.add("Expand", [small, _as_64_bits(b, _shape(b, x))], small.dtype, x.shape)


def _append_zeros(b: Builder, x: Value) -> None:
    """Concatenate zeros of the value's computed shape."""
    if x.dtype is DType.BOOL:
        return
    sizes = _as_64_bits(b, _list(b, _sizes_of(b, x)))
    zeros = b.add("ConstantOfShape", [sizes], DType.FLOAT32, x.shape)
    if x.dtype is not DType.FLOAT32:
        zeros = b.add("Cast", [zeros], x.dtype, x.shape, to=x.dtype.onnx)
    b.add("Concat", [x, zeros], x.dtype, (*x.shape[:-1], 2 * x.shape[-1]), axis=-1)


def _number(b: Builder, x: Value) -> None:
    """Divide a value by a computed size."""
    if x.dtype is DType.FLOAT32 and math.prod(x.shape):
        size = b.add("Cast", [_size(b, x, b.below(len(x.shape)))], DType.FLOAT32, (), to=DType.FLOAT32.onnx)
        b.add("Div", [x, size], x.dtype, x.shape)


def parts(b: Builder) -> None:
    """Ops with several outputs, some of which are unread or unnamed."""
    x = b.value(EVERY, lambda shape: len(shape) > 0 and 0 not in shape)
    if x is None:
        return
    axis = b.below(len(x.shape))
    size = x.shape[axis]
    if b.chance(0.3) and x.dtype in (DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64):
        k = 1 + b.below(size)
        shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
        b.add_multi_output("TopK", [x, b.constant(np.array([k]))], [(x.dtype, shape), (DType.INT64, shape)], axis=axis)
        return
    lengths = []
    while sum(lengths) < size and len(lengths) < 3:
        lengths.append(1 + b.below(size - sum(lengths)))
    lengths[-1] += size - sum(lengths)
    types = [(x.dtype, (*x.shape[:axis], length, *x.shape[axis + 1 :])) for length in lengths]
    b.add_multi_output("Split", [x, b.constant(np.array(lengths))], types, axis=axis)
