"""Order, equality and membership: top k, unique elements, places among boundaries, counts."""

from __future__ import annotations

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import Op, maps
from atcpy.parsers.tensorflow.ops.segments import scatter_rows


@maps("TopK", "TopKV2")
def top_k(op: Op) -> list[Value | None]:
    """TopK along the last dim; the first of equals comes first"""
    if op.node.op == "TopK":
        k, index_type = op.const([op.int_attr("k")]), DType.INT32
    else:
        k, index_type = op.reshape(op.cast(op.input(1), DType.INT64), [1]), op.dtype_attr("index_type")
    values, places = op.add_many("TopK", op.input(0), k, outputs=2, axis=-1, largest=1, sorted=1)
    return [values, op.cast(places, index_type)]


@maps("NthElement")
def nth_element(op: Op) -> Value:
    """The last of TopK"""
    count = op.add("Add", op.reshape(op.shape_input(1), [1]), op.const([1]))
    values, _ = op.add_many("TopK", op.input(0), count, outputs=2, axis=-1, largest=int(op.bool_attr("reverse")))
    return op.add("Gather", values, op.const(-1), axis=-1)


@maps("InTopK", "InTopKV2")
def in_top_k(op: Op) -> Value:
    """Whether fewer than k classes are above the target's; false where anything is not finite"""
    x = op.input(0)
    targets = op.cast(op.input(1), DType.INT64)
    k = op.const(op.int_attr("k"), DType.INT64) if op.node.op == "InTopK" else op.cast(op.input(2), DType.INT64)
    classes = op.add("Shape", x, start=1)
    in_range = op.add("And", op.add("GreaterOrEqual", targets, op.const(0)), op.add("Less", targets, classes))
    places = op.unsqueeze(op.add("Where", in_range, targets, op.const(0)), 1)
    target = op.add("GatherElements", x, places, axis=1)
    above = op.cast(op.add("Greater", x, target), DType.INT64)
    few = op.add("Less", op.add("ReduceSum", above, op.const([1]), keepdims=0), k)
    finite = op.add("Less", op.add("ReduceMax", op.add("Abs", x), op.const([1]), keepdims=0), op.like(np.inf, x))
    return op.add("And", few, op.add("And", in_range, finite))


@maps("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2")
def unique(op: Op) -> list[Value | None]:
    """Unique, in the order of first occurrence"""
    attrs = {}
    if op.node.op.endswith("V2") and (axes := op.axes(1, op.rank(0))):
        attrs["axis"] = axes[0]
    elif op.rank(0) != 1:
        raise ModelInvalid("E13014", f"the unique elements of {op.rank(0)} dims, and no axis", where=op.where)
    y, _, places, counts = op.add_many("Unique", op.input(0), outputs=4, sorted=0, **attrs)
    index_type = op.dtype_attr("out_idx")
    return [y, op.cast(places, index_type), op.cast(counts, index_type)]


@maps("ListDiff")
def list_difference(op: Op) -> list[Value | None]:
    """The elements of x that are not in y, and where they were"""
    x, y = op.input(0), op.input(1)
    found = op.cast(op.add("Equal", op.unsqueeze(x, 1), op.unsqueeze(y, 0)), DType.INT32)
    is_new = op.add("Equal", op.add("ReduceSum", found, op.const([1]), keepdims=0), op.const(0, DType.INT32))
    places = op.squeeze(op.add("NonZero", is_new), 0)
    return [op.add("Gather", x, places, axis=0), op.cast(places, op.dtype_attr("out_idx"))]


@maps("Bucketize")
def bucketize(op: Op) -> Value:
    """The number of boundaries that are not above x"""
    x, boundaries = op.input(0), op.attr("boundaries") or ()
    if not isinstance(boundaries, tuple):
        raise ModelInvalid("E13014", f"boundaries: {boundaries!r}", where=op.where)
    dtype = DType.FLOAT64 if x.desc.dtype is DType.FLOAT64 else DType.FLOAT32
    bounds = op.const(np.array(boundaries, np.float32), dtype)
    return _count(op, op.add("Not", op.add("Less", op.unsqueeze(op.cast(x, dtype), -1), bounds)), DType.INT32)


