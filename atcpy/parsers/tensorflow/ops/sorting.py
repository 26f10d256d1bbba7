"""Order, equality and membership: top k, unique elements, positions among boundaries, counts."""

from __future__ import annotations

import numpy as np

from atcpy.ir import DType, Value
from atcpy.ir.arithmetic import Expr
from atcpy.parsers.tensorflow.op import OpBuilder, maps
from atcpy.parsers.tensorflow.ops.segments import scatter_rows


@maps("TopK", "TopKV2")
def top_k(b: OpBuilder) -> list[Value | None]:
    """TopK along the last dim; the first of equals comes first"""
    if b.node.op == "TopK":
        k, index_type = b.const([b.int_attr("k")]), DType.INT32
    else:
        k, index_type = b.size_input(1), b.dtype_attr("index_type")
    values, indices = b.ops("TopK", b.input(0), k, outputs=2, axis=-1, largest=1, sorted=1)
    return [values, b.cast(indices, index_type)]


@maps("NthElement")
def nth_element(b: OpBuilder) -> Value:
    """The last of TopK"""
    count = b.op("Add", b.size_input(1), b.const([1]))
    values, _ = b.ops("TopK", b.input(0), count, outputs=2, axis=-1, largest=int(b.bool_attr("reverse")))
    return b.op("Gather", values, b.const(-1), axis=-1)


@maps("InTopK", "InTopKV2")
def in_top_k(b: OpBuilder) -> Value:
    """Whether fewer than k classes are above the target's; false where anything is not finite"""
    x = b.input(0)
    targets = b.int64_input(1)
    k = b.const(b.int_attr("k"), DType.INT64) if b.node.op == "InTopK" else b.int64_input(2)
    classes = b.op("Shape", x, start=1)
    in_range = b.op("And", b.op("GreaterOrEqual", targets, b.const(0)), b.op("Less", targets, classes))
    indices = b.unsqueeze(b.op("Where", in_range, targets, b.const(0)), 1)
    target = b.op("GatherElements", x, indices, axis=1)
    above = b.cast(b.op("Greater", x, target), DType.INT64)
    few = b.op("Less", b.op("ReduceSum", above, b.const([1]), keepdims=0), k)
    finite = b.op("Less", b.op("ReduceMax", b.op("Abs", x), b.const([1]), keepdims=0), b.like(np.inf, x))
    return b.op("And", few, b.op("And", in_range, finite))


@maps("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2")
def unique(b: OpBuilder) -> list[Value | None]:
    """Unique, in the order of first occurrence"""
    attrs = {}
    if b.node.op.endswith("V2") and (axes := b.axes(1, b.rank(0))):
        attrs["axis"] = axes[0]
    elif b.rank(0) != 1:
        raise b.invalid(f"the unique elements of {b.rank(0)} dims, and no axis")
    y, _, indices, counts = b.ops("Unique", b.input(0), outputs=4, sorted=0, **attrs)
    index_type = b.dtype_attr("out_idx")
    return [y, b.cast(indices, index_type), b.cast(counts, index_type)]


@maps("ListDiff")
def list_difference(b: OpBuilder) -> list[Value | None]:
    """The elements of x that are not in y, and where they were"""
    x, y = b.input(0), b.input(1)
    found = b.cast(b.op("Equal", b.unsqueeze(x, 1), b.unsqueeze(y, 0)), DType.INT32)
    is_new = b.op("Equal", b.op("ReduceSum", found, b.const([1]), keepdims=0), b.const(0, DType.INT32))
    indices = b.squeeze(b.op("NonZero", is_new), 0)
    return [b.op("Gather", x, indices, axis=0), b.cast(indices, b.dtype_attr("out_idx"))]


@maps("Bucketize")
def bucketize(b: OpBuilder) -> Value:
    """The number of boundaries that are not above x"""
    x, boundaries = b.input(0), b.attr("boundaries") or ()
    if not isinstance(boundaries, tuple):
        raise b.invalid(f"boundaries: {boundaries!r}")
    dtype = DType.FLOAT64 if x.desc.dtype is DType.FLOAT64 else DType.FLOAT32
    bounds = b.const(np.array(boundaries, np.float32), dtype)
    return _count(b, b.op("Not", b.op("Less", b.unsqueeze(b.cast(x, dtype), -1), bounds)), DType.INT32)


