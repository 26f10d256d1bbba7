"""What a network says of each step of time, read as a text."""

from __future__ import annotations

from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import Op, maps


@maps("CTCGreedyDecoder")
def greedy_decoder(op: Op) -> list[Value]:
    """The best class of each step, without blanks, and if asked for without those that are as the one before"""
    x, lengths = op.input(0), op.cast(op.input(1), DType.INT64)
    classes = op.add("Shape", x, start=2, end=3)
    blank = op.const([op.int_attr("blank_index")])
    if op.int_attr("blank_index") < 0:
        blank = op.add("Add", classes, blank)
    best = op.transpose(op.add("ArgMax", x, axis=2, keepdims=0), (1, 0))
    steps = op.add("Range", op.const(0), op.squeeze(op.add("Shape", x, start=0, end=1), 0), op.const(1))
    lasts = op.add("Less", steps, op.unsqueeze(lengths, 1))
    is_kept = op.add("And", lasts, op.add("Not", op.add("Equal", best, blank)))
    if op.bool_attr("merge_repeated"):
        before = op.add("Pad", best, op.const([0, 1, 0, -1]), op.const(-1))
        is_kept = op.add("And", is_kept, op.add("Not", op.add("Equal", best, before)))
    kept = op.cast(is_kept, DType.INT64)
    at = op.transpose(op.add("NonZero", is_kept), (1, 0))
    place = op.add("Sub", op.add("CumSum", kept, op.const(1)), op.const(1))
    column = op.unsqueeze(op.add("GatherND", place, at), 1)
    row = op.add("Gather", at, op.const([0]), axis=1)
    longest = op.add("ReduceMax", op.add("ReduceSum", kept, op.const([1]), keepdims=0), op.const([0]), keepdims=1)
    scores = op.transpose(op.add("ReduceMax", x, op.const([2]), keepdims=0), (1, 0))
    total = op.add("ReduceSum", op.add("Where", lasts, scores, op.like(0, x)), op.const([1]), keepdims=1)
    return [
        op.add("Concat", row, column, axis=1),
        op.add("GatherND", best, at),
        op.add("Concat", op.add("Shape", best, start=0, end=1), longest, axis=0),
        op.add("Neg", total),
    ]
