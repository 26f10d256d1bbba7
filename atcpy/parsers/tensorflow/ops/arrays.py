"""Ops that speak about shapes, or arrange elements anew as a whole."""

from __future__ import annotations

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.integers import (
    MAX_KNOWN,
    Integers,
    all_of,
    count_up,
    integers,
    join,
    known_number,
    product,
    size_of,
    sizes_of,
)
from atcpy.parsers.tensorflow.op import Op, maps
from atcpy.parsers.tensorflow.ops.upsampling import enlarged
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import TensorShapeProto
from atcpy.parsers.tensorflow.tensors import read_shape

# --- shapes --------------------------------------------------------------------------------------------


@maps("Reshape")
def reshape(op: Op) -> Value:
    """Reshape; a 0 is a size of 0. The last of those that repeat rows and columns of images, Resize"""
    reshaped = op.add("Reshape", op.input(0), op.shape_input(1), allowzero=1)
    return enlarged(op, reshaped) or reshaped


@maps("EnsureShape")
def ensure_shape(op: Op) -> Value:
    """Reshape where the shape is known better than before"""
    x, proto = op.input(0), op.attr("shape")
    sizes = read_shape(proto) if isinstance(proto, TensorShapeProto) else None
    if sizes is None:
        return x
    known = x.desc.shape
    if known is not None and len(known) != len(sizes):
        raise ModelInvalid("E13014", f"a shape of {len(sizes)} dims for {len(known)}", where=op.where)
    dims = [size if size >= 0 else known[axis] if known is not None else -1 for axis, size in enumerate(sizes)]
    new = [dim if isinstance(dim, int) else -1 for dim in dims]
    is_news = known is None or any(
        size >= 0 and not isinstance(dim, int) for size, dim in zip(sizes, known, strict=True)
    )
    return op.reshape(x, new) if is_news and new.count(-1) < 2 and 0 not in new else x


@maps("Squeeze")
def squeeze(op: Op) -> Value:
    """Squeeze; of no dims given, all of size 1"""
    axes = op.attr("squeeze_dims") or op.attr("axis")
    if isinstance(axes, tuple) and axes:
        return op.squeeze(op.input(0), *axes)
    return op.add("Squeeze", op.input(0))


@maps("ExpandDims")
def expand_dims(op: Op) -> Value:
    """Unsqueeze"""
    return op.unsqueeze(op.input(0), known_number(op, 1, "axis"))


@maps("Shape", "ShapeN")
def shape(op: Op) -> list[Value | None]:
    """Shape of each"""
    dtype = op.dtype_attr("out_type")
    return [op.cast(op.add("Shape", value), dtype) for value in op.inputs]


@maps("Size")
def size(op: Op) -> Value:
    """Size"""
    return op.cast(op.add("Size", op.input(0)), op.dtype_attr("out_type"))


@maps("Rank")
def rank_(op: Op) -> Value:
    """The number of dims"""
    known = op.input(0).desc.shape
    if known is not None:
        return op.const(len(known), DType.INT32)
    return op.cast(op.add("Size", op.add("Shape", op.input(0))), DType.INT32)


@maps("BroadcastArgs")
def broadcast_args(op: Op) -> Value:
    """The shape that two shapes broadcast to"""
    counts = [size_of(op, value, 0).number for value in op.inputs]
    if len(counts) != 2 or None in counts:
        raise op.refuse("shapes of which it is not known how many dims they have")
    longest = max(count or 0 for count in counts)
    first, second = (
        join(op, [integers(op, [1] * (longest - (counts[place] or 0))), all_of(op, place)]) for place in range(2)
    )
    return op.cast(first.equals(1).choose(second, first).value, op.dtype(0))


@maps("BroadcastTo")
def broadcast_to(op: Op) -> Value:
    """Expand"""
    return op.add("Expand", op.input(0), op.shape_input(1))


@maps("DataFormatDimMap")
def data_format_dim(op: Op) -> Value:
    """Gather from the dims of one layout in the other"""
    source, target = op.text_attr("src_format"), op.text_attr("dst_format")
    if sorted(source) != sorted(target):
        raise ModelInvalid("E13014", f"src_format {source}, dst_format {target}", where=op.where)
    dims = op.const([target.index(letter) for letter in source], op.dtype(0))
    return op.add("Gather", dims, op.shape_input(0), axis=0)


