"""Reductions of rows that belong together: a vector says to which segment each row belongs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import OpBuilder, maps

_LARGEST = {
    DType.FLOAT16: 65504.0,
    DType.BFLOAT16: (2 - 2.0**-7) * 2.0**127,
    DType.FLOAT32: float(np.finfo(np.float32).max),
    DType.FLOAT64: float(np.finfo(np.float64).max),
}


def _limits(dtype: DType) -> tuple[float, float]:
    """The lowest and the highest finite number of a type."""
    if dtype in _LARGEST:
        return -_LARGEST[dtype], _LARGEST[dtype]
    if dtype.name.startswith("UINT"):
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


@dataclass(frozen=True, slots=True)
class _Kind:
    """How ScatterND folds rows into one, and from what."""

    reduction: str
    initial: Callable[[DType], float]
    is_extreme: bool = False


_KINDS = {
    "Sum": _Kind("add", lambda dtype: 0),
    "Prod": _Kind("mul", lambda dtype: 1),
    "Max": _Kind("max", lambda dtype: _limits(dtype)[0], is_extreme=True),
    "Min": _Kind("min", lambda dtype: _limits(dtype)[1], is_extreme=True),
}


def scatter_rows(b: OpBuilder, initial: Value, count: Value, indices: Value, rows: Value, reduction: str) -> Value:
    """A table of `count` rows, each the initial number folded with the rows of its index."""
    shape = b.op("Concat", count, b.op("Shape", rows, start=1), axis=0)
    table = b.op("Expand", initial, shape)
    return b.op("ScatterND", table, b.unsqueeze(indices, 1), rows, reduction=reduction)


@maps("SegmentSum", "SegmentProd", "SegmentMax", "SegmentMin", "SegmentMean")
def segment(b: OpBuilder) -> Value:
    """ScatterND by increasing ids; of no rows 0, and 1 of SegmentProd"""
    return _folded(b, b.input(0), b.input(1), b.node.op.removeprefix("Segment"))


@maps(
    "SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN",
    "SparseSegmentSumWithNumSegments", "SparseSegmentMeanWithNumSegments", "SparseSegmentSqrtNWithNumSegments",
)  # fmt: skip
def sparse_segment(b: OpBuilder) -> Value:
    """Gather of the rows, then as SegmentSum, SegmentMean; SqrtN divides by the root of the count"""
    kind = b.node.op.removeprefix("SparseSegment")
    rows = b.op("Gather", b.input(0), b.input(1), axis=0)
    count = b.size_input(3) if kind.endswith("WithNumSegments") else None
    return _folded(b, rows, b.input(2), kind.removesuffix("WithNumSegments"), count)


def _folded(b: OpBuilder, rows: Value, ids: Value, kind: str, count: Value | None = None) -> Value:
    dtype = rows.desc.dtype
    if ids.tensor is not None and np.any(np.diff(ids.array.reshape(-1)) < 0):
        raise b.invalid("the ids of the segments do not increase")
    indices = b.cast(ids, DType.INT64)
    if count is None:
        # The last id and one; none of no rows.
        ends = b.op("Concat", b.const([-1]), indices, axis=0)
        count = b.op("Add", b.op("ReduceMax", ends, b.const([0]), keepdims=1), b.const([1]))
    fold = _KINDS.get(kind, _KINDS["Sum"])
    initial = fold.initial(dtype)
    if fold.is_extreme and dtype.is_float:
        initial = np.copysign(np.inf, initial)
    folded = scatter_rows(b, b.const(initial, dtype), count, indices, rows, fold.reduction)
    if kind in ("Sum", "Prod"):
        return folded
    ones = b.op("Expand", b.const(1, DType.INT32), b.op("Shape", indices))
    sizes = scatter_rows(b, b.const(0, DType.INT32), count, indices, ones, "add")
    if (rank := len(b.shape_of(rows))) > 1:
        sizes = b.unsqueeze(sizes, *range(1, rank))
    if fold.is_extreme:
        return b.op("Where", b.op("Greater", sizes, b.const(0, DType.INT32)), folded, b.const(0, dtype))
    divisor = b.cast(b.op("Max", sizes, b.const(1, DType.INT32)), dtype)
    return b.op("Div", folded, b.op("Sqrt", divisor) if kind == "SqrtN" else divisor)


@maps(
    "UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin",
    "SegmentSumV2", "SegmentProdV2", "SegmentMaxV2", "SegmentMinV2",
)  # fmt: skip
def unsorted_segment(b: OpBuilder) -> Value:
    """ScatterND; ids below 0 are dropped, and of no rows there is what the reduction starts from"""
    rows = b.input(0)
    kind = _KINDS[b.node.op.removeprefix("Unsorted").removeprefix("Segment").removesuffix("V2")]
    dtype, ids_rank = rows.desc.dtype, b.rank(1)
    indices = b.reshape(b.int64_input(1), [-1])
    if ids_rank != 1:
        inner = b.op("Shape", rows, start=ids_rank)
        rows = b.op("Reshape", rows, b.op("Concat", b.op("Shape", indices), inner, axis=0), allowzero=1)
    count = b.size_input(2)
    # One row more takes what is dropped.
    indices = b.op("Where", b.op("Less", indices, b.const(0)), count, indices)
    more = b.op("Add", count, b.const([1]))
    table = scatter_rows(b, b.const(kind.initial(dtype), dtype), more, indices, rows, kind.reduction)
    return b.slice(table, 0, count, 0)
