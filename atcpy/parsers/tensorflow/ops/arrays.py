"""Ops that speak about shapes, or arrange elements anew as a whole."""

from __future__ import annotations

import numpy as np

from atcpy.ir import DType, Value
from atcpy.ir.arithmetic import MAX_FOLDED, Expr, IndexExpr, arange, index_range, join, product, size_of, sizes_of
from atcpy.parsers.tensorflow.op import COMPLEX_PARTS, OpBuilder, maps, maps_all
from atcpy.parsers.tensorflow.ops.spatial.upsampling import enlarged
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import TensorShapeProto
from atcpy.parsers.tensorflow.tensors import read_shape

maps_all(
    {
        "ExpandDims": ("Unsqueeze", lambda b: b.unsqueeze(b.input(0), b.number(1, "axis"))),
        "Shape ShapeN": ("Shape of each", lambda b: [_of_out_type(b, b.op("Shape", value)) for value in b.inputs]),
        "Size": ("Size", lambda b: _of_out_type(b, b.op("Size", b.input(0)))),
        "BroadcastTo": ("Expand", lambda b: b.op("Expand", b.input(0), b.int64_input(1))),
        "Tile": ("Tile", lambda b: b.op("Tile", b.input(0), b.int64_input(1)) if b.rank(0) else b.input(0)),
        "Fill": ("Expand", lambda b: b.op("Expand", b.input(1), b.int64_input(0))),
        "Empty": ("Zeros", lambda b: b.op("Expand", b.const(0, b.dtype_attr("dtype")), b.int64_input(0))),
    }
)


def _of_out_type(b: OpBuilder, value: Value) -> Value:
    return b.cast(value, b.dtype_attr("out_type"))


# --- shapes --------------------------------------------------------------------------------------------


@maps("Reshape")
def reshape(b: OpBuilder) -> Value:
    """Reshape; a 0 is a size of 0. The last of those that repeat rows and columns of images, Resize"""
    reshaped = b.op("Reshape", b.input(0), b.int64_input(1), allowzero=1)
    return enlarged(b, reshaped) or reshaped


@maps("EnsureShape")
def ensure_shape(b: OpBuilder) -> Value:
    """Reshape where the shape is known better than before"""
    x, proto = b.input(0), b.attr("shape")
    sizes = read_shape(proto) if isinstance(proto, TensorShapeProto) else None
    if sizes is None:
        return x
    known = x.desc.shape
    if known is not None and len(known) != len(sizes):
        raise b.invalid(f"a shape of {len(sizes)} dims for {len(known)}")
    dims = [size if size >= 0 else known[axis] if known is not None else -1 for axis, size in enumerate(sizes)]
    new = [dim if isinstance(dim, int) else -1 for dim in dims]
    is_news = known is None or any(
        size >= 0 and not isinstance(dim, int) for size, dim in zip(sizes, known, strict=True)
    )
    return b.reshape(x, new) if is_news and new.count(-1) < 2 and 0 not in new else x


@maps("Squeeze")
def squeeze(b: OpBuilder) -> Value:
    """Squeeze; of no dims given, all of size 1"""
    axes = b.attr("squeeze_dims") or b.attr("axis")
    if isinstance(axes, tuple) and axes:
        return b.squeeze(b.input(0), *axes)
    return b.op("Squeeze", b.input(0))


@maps("Rank")
def rank_(b: OpBuilder) -> Value:
    """The number of dims"""
    known = b.input(0).desc.shape
    if known is not None:
        return b.const(len(known), DType.INT32)
    return b.cast(b.op("Size", b.op("Shape", b.input(0))), DType.INT32)


@maps("BroadcastArgs")
def broadcast_args(b: OpBuilder) -> Value:
    """The shape that two shapes broadcast to"""
    ranks = [rank for index in range(2) if (rank := size_of(b, b.input(index), 0).number) is not None]
    if len(ranks) < 2:
        raise b.unsupported("shapes of which it is not known how many dims they have")
    first, second = (
        join(b, [IndexExpr.of(b, [1] * (max(ranks) - rank)), b.index_input(index)]) for index, rank in enumerate(ranks)
    )
    return b.cast(first.equals(1).choose(second, first).value, b.dtype(0))


