"""Reductions of rows that belong together: a vector says to which segment each row belongs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import Op, maps

_LARGEST = {
    DType.FLOAT16: 65504.0,
    DType.BFLOAT16: (2 - 2.0**-7) * 2.0**127,
    DType.FLOAT32: float(np.finfo(np.float32).max),
    DType.FLOAT64: float(np.finfo(np.float64).max),
}


def _limits(dtype: DType) -> tuple[float, float]:
    """The least and the greatest finite number of a type."""
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


def scatter_rows(op: Op, initial: Value, count: Value, places: Value, rows: Value, reduction: str) -> Value:
    """A table of `count` rows, each the initial number folded with the rows that go to its place."""
    shape = op.add("Concat", count, op.add("Shape", rows, start=1), axis=0)
    table = op.add("Expand", initial, shape)
    return op.add("ScatterND", table, op.unsqueeze(places, 1), rows, reduction=reduction)


@maps("SegmentSum", "SegmentProd", "SegmentMax", "SegmentMin", "SegmentMean")
def segment(op: Op) -> Value:
    """ScatterND by increasing ids; of no rows 0, and 1 of SegmentProd"""
    return _folded(op, op.input(0), op.input(1), op.node.op.removeprefix("Segment"))


@maps(
    "SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN",
    "SparseSegmentSumWithNumSegments", "SparseSegmentMeanWithNumSegments", "SparseSegmentSqrtNWithNumSegments",
)  # fmt: skip
def sparse_segment(op: Op) -> Value:
    """Gather of the rows, then as SegmentSum, SegmentMean; SqrtN divides by the root of the count"""
    kind = op.node.op.removeprefix("SparseSegment")
    rows = op.add("Gather", op.input(0), op.input(1), axis=0)
    count = op.cast(op.reshape(op.input(3), [1]), DType.INT64) if kind.endswith("WithNumSegments") else None
    return _folded(op, rows, op.input(2), kind.removesuffix("WithNumSegments"), count)


def _folded(op: Op, rows: Value, ids: Value, kind: str, count: Value | None = None) -> Value:
    dtype = rows.desc.dtype
    if ids.tensor is not None and np.any(np.diff(ids.array.reshape(-1)) < 0):
        raise ModelInvalid("E13014", "the ids of the segments do not increase", where=op.where)
    places = op.cast(ids, DType.INT64)
    if count is None:
        # The last id and one; none of no rows.
        ends = op.add("Concat", op.const([-1]), places, axis=0)
        count = op.add("Add", op.add("ReduceMax", ends, op.const([0]), keepdims=1), op.const([1]))
    fold = _KINDS.get(kind, _KINDS["Sum"])
    initial = fold.initial(dtype)
    if fold.is_extreme and dtype.is_float:
        initial = np.copysign(np.inf, initial)
    folded = scatter_rows(op, op.const(initial, dtype), count, places, rows, fold.reduction)
    if kind in ("Sum", "Prod"):
        return folded
    ones = op.add("Expand", op.const(1, DType.INT32), op.add("Shape", places))
    sizes = scatter_rows(op, op.const(0, DType.INT32), count, places, ones, "add")
    if (rank := len(op.shape_of(rows))) > 1:
        sizes = op.unsqueeze(sizes, *range(1, rank))
    if fold.is_extreme:
        return op.add("Where", op.add("Greater", sizes, op.const(0, DType.INT32)), folded, op.const(0, dtype))
    divisor = op.cast(op.add("Max", sizes, op.const(1, DType.INT32)), dtype)
    return op.add("Div", folded, op.add("Sqrt", divisor) if kind == "SqrtN" else divisor)


@maps(
    "UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin",
    "SegmentSumV2", "SegmentProdV2", "SegmentMaxV2", "SegmentMinV2",
)  # fmt: skip
def unsorted_segment(op: Op) -> Value:
    """ScatterND; ids below 0 are dropped, and of no rows there is what the reduction starts from"""
    rows = op.input(0)
    kind = _KINDS[op.node.op.removeprefix("Unsorted").removeprefix("Segment").removesuffix("V2")]
    dtype, ids_rank = rows.desc.dtype, op.rank(1)
    places = op.reshape(op.cast(op.input(1), DType.INT64), [-1])
    if ids_rank != 1:
        inner = op.add("Shape", rows, start=ids_rank)
        rows = op.add("Reshape", rows, op.add("Concat", op.add("Shape", places), inner, axis=0), allowzero=1)
    count = op.cast(op.reshape(op.input(2), [1]), DType.INT64)
    # One row more takes what is dropped.
    places = op.add("Where", op.add("Less", places, op.const(0)), count, places)
    more = op.add("Add", count, op.const([1]))
    table = scatter_rows(op, op.const(kind.initial(dtype), dtype), more, places, rows, kind.reduction)
    return op.add("Slice", table, op.const([0]), count, op.const([0]))