@maps("DataFormatVecPermute")
def data_format_order(op: Op) -> Value:
    """Gather of the sizes of one layout in the order of the other"""
    source, target = op.text_attr("src_format"), op.text_attr("dst_format")
    if sorted(source) != sorted(target):
        raise ModelInvalid("E13014", f"src_format {source}, dst_format {target}", where=op.where)
    if size_of(op, op.input(0), 0).number == len(source) - 2:
        source, target = (order.replace("N", "").replace("C", "") for order in (source, target))
    places = op.const([source.index(letter) for letter in target])
    return op.add("Gather", op.input(0), places, axis=0)


# --- elements in another order, or more than once ---------------------------------------------------


@maps("Transpose", "ConjugateTranspose")
def transpose(op: Op) -> Value:
    """Transpose; Gather if the order is computed"""
    if op.node.op == "ConjugateTranspose" and op.dtype(0) in (DType.COMPLEX64, DType.COMPLEX128):
        raise op.refuse("complex numbers")
    rank = op.rank(0)
    if op.is_constant(1):
        perm = op.axes(1, rank)
        if sorted(perm) != list(range(rank)):
            raise ModelInvalid("E13014", f"the order {perm} of {rank} dims", where=op.where)
        return op.transpose(op.input(0), perm)
    return _transpose_by(op, Integers(op, op.shape_input(1))) if rank > 1 else op.input(0)


def _transpose_by(op: Op, perm: Integers) -> Value:
    """The places that the elements come from, in the order of the result."""
    x, rank = op.input(0), op.rank(0)
    sizes = sizes_of(op, x)
    strides = join(op, [product(op, sizes[axis + 1 :]) for axis in range(rank)]).pick(perm)
    new = join(op, sizes).pick(perm)
    places = integers(op, 0)
    for axis in range(rank):
        at = integers(op, [axis])
        along = count_up(op, new.pick(at)) * strides.pick(at)
        places = places + along.shaped(*[-1 if other == axis else 1 for other in range(rank)])
    return op.add("Gather", op.reshape(x, (-1,)), places.value, axis=0)


@maps("Pack", "ParallelConcat")
def pack(op: Op) -> Value:
    """Concat of what each is with a new dim"""
    if op.node.op == "ParallelConcat":
        return op.add("Concat", *op.inputs, axis=0)
    axis = op.int_attr("axis")
    return op.add("Concat", *[op.unsqueeze(value, axis) for value in op.inputs], axis=axis)


@maps("ConcatV2", "Concat")
def concat(op: Op) -> Value:
    """Concat"""
    at = 0 if op.node.op == "Concat" else len(op.inputs) - 1
    values = [value for place, value in enumerate(op.inputs) if place != at]
    return op.add("Concat", *values, axis=known_number(op, at, "axis")) if len(values) > 1 else values[0]


@maps("Tile")
def tile(op: Op) -> Value:
    """Tile"""
    return op.add("Tile", op.input(0), op.shape_input(1)) if op.rank(0) else op.input(0)


@maps("RefIdentity", "GuaranteeConst", "Copy", "CopyHost", "DeepCopy", "DebugIdentity", "DebugIdentityV2")
def copy(op: Op) -> Value:
    """Its input"""
    return op.input(0)


@maps("Bitcast")
def bitcast(op: Op) -> Value:
    """BitCast, between types of one width"""
    dtype = op.dtype_attr("type")
    if dtype.bits != op.dtype(0).bits:
        raise op.refuse(f"from {op.dtype(0).long} to {dtype.long}, of another width")
    return op.add("BitCast", op.input(0), to=dtype.onnx)


# --- borders -------------------------------------------------------------------------------------------


@maps("Pad", "PadV2")
def pad(op: Op) -> Value:
    """Pad with a constant"""
    filler = op.input(2) if op.node.op == "PadV2" else None
    return op.add("Pad", op.input(0), _borders(op).value, filler)