@maps("LowerBound", "UpperBound")
def bound(op: Op) -> Value:
    """The number of the row's sorted elements that are below the value; UpperBound: not above"""
    inputs, values = op.unsqueeze(op.input(0), 1), op.unsqueeze(op.input(1), 2)
    if op.node.op == "LowerBound":
        return _count(op, op.add("Less", inputs, values), op.dtype_attr("out_type"))
    return _count(op, op.add("Not", op.add("Greater", inputs, values)), op.dtype_attr("out_type"))


def _count(op: Op, condition: Value, dtype: DType) -> Value:
    """How many along the last dim."""
    return op.cast(op.add("ReduceSum", op.cast(condition, DType.INT64), op.const([-1]), keepdims=0), dtype)


@maps("Bincount")
def bincount(op: Op) -> Value:
    """How often each number comes, or the sum of its weights"""
    flat = op.reshape(op.input(0), [-1])
    return _bins(op, flat, op.input(2), is_binary=False)


@maps("HistogramFixedWidth")
def histogram(op: Op) -> Value:
    """How many fall into each of equal parts of a range; what is outside falls into the ends"""
    x, limits = op.reshape(op.cast(op.input(0), DType.FLOAT64), [-1]), op.cast(op.input(1), DType.FLOAT64)
    parts, dtype = op.cast(op.reshape(op.input(2), [1]), DType.INT64), op.dtype_attr("dtype")
    low, high = (op.add("Gather", limits, op.const([place])) for place in (0, 1))
    width = op.add("Div", op.add("Sub", high, low), op.cast(parts, DType.FLOAT64))
    last = op.cast(op.add("Sub", parts, op.const([1])), DType.FLOAT64)
    places = op.add("Max", op.add("Min", op.add("Div", op.add("Sub", x, low), width), last), op.like(0, x))
    ones = op.add("Expand", op.const(1, dtype), op.add("Shape", x))
    return scatter_rows(op, op.const(0, dtype), parts, op.cast(places, DType.INT64), ones, "add")


@maps("DenseBincount")
def dense_bincount(op: Op) -> Value:
    """How often each number comes in a row, or the sum of its weights, or whether it comes"""
    x, weights, is_binary = op.input(0), op.input(2), op.bool_attr("binary_output")
    if op.rank(0) == 1:
        return _bins(op, x, weights, is_binary=is_binary)
    # Each row has bins of its own, behind those of the rows before it.
    size = op.cast(op.reshape(op.input(1), [1]), DType.INT64)
    rows = op.add("Shape", x, start=0, end=1)
    starts = op.add("Range", op.const(0), op.squeeze(rows, 0), op.const(1))
    numbers = op.cast(x, DType.INT64)
    limit = op.add("Mul", rows, size)
    own = op.add("Add", numbers, op.unsqueeze(op.add("Mul", starts, size), 1))
    places = op.reshape(op.add("Where", op.add("Less", numbers, size), own, limit), [-1])
    bins = _scattered(op, places, limit, weights, is_binary=is_binary)
    return op.add("Reshape", bins, op.add("Concat", rows, size, axis=0), allowzero=1)


def _bins(op: Op, numbers: Value, weights: Value, *, is_binary: bool) -> Value:
    size = op.cast(op.reshape(op.input(1), [1]), DType.INT64)
    return _scattered(op, op.add("Min", op.cast(numbers, DType.INT64), size), size, weights, is_binary=is_binary)


def _scattered(op: Op, places: Value, size: Value, weights: Value, *, is_binary: bool) -> Value:
    """What comes at each place up to `size`, which is where all others go."""
    dtype = weights.desc.dtype
    counts = op.shape_of(weights) == (0,) or 0 in op.shape_of(weights)
    if counts or is_binary:
        updates = op.add("Expand", op.const(1, dtype), op.add("Shape", places))
    else:
        updates = op.reshape(weights, [-1])
    table = scatter_rows(op, op.const(0, dtype), op.add("Add", size, op.const(1)), places, updates,
                         "max" if is_binary else "add")  # fmt: skip
    return op.add("Slice", table, op.const([0]), size, op.const([0]))