@maps("DataFormatDimMap")
def data_format_dim(b: OpBuilder) -> Value:
    """Gather from the dims of one layout in the other"""
    source, target = _data_formats(b)
    dims = b.const([target.index(letter) for letter in source], b.dtype(0))
    return b.op("Gather", dims, b.int64_input(0), axis=0)


@maps("DataFormatVecPermute")
def data_format_order(b: OpBuilder) -> Value:
    """Gather of the sizes of one layout in the order of the other"""
    source, target = _data_formats(b)
    if size_of(b, b.input(0), 0).number == len(source) - 2:
        source, target = (order.replace("N", "").replace("C", "") for order in (source, target))
    return b.op("Gather", b.input(0), b.const([source.index(letter) for letter in target]), axis=0)


def _data_formats(b: OpBuilder) -> tuple[str, str]:
    source, target = b.text_attr("src_format"), b.text_attr("dst_format")
    if sorted(source) != sorted(target):
        raise b.invalid(f"src_format {source}, dst_format {target}")
    return source, target


# --- elements in another order, or more than once ---------------------------------------------------


@maps("Transpose", "ConjugateTranspose")
def transpose(b: OpBuilder) -> Value:
    """Transpose; Gather if the order is computed"""
    if b.node.op == "ConjugateTranspose" and b.dtype(0) in COMPLEX_PARTS:
        raise b.unsupported("complex numbers")
    rank = b.rank(0)
    if b.is_constant(1):
        perm = b.axes(1, rank)
        if sorted(perm) != list(range(rank)):
            raise b.invalid(f"the order {perm} of {rank} dims")
        return b.transpose(b.input(0), perm)
    return _transpose_by(b, IndexExpr(b, b.int64_input(1))) if rank > 1 else b.input(0)


def _transpose_by(b: OpBuilder, perm: IndexExpr) -> Value:
    """Transpose by a permutation that is computed: Gather by the flat index that each element comes from."""
    x, rank = b.input(0), b.rank(0)
    sizes = sizes_of(b, x)
    strides = join(b, [product(b, sizes[axis + 1 :]) for axis in range(rank)]).gather(perm)
    new = join(b, sizes).gather(perm)
    indices = IndexExpr.of(b, 0)
    for axis in range(rank):
        at = IndexExpr.of(b, [axis])
        along = index_range(b, new.gather(at)) * strides.gather(at)
        indices = indices + along.reshape(*[-1 if other == axis else 1 for other in range(rank)])
    return b.op("Gather", b.reshape(x, (-1,)), indices.value, axis=0)


@maps("Pack", "ParallelConcat")
def pack(b: OpBuilder) -> Value:
    """Concat of what each is with a new dim"""
    if b.node.op == "ParallelConcat":
        return b.op("Concat", *b.inputs, axis=0)
    axis = b.int_attr("axis")
    return b.op("Concat", *[b.unsqueeze(value, axis) for value in b.inputs], axis=axis)


@maps("ConcatV2", "Concat")
def concat(b: OpBuilder) -> Value:
    """Concat"""
    axis_index = 0 if b.node.op == "Concat" else len(b.inputs) - 1
    values = [value for index, value in enumerate(b.inputs) if index != axis_index]
    return b.op("Concat", *values, axis=b.number(axis_index, "axis")) if len(values) > 1 else values[0]


@maps("Bitcast")
def bitcast(b: OpBuilder) -> Value:
    """BitCast, between types of one width"""
    dtype = b.dtype_attr("type")
    if dtype.bits != b.dtype(0).bits:
        raise b.unsupported(f"from {b.dtype(0).long} to {dtype.long}, of another width")
    return b.op("BitCast", b.input(0), to=dtype.onnx)


