"""Rows of different lengths: all of their elements, and where each row begins."""

from __future__ import annotations

from atcpy.ir import Value
from atcpy.parsers.tensorflow.op import OpBuilder, maps


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
