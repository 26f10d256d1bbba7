"""Name the sum of absolute values.

ReduceSum(|x|)   →  ReduceL1(x)

TensorFlow and JAX write norms of order 1 so; ReduceL1 reads x once.
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import op, var
from atcpy.passes.fusion import Fusion, only_read_by


class ReduceL1(Fusion, switch="ReduceL1FusionPass", makes=("ReduceL1",)):
    """Replace ReduceSum(|x|) by ReduceL1(x)."""

    pattern = op("ReduceSum", op("Abs", var("x"), name="abs"), var("axes", optional=True), name="sum")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from only_read_by(m.node("abs").output, m.node("sum"))
        if not m["x"].desc.dtype.is_float:  # |−128| does not fit in int8
            yield Reject("dtype", m.node("sum").name, m["x"].desc.dtype.long)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.op("ReduceL1", m["x"], m.get("axes"), **m.node("sum").attrs)
