"""Elements read and written at computed places."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.integers import (
    Integers,
    each_of,
    known_number,
    product,
    reshape_to,
    sizes_of,
)
from atcpy.parsers.tensorflow.op import Op, maps


def _at_places(op: Op) -> Value:
    """The places as integers of 32 or 64 bits."""
    places = op.input(1)
    return places if places.desc.dtype in (DType.INT32, DType.INT64) else op.cast(places, DType.INT64)


@maps("Gather", "GatherV2", "ResourceGather")
def gather(op: Op) -> Value:
    """Gather; GatherND where there are batch_dims"""
    x, rank = op.input(0), op.rank(0)
    batch = op.int_attr("batch_dims") if op.attr("batch_dims") is not None else 0
    if batch < 0:
        batch += op.rank(1)
    axis = known_number(op, 2, "axis") if op.node.op == "GatherV2" else batch
    if not -rank <= axis < rank or not 0 <= batch <= (axis := axis % rank):
        raise ModelInvalid("E13014", f"axis {axis}, {batch} batch_dims of {rank} dims", where=op.where)
    if not batch:
        return op.add("Gather", x, _at_places(op), axis=axis)
    if batch > op.rank(1):
        raise ModelInvalid("E13014", f"{batch} batch_dims of places with {op.rank(1)} dims", where=op.where)
    front = op.transpose(x, [*range(batch), axis, *range(batch, axis), *range(axis + 1, rank)])
    places = op.unsqueeze(op.shape_input(1), -1)
    picked = op.add("GatherND", front, places, batch_dims=batch)
    end = op.rank(1)  # of the dims of the places
    between = range(end, end + axis - batch)
    return op.transpose(
        picked, [*range(batch), *between, *range(batch, end), *range(between.stop, rank + end - batch - 1)]
    )


@maps("GatherNd", "ResourceGatherNd")
def gather_nd(op: Op) -> Value:
    """GatherND"""
    x, places = op.input(0), op.shape_input(1)
    depth = op.shape(1)[-1]
    if not isinstance(depth, int):
        raise op.refuse("places of which it is not known how many numbers each has")
    if depth == 0:
        sizes = op.add("Concat", op.add("Shape", places, end=-1), op.add("Shape", x), axis=0)
        return op.add("Expand", x, sizes)
    if not _ignores(op):
        return op.add("GatherND", x, places)
    valid = _inside(op, places, op.add("Shape", x, end=depth))
    picked = op.add("GatherND", x, _or_zeros(op, valid, places))
    behind = op.rank(0) - depth
    mask = op.unsqueeze(valid, *range(-behind, 0)) if behind else valid
    return op.add("Where", mask, picked, op.like(0, x))


def _ignores(op: Op) -> bool:
    """True if places outside are asked to be left out instead of an error."""
    return op.attr("bad_indices_policy") == b"IGNORE"


def _inside(op: Op, places: Value, sizes: Value) -> Value:
    """Which places are inside all of the dims."""
    inside = op.add("And", op.add("GreaterOrEqual", places, op.const(0)), op.add("Less", places, sizes))
    worst = op.add("ReduceMin", op.cast(inside, DType.INT32), op.const([-1]), keepdims=0)
    return op.cast(worst, DType.BOOL)


def _or_zeros(op: Op, valid: Value, places: Value) -> Value:
    return op.add("Where", op.unsqueeze(valid, -1), places, op.const(0))


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
def scatter_nd(op: Op) -> Value:
    """ScatterND into zeros; what meets at one place is added up"""
    zeros = op.add("Expand", op.like(0, op.input(1)), op.shape_input(2))
    return _scatter(op, zeros, op.shape_input(0), op.input(1), "add")


def _tensor_scatter(op: Op) -> Value:
    """ScatterND"""
    updates = op.input(2)
    if op.node.op.endswith("Sub"):
        updates = op.add("Sub", op.like(0, updates), updates)
    return _scatter(op, op.input(0), op.shape_input(1), updates, _REDUCTIONS[op.node.op])


maps(*_REDUCTIONS)(_tensor_scatter)


def _scatter(op: Op, target: Value, places: Value, updates: Value, reduction: str) -> Value:
    depth = op.shape_of(places)[-1]
    if not isinstance(depth, int) or depth == 0:
        raise op.refuse(
            "places of which it is not known how many numbers each has" if depth else "places without numbers"
        )
    dtype = updates.desc.dtype
    if _ignores(op):
        if reduction != "add":
            raise op.refuse("bad_indices_policy IGNORE")
        valid = _inside(op, places, op.add("Shape", target, end=depth))
        places = _or_zeros(op, valid, places)
        behind = len(op.shape_of(updates)) - len(op.shape_of(valid))
        mask = op.unsqueeze(valid, *range(-behind, 0)) if behind else valid
        updates = op.add("Where", mask, updates, op.like(0, updates))
    if dtype is DType.BOOL and reduction == "add":
        added = op.add(
            "ScatterND", *_as(op, DType.INT32, target), places, *_as(op, DType.INT32, updates), reduction="add"
        )
        return op.cast(added, DType.BOOL)
    attrs = {} if reduction == "none" else {"reduction": reduction}
    return op.add("ScatterND", target, places, updates, **attrs)


def _as(op: Op, dtype: DType, *values: Value) -> Sequence[Value]:
    return [op.cast(value, dtype) for value in values]


@maps("InplaceUpdate", "InplaceAdd", "InplaceSub")
def inplace(op: Op) -> Value:
    """ScatterND of rows"""
    updates = op.input(2)
    if op.node.op == "InplaceSub":
        updates = op.add("Sub", op.like(0, updates), updates)
    reduction = "none" if op.node.op == "InplaceUpdate" else "add"
    return _scatter(op, op.input(0), op.unsqueeze(op.shape_input(1), -1), updates, reduction)


@maps("DynamicStitch", "ParallelDynamicStitch")
def dynamic_stitch(op: Op) -> Value:
    """ScatterND; Gather where the places are constant"""
    count = op.int_attr("N")
    if count < 1 or len(op.inputs) != 2 * count:
        raise ModelInvalid("E12009", f"{len(op.inputs)} inputs for N = {count}", where=op.where)
    rows = [_rows(op, op.input(count + place), op.rank(place)) for place in range(count)]
    values = op.add("Concat", *rows, axis=0) if count > 1 else rows[0]
    if all(op.is_constant(place) for place in range(count)):
        numbers = [number for place in range(count) for number in op.ints(place)]
        if min(numbers, default=0) < 0:
            raise ModelInvalid("E13014", f"the place {min(numbers)}", where=op.where)
        sources = {number: row for row, number in enumerate(numbers)}  # the last of equals
        length = max(numbers, default=-1) + 1
        if length == len(sources):
            return op.add("Gather", values, op.const([sources[number] for number in range(length)]), axis=0)
    flat = [op.reshape(op.shape_input(place), (-1,)) for place in range(count)]
    places = op.add("Concat", *flat, axis=0) if count > 1 else flat[0]
    last = op.add("ReduceMax", op.add("Concat", op.const([-1]), places, axis=0), op.const([0]), keepdims=1)
    sizes = op.add("Concat", op.add("Add", last, op.const([1])), op.add("Shape", values, start=1), axis=0)
    return op.add("ScatterND", op.add("Expand", op.like(0, values), sizes), op.unsqueeze(places, 1), values)


def _rows(op: Op, value: Value, dims: int) -> Value:
    """A value whose first dims are one."""
    if dims == 1:
        return value
    sizes = sizes_of(op, value)
    return reshape_to(op, value, [product(op, sizes[:dims]), *sizes[dims:]])


@maps("DynamicPartition")
def dynamic_partition(op: Op) -> list[Value | None]:
    """Compress, for each part"""
    rows, parts = _rows(op, op.input(0), op.rank(1)), op.reshape(op.input(1), (-1,))
    return [
        op.add("Compress", rows, op.add("Equal", parts, op.like(part, parts)), axis=0)
        for part in range(op.int_attr("num_partitions"))
    ]


@maps("UnravelIndex")
def unravel_index(op: Op) -> Value:
    """Div and Mod by the sizes"""
    places, sizes = Integers(op, op.shape_input(0)), each_of(op, 1)
    rows = []
    for axis, size in enumerate(sizes):
        step, whole = (item.shaped() for item in (product(op, sizes[axis + 1 :]), size))
        rows.append(op.unsqueeze(((places // step) % whole).value, 0))
    return op.cast(op.add("Concat", *rows, axis=0), op.dtype(0))


@maps("SparseToDense")
def sparse_to_dense(op: Op) -> Value:
    """ScatterND into the default value"""
    places, values = op.shape_input(0), op.input(2)
    match op.rank(0):
        case 0:
            places = op.reshape(places, (1, 1))
        case 1:
            places = op.unsqueeze(places, 1)
    count = op.add("Shape", places, end=1)
    filled = op.add("Expand", op.input(3), op.shape_input(1))
    return op.add("ScatterND", filled, places, op.add("Expand", values, count))


@maps("OneHot")
def one_hot(op: Op) -> Value:
    """OneHot, where negative places are all off"""
    places, depth = op.shape_input(0), op.shape_input(1)
    on, off = op.input(2), op.input(3)
    known = op.known(places) if op.rank(0) <= 1 else None
    if known is None or any(not isinstance(item, int) or item < 0 for item in known):
        places = op.add("Where", op.add("Less", places, op.const(0)), depth, places)
    values = op.add("Concat", op.unsqueeze(off, 0), op.unsqueeze(on, 0), axis=0)
    if op.rank(0) == 0:
        return op.squeeze(op.add("OneHot", op.unsqueeze(places, 0), depth, values, axis=-1), 0)
    return op.add("OneHot", places, depth, values, axis=op.int_attr("axis"))


@maps("InvertPermutation")
def invert_permutation(op: Op) -> Value:
    """Where each number stands; ScatterND if they are computed"""
    places, dtype = op.shape_input(0), op.dtype(0)
    if op.is_constant(0):
        order = sorted(range(len(op.ints(0))), key=op.ints(0).__getitem__)
        return op.const(order, dtype)
    count = op.add("Squeeze", op.add("Shape", places))
    numbers = op.add("Range", op.const(0), count, op.const(1))
    return op.cast(op.add("ScatterND", numbers, op.unsqueeze(places, 1), numbers), dtype)


@maps("Where")
def where(op: Op) -> Value:
    """NonZero, a row for each"""
    if op.rank(0) == 0:
        raise op.refuse("a scalar")
    return op.transpose(op.add("NonZero", op.input(0)), (1, 0))