def _borders(op: Op) -> Integers:
    """What comes before each dim, then what comes behind each."""
    borders = all_of(op, 1)
    if isinstance(borders.held, Value):
        return Integers(op, op.reshape(op.transpose(borders.held, (1, 0)), (-1,)))
    if borders.held.shape != (op.rank(0), 2) or (borders.held < 0).any():
        raise ModelInvalid("E13014", f"paddings {borders.held.tolist()} of {op.rank(0)} dims", where=op.where)
    return integers(op, borders.held.T.reshape(-1))


@maps("MirrorPad")
def mirror_pad(op: Op) -> Value:
    """Pad (REFLECT); with the border itself (SYMMETRIC), Gather"""
    borders, x, rank = _borders(op), op.input(0), op.rank(0)
    match op.text_attr("mode"):
        case "REFLECT":
            return op.add("Pad", x, borders.value, mode="reflect")
        case "SYMMETRIC":
            for axis in range(rank):
                before, behind = (borders.pick(integers(op, [at])) for at in (axis, axis + rank))
                if (before.number, behind.number) != (0, 0):
                    x = op.add("Gather", x, _mirrored(op, size_of(op, x, axis), before, behind).value, axis=axis)
            return x
        case other:
            raise ModelInvalid("E13014", f"mode: {other}", where=op.where)


def _mirrored(op: Op, size: Integers, before: Integers, behind: Integers) -> Integers:
    """The places of a dim, with a part of them in reverse on both sides."""
    most = max(before.number or 0, behind.number or 0)
    if size.number is not None and most > size.number:
        what = f"paddings of {most} places, of a dim of {size.number}"
        raise ModelInvalid("E13014", what, where=op.where)
    places = count_up(op, before + size + behind) - before
    places = (places < 0).choose(integers(op, -1) - places, places)
    return (places >= size).choose(size * 2 - 1 - places, places)


# --- made of numbers ------------------------------------------------------------------------------------


@maps("Fill")
def fill(op: Op) -> Value:
    """Expand"""
    return op.add("Expand", op.input(1), op.shape_input(0))


@maps("Empty")
def empty(op: Op) -> Value:
    """Zeros"""
    return op.add("Expand", op.const(0, op.dtype_attr("dtype")), op.shape_input(0))


_RANGES = frozenset({DType.INT16, DType.INT32, DType.INT64, DType.FLOAT32, DType.FLOAT64})  # the types of Range


@maps("Range")
def range_(op: Op) -> Value:
    """Range; each float is the one before it and the step, rounded"""
    dtype, bounds = op.dtype(0), op.inputs
    if len(bounds) != 3:
        raise ModelInvalid("E12009", f"{len(bounds)} inputs instead of 3", where=op.where)
    if dtype.is_float and all(value.tensor is not None for value in bounds):
        start, limit, delta = (value.array.reshape(()) for value in bounds)
        if delta == 0:
            raise ModelInvalid("E13014", "a step of 0", where=op.where)
        length = np.ceil((limit - start) / delta)
        if not length <= MAX_KNOWN:
            raise op.refuse(f"{length} numbers")
        count = max(0, int(length))
        steps = np.full(count, delta, dtype.numpy)
        steps[:1] = start
        return op.const(np.add.accumulate(steps, dtype=dtype.numpy), dtype)
    if dtype in _RANGES:
        return op.add("Range", *[op.reshape(value, ()) if value.desc.shape else value for value in bounds])
    wide = DType.FLOAT32 if dtype.is_float else DType.INT64
    return op.cast(op.add("Range", *[op.cast(value, wide) for value in bounds]), dtype)


@maps("LinSpace")
def lin_space(op: Op) -> Value:
    """Range, times the step; the last is the end itself"""
    start, stop = op.input(0), op.input(1)
    dtype = start.desc.dtype
    count = op.reshape(op.shape_input(2), ())
    last = op.add("Max", op.add("Sub", count, op.const(1)), op.const(1))
    places = op.add("Range", op.const(0), count, op.const(1))
    step = op.add("Div", op.add("Sub", stop, start), op.cast(last, dtype))
    numbers = op.add("Add", start, op.add("Mul", op.cast(places, dtype), step))
    return op.add("Where", op.add("Equal", places, last), stop, numbers)
