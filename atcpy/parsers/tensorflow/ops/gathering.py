"""Elements read and written at computed indices."""

from __future__ import annotations

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Value
from atcpy.ir.arithmetic import IndexExpr, product, reshape_to, sizes_of
from atcpy.parsers.tensorflow.op import OpBuilder, maps


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
        indices = b.input(1) if b.dtype(1) in (DType.INT32, DType.INT64) else b.int64_input(1)
        return b.op("Gather", x, indices, axis=axis)
    if batch > b.rank(1):
        raise b.invalid(f"{batch} batch_dims of indices with {b.rank(1)} dims")
    front = b.transpose(x, [*range(batch), axis, *range(batch, axis), *range(axis + 1, rank)])
    indices = b.unsqueeze(b.int64_input(1), -1)
    picked = b.op("GatherND", front, indices, batch_dims=batch)
    end = b.rank(1)
    between = range(end, end + axis - batch)
    return b.transpose(
        picked, [*range(batch), *between, *range(batch, end), *range(between.stop, rank + end - batch - 1)]
    )


@maps("GatherNd", "ResourceGatherNd")
def gather_nd(b: OpBuilder) -> Value:
    """GatherND"""
    x, indices = b.input(0), b.int64_input(1)
    depth = b.dim_of(b.input(1), -1)
    if not isinstance(depth, int):
        raise b.unsupported("indices of unknown depth")
    if depth == 0:
        sizes = b.op("Concat", b.op("Shape", indices, end=-1), b.op("Shape", x), axis=0)
        return b.op("Expand", x, sizes)
    if not _ignores(b):
        return b.op("GatherND", x, indices)
    indices, valid = _valid(b, indices, b.op("Shape", x, end=depth))
    return _or_zeros(b, valid, b.op("GatherND", x, indices))


def _ignores(b: OpBuilder) -> bool:
    """Whether the node leaves out indices that are outside, instead of failing."""
    return b.attr("bad_indices_policy") == b"IGNORE"


def _valid(b: OpBuilder, indices: Value, sizes: Value) -> tuple[Value, Value]:
    """The indices, 0 where they are outside, and which of them are inside."""
    inside = b.op("And", b.op("GreaterOrEqual", indices, b.const(0)), b.op("Less", indices, sizes))
    valid = b.cast(b.op("ReduceMin", b.cast(inside, DType.INT32), b.const([-1]), keepdims=0), DType.BOOL)
    return b.op("Where", b.unsqueeze(valid, -1), indices, b.const(0)), valid


def _or_zeros(b: OpBuilder, valid: Value, rows: Value) -> Value:
    """Rows, 0 where the index of one is not valid."""
    inner = len(b.shape_of(rows)) - len(b.shape_of(valid))
    mask = b.unsqueeze(valid, *range(-inner, 0)) if inner else valid
    return b.op("Where", mask, rows, b.like(0, rows))


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
    """ScatterND into zeros; updates of one index are added up"""
    zeros = b.op("Expand", b.like(0, b.input(1)), b.int64_input(2))
    return _scatter(b, zeros, b.int64_input(0), b.input(1), "add")


def _tensor_scatter(b: OpBuilder) -> Value:
    """ScatterND"""
    updates = b.input(2)
    if b.node.op.endswith("Sub"):
        updates = b.op("Sub", b.like(0, updates), updates)
    return _scatter(b, b.input(0), b.int64_input(1), updates, _REDUCTIONS[b.node.op])


maps(*_REDUCTIONS)(_tensor_scatter)


