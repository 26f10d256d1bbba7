"""What a network says of each step of time, read as a text."""

from __future__ import annotations

from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import OpBuilder, maps


@maps("CTCGreedyDecoder")
def greedy_decoder(b: OpBuilder) -> list[Value]:
    """The best class of each step, without blanks, and if asked for without those that are as the one before"""
    x, lengths = b.input(0), b.int64_input(1)
    classes = b.op("Shape", x, start=2, end=3)
    blank = b.const([b.int_attr("blank_index")])
    if b.int_attr("blank_index") < 0:
        blank = b.op("Add", classes, blank)
    best = b.transpose(b.op("ArgMax", x, axis=2, keepdims=0), (1, 0))
    steps = b.op("Range", b.const(0), b.squeeze(b.op("Shape", x, start=0, end=1), 0), b.const(1))
    lasts = b.op("Less", steps, b.unsqueeze(lengths, 1))
    is_kept = b.op("And", lasts, b.op("Not", b.op("Equal", best, blank)))
    if b.bool_attr("merge_repeated"):
        before = b.op("Pad", best, b.const([0, 1, 0, -1]), b.const(-1))
        is_kept = b.op("And", is_kept, b.op("Not", b.op("Equal", best, before)))
    kept = b.cast(is_kept, DType.INT64)
    at = b.transpose(b.op("NonZero", is_kept), (1, 0))
    position = b.op("Sub", b.op("CumSum", kept, b.const(1)), b.const(1))
    column = b.unsqueeze(b.op("GatherND", position, at), 1)
    row = b.op("Gather", at, b.const([0]), axis=1)
    longest = b.op("ReduceMax", b.op("ReduceSum", kept, b.const([1]), keepdims=0), b.const([0]), keepdims=1)
    scores = b.transpose(b.op("ReduceMax", x, b.const([2]), keepdims=0), (1, 0))
    total = b.op("ReduceSum", b.op("Where", lasts, scores, b.like(0, x)), b.const([1]), keepdims=1)
    return [
        b.op("Concat", row, column, axis=1),
        b.op("GatherND", best, at),
        b.op("Concat", b.op("Shape", best, start=0, end=1), longest, axis=0),
        b.op("Neg", total),
    ]
