"""Rows of different lengths: all of their elements, and where each row begins."""

from __future__ import annotations

from atcpy.ir import DType, Value
from atcpy.ir.builder import INT64_MAX
from atcpy.parsers.tensorflow.op import OpBuilder, maps
from atcpy.parsers.tensorflow.ops.segments import scatter_rows


@maps("RaggedTensorToTensor")
def to_tensor(b: OpBuilder) -> Value:
    """Gather of rows that are filled up; of one dim of rows, given by where they begin (ROW_SPLITS)"""
    kinds = b.attr("row_partition_types")
    if kinds != (b"ROW_SPLITS",):
        names = ", ".join(str(kind, "utf-8", "replace") for kind in kinds) if isinstance(kinds, tuple) else "nothing"
        raise b.unsupported(f"rows that are given by {names}")
    values, splits = b.input(1), b.int64_input(3)
    sizes = _required_sizes(b)
    starts = b.op("Slice", splits, b.const([0]), b.const([-1]))
    lengths = b.op("Sub", b.op("Slice", splits, b.const([1]), b.const([2**63 - 1])), starts)
    if sizes[1] < 0:
        width = b.squeeze(b.op("ReduceMax", b.op("Concat", b.const([0]), lengths, axis=0), b.const([0])), 0)
    else:
        width = b.const(sizes[1])
    columns = b.iota(width)
    count, inner = b.op("Shape", values, start=0, end=1), b.op("Shape", values, start=1)
    # What is missing is read from one row more, of the default.
    is_there = b.op("Less", columns, b.unsqueeze(lengths, 1))
    at = b.op("Where", is_there, b.op("Add", b.unsqueeze(starts, 1), columns), count)
    if sizes[0] >= 0:
        more = b.op("Sub", b.const([sizes[0]]), b.op("Shape", lengths))
        pads = b.op("Concat", b.const([0, 0]), more, b.const([0]), axis=0)
        at = b.op("Pad", at, pads, b.squeeze(count, 0))
    default = b.op("Expand", b.input(2), b.op("Concat", b.const([1]), inner, axis=0))
    return b.op("Gather", b.op("Concat", values, default, axis=0), at, axis=0)


def _required_sizes(b: OpBuilder) -> tuple[int, int]:
    """How many rows are asked for, and how long; −1 for as many as there are, as long as the longest."""
    if not b.rank(0):
        return -1, -1
    sizes = b.ints(0)
    if len(sizes) != b.rank(1) + 1:
        raise b.invalid(f"shape {sizes} of rows with {b.rank(1)} dims")
    return sizes[0], sizes[1]


@maps("RaggedGather")
def gather(b: OpBuilder) -> list[Value]:
    """Gather of the elements of the rows that are asked for, level by level, and where the new rows begin"""
    levels = b.int_attr("PARAMS_RAGGED_RANK")
    if len(b.inputs) != levels + 2 or levels < 1:
        raise b.invalid(f"{len(b.inputs)} inputs for rows of {levels} levels")
    values, indices, rank = b.input(levels), b.int64_input(levels + 1), b.rank(levels + 1)
    if not rank:
        raise b.unsupported("a single row", "gather a list of one index, and take the only row")
    sizes = b.op("Shape", indices)
    splits: list[Value] = []
    for axis in range(rank - 1):  # dims of the indices: rows of one length
        count = b.op("ReduceProd", b.slice(sizes, 0, axis + 1, 0), b.const([0]), keepdims=0)
        more = b.op("Add", count, b.const(1))
        splits.append(b.op("Mul", b.iota(more), b.slice(sizes, axis + 1, axis + 2, 0)))
    rows = b.reshape(indices, [-1])
    rows = b.op("Where", b.op("Less", rows, b.const(0)), b.const(INT64_MAX - 1), rows)  # no counting from the end
    for level in range(levels):
        split = b.int64_input(level)
        starts = b.op("Gather", split, rows, axis=0)
        lengths = b.op("Sub", b.op("Gather", split, b.op("Add", rows, b.const(1)), axis=0), starts)
        splits.append(b.op("Concat", b.const([0]), b.op("CumSum", lengths, b.const(0)), axis=0))
        rows = _ranges(b, starts, splits[-1])
    dtype = DType.INT64 if b.attr("Tsplits") is None else b.dtype_attr("Tsplits")
    return [*(b.cast(split, dtype) for split in splits), b.op("Gather", values, rows, axis=0)]


def _ranges(b: OpBuilder, starts: Value, splits: Value) -> Value:
    """Count from each start on, as far as the splits say, and join the ranges."""
    total = b.op("ReduceMax", splits, b.const([0]), keepdims=1)
    ends = b.slice(splits, 1, INT64_MAX, 0)
    ones = b.op("Expand", b.const(1), b.op("Shape", ends))
    passed = scatter_rows(b, b.const(0), b.op("Add", total, b.const([1])), ends, ones, "add")
    row_of = b.slice(b.op("CumSum", passed, b.const(0)), 0, total, 0)  # how many rows end before a position
    offset = b.op("Sub", b.op("Gather", starts, row_of, axis=0), b.op("Gather", splits, row_of, axis=0))
    return b.op("Add", b.iota(b.squeeze(total, 0)), offset)