def _scatter(b: OpBuilder, target: Value, indices: Value, updates: Value, reduction: str) -> Value:
    depth = b.dim_of(indices, -1)
    if not isinstance(depth, int) or depth == 0:
        raise b.unsupported("indices of unknown depth" if depth else "indices without numbers")
    dtype = updates.desc.dtype
    if _ignores(b):
        if reduction != "add":
            raise b.unsupported("bad_indices_policy IGNORE")
        indices, valid = _valid(b, indices, b.op("Shape", target, end=depth))
        updates = _or_zeros(b, valid, updates)
    attrs = {} if reduction == "none" else {"reduction": reduction}
    wide = DType.INT32 if dtype is DType.BOOL and reduction == "add" else dtype  # ScatterND adds up no truth values
    return b.cast(b.op("ScatterND", b.cast(target, wide), indices, b.cast(updates, wide), **attrs), dtype)


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
    """ScatterND; Gather where the indices are constant"""
    count = b.int_attr("N")
    if count < 1 or len(b.inputs) != 2 * count:
        raise ModelInvalid("E12009", f"{len(b.inputs)} inputs for N = {count}", where=b.where)
    rows = [_rows(b, b.input(count + index), b.rank(index)) for index in range(count)]
    values = b.op("Concat", *rows, axis=0) if count > 1 else rows[0]
    if all(b.is_constant(index) for index in range(count)):
        numbers = [number for index in range(count) for number in b.ints(index)]
        if min(numbers, default=0) < 0:
            raise b.invalid(f"the index {min(numbers)}")
        sources = {number: row for row, number in enumerate(numbers)}  # the last of equals
        length = max(numbers, default=-1) + 1
        if length == len(sources):
            return b.op("Gather", values, b.const([sources[number] for number in range(length)]), axis=0)
    flat = [b.reshape(b.int64_input(index), (-1,)) for index in range(count)]
    indices = b.op("Concat", *flat, axis=0) if count > 1 else flat[0]
    last = b.op("ReduceMax", b.op("Concat", b.const([-1]), indices, axis=0), b.const([0]), keepdims=1)
    sizes = b.op("Concat", b.op("Add", last, b.const([1])), b.op("Shape", values, start=1), axis=0)
    return b.op("ScatterND", b.op("Expand", b.like(0, values), sizes), b.unsqueeze(indices, 1), values)


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
    indices, sizes = IndexExpr(b, b.int64_input(0)), b.index_items(1)
    rows = []
    for axis, size in enumerate(sizes):
        step, whole = (item.reshape() for item in (product(b, sizes[axis + 1 :]), size))
        rows.append(b.unsqueeze(((indices // step) % whole).value, 0))
    return b.cast(b.op("Concat", *rows, axis=0), b.dtype(0))


@maps("SparseToDense")
def sparse_to_dense(b: OpBuilder) -> Value:
    """ScatterND into the default value"""
    indices, values = b.int64_input(0), b.input(2)
    match b.rank(0):
        case 0:
            indices = b.reshape(indices, (1, 1))
        case 1:
            indices = b.unsqueeze(indices, 1)
    count = b.op("Shape", indices, end=1)
    filled = b.op("Expand", b.input(3), b.int64_input(1))
    return b.op("ScatterND", filled, indices, b.op("Expand", values, count))


@maps("OneHot")
def one_hot(b: OpBuilder) -> Value:
    """OneHot, where negative indices are all off"""
    indices, depth = b.int64_input(0), b.int64_input(1)
    on, off = b.input(2), b.input(3)
    known = b.known(indices) if b.rank(0) <= 1 else None
    if known is None or any(not isinstance(item, int) or item < 0 for item in known):
        indices = b.op("Where", b.op("Less", indices, b.const(0)), depth, indices)
    values = b.op("Concat", b.unsqueeze(off, 0), b.unsqueeze(on, 0), axis=0)
    if b.rank(0) == 0:
        return b.squeeze(b.op("OneHot", b.unsqueeze(indices, 0), depth, values, axis=-1), 0)
    return b.op("OneHot", indices, depth, values, axis=b.int_attr("axis"))


@maps("InvertPermutation")
def invert_permutation(b: OpBuilder) -> Value:
    """Where each number stands; ScatterND if they are computed"""
    indices, dtype = b.int64_input(0), b.dtype(0)
    if b.is_constant(0):
        order = sorted(range(len(b.ints(0))), key=b.ints(0).__getitem__)
        return b.const(order, dtype)
    numbers = b.iota(b.op("Shape", indices))
    return b.cast(b.op("ScatterND", numbers, b.unsqueeze(indices, 1), numbers), dtype)


@maps("Where")
def where(b: OpBuilder) -> Value:
    """NonZero, a row for each"""
    if b.rank(0) == 0:
        raise b.unsupported("a scalar")
    return b.transpose(b.op("NonZero", b.input(0)), (1, 0))
