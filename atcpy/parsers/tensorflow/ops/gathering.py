"""Elements read and written at computed places."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Value
from atcpy.ir.arithmetic import IndexExpr, product, reshape_to, sizes_of
from atcpy.parsers.tensorflow.op import OpBuilder, maps


def _at_places(b: OpBuilder) -> Value:
    """The places as integers of 32 or 64 bits."""
    places = b.input(1)
    return places if places.desc.dtype in (DType.INT32, DType.INT64) else b.cast(places, DType.INT64)


@maps("Gather", "GatherV2", "ResourceGather")
def gather(b: OpBuilder) -> Value:
    """Gather; GatherND where there are batch_dims"""
    x, rank = b.input(0), b.rank(0)
    batch = b.int_attr("batch_dims") if b.attr("batch_dims") is not None else 0
    if batch < 0:
        batch += b.rank(1)
    axis = b.number(2, "axis") if b.node.op == "GatherV2" else batch
    if not -rank <= axis < rank or not 0 <= batch <= (axis := axis % rank):
        raise b.invalid(f"axis {axis}, {batch} batch_dims of {rank} dims")
    if not batch:
        return b.op("Gather", x, _at_places(b), axis=axis)
    if batch > b.rank(1):
        raise b.invalid(f"{batch} batch_dims of places with {b.rank(1)} dims")
    front = b.transpose(x, [*range(batch), axis, *range(batch, axis), *range(axis + 1, rank)])
    places = b.unsqueeze(b.int64_input(1), -1)
    picked = b.op("GatherND", front, places, batch_dims=batch)
    end = b.rank(1)  # of the dims of the places
    between = range(end, end + axis - batch)
    return b.transpose(
        picked, [*range(batch), *between, *range(batch, end), *range(between.stop, rank + end - batch - 1)]
    )


@maps("GatherNd", "ResourceGatherNd")
def gather_nd(b: OpBuilder) -> Value:
    """GatherND"""
    x, places = b.input(0), b.int64_input(1)
    depth = b.shape(1)[-1]
    if not isinstance(depth, int):
        raise b.unsupported("places of which it is not known how many numbers each has")
    if depth == 0:
        sizes = b.op("Concat", b.op("Shape", places, end=-1), b.op("Shape", x), axis=0)
        return b.op("Expand", x, sizes)
    if not _ignores(b):
        return b.op("GatherND", x, places)
    valid = _inside(b, places, b.op("Shape", x, end=depth))
    picked = b.op("GatherND", x, _or_zeros(b, valid, places))
    behind = b.rank(0) - depth
    mask = b.unsqueeze(valid, *range(-behind, 0)) if behind else valid
    return b.op("Where", mask, picked, b.like(0, x))


def _ignores(b: OpBuilder) -> bool:
    """True if places outside are asked to be left out instead of an error."""
    return b.attr("bad_indices_policy") == b"IGNORE"


def _inside(b: OpBuilder, places: Value, sizes: Value) -> Value:
    """Which places are inside all of the dims."""
    inside = b.op("And", b.op("GreaterOrEqual", places, b.const(0)), b.op("Less", places, sizes))
    worst = b.op("ReduceMin", b.cast(inside, DType.INT32), b.const([-1]), keepdims=0)
    return b.cast(worst, DType.BOOL)


def _or_zeros(b: OpBuilder, valid: Value, places: Value) -> Value:
    return b.op("Where", b.unsqueeze(valid, -1), places, b.const(0))


# --- Scatter -----------------------------------------------------------------------------------------------

_REDUCTIONS = {
    "TensorScatterUpdate": "none",
    "TensorScatterAdd": "add",
    "TensorScatterSub": "add",
    "TensorScatterMax": "max",
    "TensorScatterMin": "min",
    "ScatterNdNonAliasingAdd": "add",
}


@maps("ScatterNd")
def scatter_nd(b: OpBuilder) -> Value:
    """ScatterND into zeros; what meets at one place is added up"""
    zeros = b.op("Expand", b.like(0, b.input(1)), b.int64_input(2))
    return _scatter(b, zeros, b.int64_input(0), b.input(1), "add")


def _tensor_scatter(b: OpBuilder) -> Value:
    """ScatterND"""
    updates = b.input(2)
    if b.node.op.endswith("Sub"):
        updates = b.op("Sub", b.like(0, updates), updates)
    return _scatter(b, b.input(0), b.int64_input(1), updates, _REDUCTIONS[b.node.op])


maps(*_REDUCTIONS)(_tensor_scatter)


def _scatter(b: OpBuilder, target: Value, places: Value, updates: Value, reduction: str) -> Value:
    depth = b.shape_of(places)[-1]
    if not isinstance(depth, int) or depth == 0:
        raise b.unsupported(
            "places of which it is not known how many numbers each has" if depth else "places without numbers"
        )
    dtype = updates.desc.dtype
    if _ignores(b):
        if reduction != "add":
            raise b.unsupported("bad_indices_policy IGNORE")
        valid = _inside(b, places, b.op("Shape", target, end=depth))
        places = _or_zeros(b, valid, places)
        behind = len(b.shape_of(updates)) - len(b.shape_of(valid))
        mask = b.unsqueeze(valid, *range(-behind, 0)) if behind else valid
        updates = b.op("Where", mask, updates, b.like(0, updates))
    if dtype is DType.BOOL and reduction == "add":
        added = b.op("ScatterND", *_as(b, DType.INT32, target), places, *_as(b, DType.INT32, updates), reduction="add")
        return b.cast(added, DType.BOOL)
    attrs = {} if reduction == "none" else {"reduction": reduction}
    return b.op("ScatterND", target, places, updates, **attrs)


def _as(b: OpBuilder, dtype: DType, *values: Value) -> Sequence[Value]:
    return [b.cast(value, dtype) for value in values]


@maps("InplaceUpdate", "InplaceAdd", "InplaceSub")
def inplace(b: OpBuilder) -> Value:
    """ScatterND of rows"""
    updates = b.input(2)
    if b.node.op == "InplaceSub":
        updates = b.op("Sub", b.like(0, updates), updates)
    reduction = "none" if b.node.op == "InplaceUpdate" else "add"
    return _scatter(b, b.input(0), b.unsqueeze(b.int64_input(1), -1), updates, reduction)


@maps("DynamicStitch", "ParallelDynamicStitch")
def dynamic_stitch(b: OpBuilder) -> Value:
    """ScatterND; Gather where the places are constant"""
    count = b.int_attr("N")
    if count < 1 or len(b.inputs) != 2 * count:
        raise ModelInvalid("E12009", f"{len(b.inputs)} inputs for N = {count}", where=b.where)
    rows = [_rows(b, b.input(count + place), b.rank(place)) for place in range(count)]
    values = b.op("Concat", *rows, axis=0) if count > 1 else rows[0]
    if all(b.is_constant(place) for place in range(count)):
        numbers = [number for place in range(count) for number in b.ints(place)]
        if min(numbers, default=0) < 0:
            raise b.invalid(f"the place {min(numbers)}")
        sources = {number: row for row, number in enumerate(numbers)}  # the last of equals
        length = max(numbers, default=-1) + 1
        if length == len(sources):
            return b.op("Gather", values, b.const([sources[number] for number in range(length)]), axis=0)
    flat = [b.reshape(b.int64_input(place), (-1,)) for place in range(count)]
    places = b.op("Concat", *flat, axis=0) if count > 1 else flat[0]
    last = b.op("ReduceMax", b.op("Concat", b.const([-1]), places, axis=0), b.const([0]), keepdims=1)
    sizes = b.op("Concat", b.op("Add", last, b.const([1])), b.op("Shape", values, start=1), axis=0)
    return b.op("ScatterND", b.op("Expand", b.like(0, values), sizes), b.unsqueeze(places, 1), values)


def _rows(b: OpBuilder, value: Value, dims: int) -> Value:
    """A value whose first dims are one."""
    if dims == 1:
        return value
    sizes = sizes_of(b, value)
    return reshape_to(b, value, [product(b, sizes[:dims]), *sizes[dims:]])


@maps("DynamicPartition")
def dynamic_partition(b: OpBuilder) -> list[Value | None]:
    """Compress, for each part"""
    rows, parts = _rows(b, b.input(0), b.rank(1)), b.reshape(b.input(1), (-1,))
    return [
        b.op("Compress", rows, b.op("Equal", parts, b.like(part, parts)), axis=0)
        for part in range(b.int_attr("num_partitions"))
    ]


@maps("UnravelIndex")
def unravel_index(b: OpBuilder) -> Value:
    """Div and Mod by the sizes"""
    places, sizes = IndexExpr(b, b.int64_input(0)), b.index_items(1)
    rows = []
    for axis, size in enumerate(sizes):
        step, whole = (item.reshape() for item in (product(b, sizes[axis + 1 :]), size))
        rows.append(b.unsqueeze(((places // step) % whole).value, 0))
    return b.cast(b.op("Concat", *rows, axis=0), b.dtype(0))


@maps("SparseToDense")
def sparse_to_dense(b: OpBuilder) -> Value:
    """ScatterND into the default value"""
    places, values = b.int64_input(0), b.input(2)
    match b.rank(0):
        case 0:
            places = b.reshape(places, (1, 1))
        case 1:
            places = b.unsqueeze(places, 1)
    count = b.op("Shape", places, end=1)
    filled = b.op("Expand", b.input(3), b.int64_input(1))
    return b.op("ScatterND", filled, places, b.op("Expand", values, count))


@maps("OneHot")
def one_hot(b: OpBuilder) -> Value:
    """OneHot, where negative places are all off"""
    places, depth = b.int64_input(0), b.int64_input(1)
    on, off = b.input(2), b.input(3)
    known = b.known(places) if b.rank(0) <= 1 else None
    if known is None or any(not isinstance(item, int) or item < 0 for item in known):
        places = b.op("Where", b.op("Less", places, b.const(0)), depth, places)
    values = b.op("Concat", b.unsqueeze(off, 0), b.unsqueeze(on, 0), axis=0)
    if b.rank(0) == 0:
        return b.squeeze(b.op("OneHot", b.unsqueeze(places, 0), depth, values, axis=-1), 0)
    return b.op("OneHot", places, depth, values, axis=b.int_attr("axis"))


@maps("InvertPermutation")
def invert_permutation(b: OpBuilder) -> Value:
    """Where each number stands; ScatterND if they are computed"""
    places, dtype = b.int64_input(0), b.dtype(0)
    if b.is_constant(0):
        order = sorted(range(len(b.ints(0))), key=b.ints(0).__getitem__)
        return b.const(order, dtype)
    count = b.op("Squeeze", b.op("Shape", places))
    numbers = b.op("Range", b.const(0), count, b.const(1))
    return b.cast(b.op("ScatterND", numbers, b.unsqueeze(places, 1), numbers), dtype)


@maps("Where")
def where(b: OpBuilder) -> Value:
    """NonZero, a row for each"""
    if b.rank(0) == 0:
        raise b.unsupported("a scalar")
    return b.transpose(b.op("NonZero", b.input(0)), (1, 0))