# --- borders -------------------------------------------------------------------------------------------


@maps("Pad", "PadV2")
def pad(b: OpBuilder) -> Value:
    """Pad with a constant"""
    filler = b.input(2) if b.node.op == "PadV2" else None
    return b.op("Pad", b.input(0), _borders(b).value, filler)


def _borders(b: OpBuilder) -> IndexExpr:
    """What comes before each dim, then what comes behind each."""
    borders = b.index_input(1)
    if isinstance(borders.elements, Value):
        return IndexExpr(b, b.reshape(b.transpose(borders.elements, (1, 0)), (-1,)))
    if borders.elements.shape != (b.rank(0), 2) or (borders.elements < 0).any():
        raise b.invalid(f"paddings {borders.elements.tolist()} of {b.rank(0)} dims")
    return IndexExpr.of(b, borders.elements.T.reshape(-1))


@maps("MirrorPad")
def mirror_pad(b: OpBuilder) -> Value:
    """Pad (REFLECT); with the border itself (SYMMETRIC), Gather"""
    borders, x, rank = _borders(b), b.input(0), b.rank(0)
    match b.text_attr("mode"):
        case "REFLECT":
            return b.op("Pad", x, borders.value, mode="reflect")
        case "SYMMETRIC":
            for axis in range(rank):
                before, behind = (borders.gather(IndexExpr.of(b, [at])) for at in (axis, axis + rank))
                if (before.number, behind.number) != (0, 0):
                    x = b.op("Gather", x, _mirrored(b, size_of(b, x, axis), before, behind).value, axis=axis)
            return x
        case other:
            raise b.invalid(f"mode: {other}")


def _mirrored(b: OpBuilder, size: IndexExpr, before: IndexExpr, behind: IndexExpr) -> IndexExpr:
    """The indices of a dim, with a part of them in reverse on both sides."""
    longest = max(before.number or 0, behind.number or 0)
    if size.number is not None and longest > size.number:
        raise b.invalid(f"paddings of {longest} elements, of a dim of {size.number}")
    indices = index_range(b, before + size + behind) - before
    indices = (indices < 0).choose(IndexExpr.of(b, -1) - indices, indices)
    return (indices >= size).choose(size * 2 - 1 - indices, indices)


# --- made of numbers ------------------------------------------------------------------------------------


_RANGES = frozenset({DType.INT16, DType.INT32, DType.INT64, DType.FLOAT32, DType.FLOAT64})  # the types of Range


@maps("Range")
def range_(b: OpBuilder) -> Value:
    """Range; each float is the one before it and the step, rounded"""
    dtype, bounds = b.dtype(0), [b.input(index) for index in range(3)]
    if dtype.is_float and all(value.tensor is not None for value in bounds):
        start, limit, delta = (value.array.reshape(()) for value in bounds)
        if delta == 0:
            raise b.invalid("a step of 0")
        length = np.ceil((limit - start) / delta)
        if not length <= MAX_FOLDED:
            raise b.unsupported(f"{length} numbers")
        count = max(0, int(length))
        steps = np.full(count, delta, dtype.numpy)
        steps[:1] = start
        return b.const(np.add.accumulate(steps, dtype=dtype.numpy), dtype)
    if dtype in _RANGES:
        return b.op("Range", *map(b.scalar, bounds))
    wide = DType.FLOAT32 if dtype.is_float else DType.INT64
    return b.cast(b.op("Range", *[b.cast(value, wide) for value in bounds]), dtype)


@maps("LinSpace")
def lin_space(b: OpBuilder) -> Value:
    """Range, times the step; the last is the end itself"""
    start, stop = b.expr(0), b.expr(1)
    count = b.reshape(b.int64_input(2), ())
    numbers, last = arange(b, count, DType.INT64), (Expr(b, count) - 1).max(1)
    step = (stop - start) / last.cast(b.dtype(0))
    return stop.where(numbers.equals(last), start + numbers.cast(b.dtype(0)) * step).value
