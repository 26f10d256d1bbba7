"""Rows of different lengths: all of their elements, and where each row begins."""

from __future__ import annotations

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import Op, maps


@maps("RaggedTensorToTensor")
def to_tensor(op: Op) -> Value:
    """Gather of rows that are filled up; of one dim of rows, given by where they begin (ROW_SPLITS)"""
    kinds = op.attr("row_partition_types")
    if kinds != (b"ROW_SPLITS",):
        told = ", ".join(str(kind, "utf-8", "replace") for kind in kinds) if isinstance(kinds, tuple) else "nothing"
        raise op.refuse(f"rows that are given by {told}")
    values, splits = op.input(1), op.cast(op.input(3), DType.INT64)
    wanted = _wanted(op)
    starts = op.add("Slice", splits, op.const([0]), op.const([-1]))
    lengths = op.add("Sub", op.add("Slice", splits, op.const([1]), op.const([2**63 - 1])), starts)
    if wanted[1] < 0:
        width = op.squeeze(op.add("ReduceMax", op.add("Concat", op.const([0]), lengths, axis=0), op.const([0])), 0)
    else:
        width = op.const(wanted[1])
    places = op.add("Range", op.const(0), width, op.const(1))
    count, inner = op.add("Shape", values, start=0, end=1), op.add("Shape", values, start=1)
    # What is missing is read from one row more, of the default.
    is_there = op.add("Less", places, op.unsqueeze(lengths, 1))
    at = op.add("Where", is_there, op.add("Add", op.unsqueeze(starts, 1), places), count)
    if wanted[0] >= 0:
        more = op.add("Sub", op.const([wanted[0]]), op.add("Shape", lengths))
        pads = op.add("Concat", op.const([0, 0]), more, op.const([0]), axis=0)
        at = op.add("Pad", at, pads, op.squeeze(count, 0))
    default = op.add("Expand", op.input(2), op.add("Concat", op.const([1]), inner, axis=0))
    return op.add("Gather", op.add("Concat", values, default, axis=0), at, axis=0)


def _wanted(op: Op) -> tuple[int, int]:
    """How many rows are asked for, and how long; −1 for as many as there are, as long as the longest."""
    if not op.rank(0):
        return -1, -1
    sizes = op.ints(0)
    if len(sizes) != op.rank(1) + 1:
        raise ModelInvalid("E13014", f"shape {sizes} of rows with {op.rank(1)} dims", where=op.where)
    return sizes[0], sizes[1]
