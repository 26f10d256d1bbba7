"""Ops that speak about shapes, or arrange elements anew as a whole."""

from __future__ import annotations

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Value
from atcpy.ir.arithmetic import MAX_FOLDED, IndexExpr, index_range, join, product, size_of, sizes_of
from atcpy.parsers.tensorflow.op import OpBuilder, maps
from atcpy.parsers.tensorflow.ops.spatial.upsampling import enlarged
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import TensorShapeProto
from atcpy.parsers.tensorflow.tensors import read_shape

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


@maps("ExpandDims")
def expand_dims(b: OpBuilder) -> Value:
    """Unsqueeze"""
    return b.unsqueeze(b.input(0), b.number(1, "axis"))


@maps("Shape", "ShapeN")
def shape(b: OpBuilder) -> list[Value | None]:
    """Shape of each"""
    dtype = b.dtype_attr("out_type")
    return [b.cast(b.op("Shape", value), dtype) for value in b.inputs]


@maps("Size")
def size(b: OpBuilder) -> Value:
    """Size"""
    return b.cast(b.op("Size", b.input(0)), b.dtype_attr("out_type"))


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
    counts = [size_of(b, value, 0).number for value in b.inputs]
    if len(counts) != 2 or None in counts:
        raise b.unsupported("shapes of which it is not known how many dims they have")
    longest = max(count or 0 for count in counts)
    first, second = (
        join(b, [IndexExpr.of(b, [1] * (longest - (counts[place] or 0))), b.index_input(place)]) for place in range(2)
    )
    return b.cast(first.equals(1).choose(second, first).value, b.dtype(0))


@maps("BroadcastTo")
def broadcast_to(b: OpBuilder) -> Value:
    """Expand"""
    return b.op("Expand", b.input(0), b.int64_input(1))


@maps("DataFormatDimMap")
def data_format_dim(b: OpBuilder) -> Value:
    """Gather from the dims of one layout in the other"""
    source, target = b.text_attr("src_format"), b.text_attr("dst_format")
    if sorted(source) != sorted(target):
        raise b.invalid(f"src_format {source}, dst_format {target}")
    dims = b.const([target.index(letter) for letter in source], b.dtype(0))
    return b.op("Gather", dims, b.int64_input(0), axis=0)


@maps("DataFormatVecPermute")
def data_format_order(b: OpBuilder) -> Value:
    """Gather of the sizes of one layout in the order of the other"""
    source, target = b.text_attr("src_format"), b.text_attr("dst_format")
    if sorted(source) != sorted(target):
        raise b.invalid(f"src_format {source}, dst_format {target}")
    if size_of(b, b.input(0), 0).number == len(source) - 2:
        source, target = (order.replace("N", "").replace("C", "") for order in (source, target))
    places = b.const([source.index(letter) for letter in target])
    return b.op("Gather", b.input(0), places, axis=0)


# --- elements in another order, or more than once ---------------------------------------------------


@maps("Transpose", "ConjugateTranspose")
def transpose(b: OpBuilder) -> Value:
    """Transpose; Gather if the order is computed"""
    if b.node.op == "ConjugateTranspose" and b.dtype(0) in (DType.COMPLEX64, DType.COMPLEX128):
        raise b.unsupported("complex numbers")
    rank = b.rank(0)
    if b.is_constant(1):
        perm = b.axes(1, rank)
        if sorted(perm) != list(range(rank)):
            raise b.invalid(f"the order {perm} of {rank} dims")
        return b.transpose(b.input(0), perm)
    return _transpose_by(b, IndexExpr(b, b.int64_input(1))) if rank > 1 else b.input(0)


def _transpose_by(b: OpBuilder, perm: IndexExpr) -> Value:
    """The places that the elements come from, in the order of the result."""
    x, rank = b.input(0), b.rank(0)
    sizes = sizes_of(b, x)
    strides = join(b, [product(b, sizes[axis + 1 :]) for axis in range(rank)]).gather(perm)
    new = join(b, sizes).gather(perm)
    places = IndexExpr.of(b, 0)
    for axis in range(rank):
        at = IndexExpr.of(b, [axis])
        along = index_range(b, new.gather(at)) * strides.gather(at)
        places = places + along.reshape(*[-1 if other == axis else 1 for other in range(rank)])
    return b.op("Gather", b.reshape(x, (-1,)), places.value, axis=0)


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
    at = 0 if b.node.op == "Concat" else len(b.inputs) - 1
    values = [value for place, value in enumerate(b.inputs) if place != at]
    return b.op("Concat", *values, axis=b.number(at, "axis")) if len(values) > 1 else values[0]


@maps("Tile")
def tile(b: OpBuilder) -> Value:
    """Tile"""
    return b.op("Tile", b.input(0), b.int64_input(1)) if b.rank(0) else b.input(0)


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
    """The places of a dim, with a part of them in reverse on both sides."""
    most = max(before.number or 0, behind.number or 0)
    if size.number is not None and most > size.number:
        what = f"paddings of {most} places, of a dim of {size.number}"
        raise b.invalid(what)
    places = index_range(b, before + size + behind) - before
    places = (places < 0).choose(IndexExpr.of(b, -1) - places, places)
    return (places >= size).choose(size * 2 - 1 - places, places)


# --- made of numbers ------------------------------------------------------------------------------------


@maps("Fill")
def fill(b: OpBuilder) -> Value:
    """Expand"""
    return b.op("Expand", b.input(1), b.int64_input(0))


@maps("Empty")
def empty(b: OpBuilder) -> Value:
    """Zeros"""
    return b.op("Expand", b.const(0, b.dtype_attr("dtype")), b.int64_input(0))


_RANGES = frozenset({DType.INT16, DType.INT32, DType.INT64, DType.FLOAT32, DType.FLOAT64})  # the types of Range


@maps("Range")
def range_(b: OpBuilder) -> Value:
    """Range; each float is the one before it and the step, rounded"""
    dtype, bounds = b.dtype(0), b.inputs
    if len(bounds) != 3:
        raise ModelInvalid("E12009", f"{len(bounds)} inputs instead of 3", where=b.where)
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
        return b.op("Range", *[b.reshape(value, ()) if value.desc.shape else value for value in bounds])
    wide = DType.FLOAT32 if dtype.is_float else DType.INT64
    return b.cast(b.op("Range", *[b.cast(value, wide) for value in bounds]), dtype)


@maps("LinSpace")
def lin_space(b: OpBuilder) -> Value:
    """Range, times the step; the last is the end itself"""
    start, stop = b.input(0), b.input(1)
    dtype = start.desc.dtype
    count = b.reshape(b.int64_input(2), ())
    last = b.op("Max", b.op("Sub", count, b.const(1)), b.const(1))
    places = b.op("Range", b.const(0), count, b.const(1))
    step = b.op("Div", b.op("Sub", stop, start), b.cast(last, dtype))
    numbers = b.op("Add", start, b.op("Mul", b.cast(places, dtype), step))
    return b.op("Where", b.op("Equal", places, last), stop, numbers)