@maps("LowerBound", "UpperBound")
def bound(b: OpBuilder) -> Value:
    """The number of the row's sorted elements that are below the value; UpperBound: not above"""
    inputs, values = b.unsqueeze(b.input(0), 1), b.unsqueeze(b.input(1), 2)
    if b.node.op == "LowerBound":
        return _count(b, b.op("Less", inputs, values), b.dtype_attr("out_type"))
    return _count(b, b.op("Not", b.op("Greater", inputs, values)), b.dtype_attr("out_type"))


def _count(b: OpBuilder, condition: Value, dtype: DType) -> Value:
    """How many along the last dim."""
    return b.cast(b.op("ReduceSum", b.cast(condition, DType.INT64), b.const([-1]), keepdims=0), dtype)


@maps("Bincount")
def bincount(b: OpBuilder) -> Value:
    """How often each number comes, or the sum of its weights"""
    return _bins(b, b.reshape(b.input(0), [-1]), b.input(2), is_binary=False)


@maps("HistogramFixedWidth")
def histogram(b: OpBuilder) -> Value:
    """How many fall into each of equal parts of a range; what is outside falls into the ends"""
    x = Expr(b, b.reshape(b.cast(b.input(0), DType.FLOAT64), [-1]))
    limits = b.cast(b.input(1), DType.FLOAT64)
    parts, dtype = b.size_input(2), b.dtype_attr("dtype")
    low, high = (Expr(b, b.op("Gather", limits, b.const([index]))) for index in (0, 1))
    count = Expr(b, parts).cast(DType.FLOAT64)
    indices = ((x - low) / ((high - low) / count)).min(count - 1).max(0).cast(DType.INT64).value
    ones = b.op("Expand", b.const(1, dtype), b.op("Shape", x.value))
    return scatter_rows(b, b.const(0, dtype), parts, indices, ones, "add")


@maps("DenseBincount")
def dense_bincount(b: OpBuilder) -> Value:
    """How often each number comes in a row, or the sum of its weights, or whether it comes"""
    x, weights, is_binary = b.input(0), b.input(2), b.bool_attr("binary_output")
    if b.rank(0) == 1:
        return _bins(b, x, weights, is_binary=is_binary)
    # Each row has bins of its own, behind those of the rows before it.
    size = b.size_input(1)
    rows = b.op("Shape", x, start=0, end=1)
    numbers, limit = b.cast(x, DType.INT64), b.op("Mul", rows, size)
    own = b.op("Add", numbers, b.unsqueeze(b.op("Mul", b.iota(rows), size), 1))
    indices = b.reshape(b.op("Where", b.op("Less", numbers, size), own, limit), [-1])
    bins = _scattered(b, indices, limit, weights, is_binary=is_binary)
    return b.op("Reshape", bins, b.op("Concat", rows, size, axis=0), allowzero=1)


def _bins(b: OpBuilder, numbers: Value, weights: Value, *, is_binary: bool) -> Value:
    size = b.size_input(1)
    return _scattered(b, b.op("Min", b.cast(numbers, DType.INT64), size), size, weights, is_binary=is_binary)


def _scattered(b: OpBuilder, indices: Value, size: Value, weights: Value, *, is_binary: bool) -> Value:
    """Count or add up the weights of each index below `size`, which stands for all others."""
    dtype = weights.desc.dtype
    counts = b.shape_of(weights) == (0,) or 0 in b.shape_of(weights)
    if counts or is_binary:
        updates = b.op("Expand", b.const(1, dtype), b.op("Shape", indices))
    else:
        updates = b.reshape(weights, [-1])
    reduction = "max" if is_binary else "add"
    table = scatter_rows(b, b.const(0, dtype), b.op("Add", size, b.const(1)), indices, updates, reduction)
    return b.slice(table, 0, size, 0)
