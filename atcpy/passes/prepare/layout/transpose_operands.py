"""Let ops that can read their operand in any order do without the Transpose before them.

Reduce(Transpose(x), axes)      →  Reduce(x, axes'),      where what stays is in its order
Gemm(Transpose(a), b)           →  Gemm(a, b) {transA}
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atcpy.ir import Match, Node, Reject, Rewriter, Value
from atcpy.ir.pattern import const, op, var
from atcpy.ops.reduce.reduce import REDUCTIONS
from atcpy.passes.fusion import Fusion
from atcpy.passes.phase import Phase


class ReduceTranspose(
    Fusion, switch="TransposeReduceFusionPass", phase=Phase.MOVE, after=("TransposeRegionPass",), repeats=True
):
    """Reduce over the dims of what was transposed."""

    pattern = op(tuple(REDUCTIONS), op("Transpose", var("x"), name="transpose"), const("axes"), name="reduce")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        if not reduces_without(m.node("reduce"), _perm(m)):
            yield Reject("order-remains", m.node("reduce").name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        reduce, perm = m.node("reduce"), _perm(m)
        axes = rw.const(np.array(sorted(perm[axis] for axis in _axes(reduce)), np.int64), like=m["axes"])
        return rw.op(reduce.op_type, m["x"], axes, **reduce.attrs)


class GemmTranspose(
    Fusion, switch="TransposeGemmFusionPass", phase=Phase.MOVE, after=("TransposeRegionPass",), repeats=True
):
    """Read an operand of Gemm transposed."""

    pattern = (
        op("Gemm", op("Transpose", var("a"), name="transpose"), var("b"), var("c", optional=True), name="gemm"),
        op("Gemm", var("a"), op("Transpose", var("b"), name="transpose"), var("c", optional=True), name="gemm"),
    )

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        gemm = m.node("gemm")
        side = "transA" if gemm.operand(0).producer is m.node("transpose") else "transB"
        flags = {side: 1 - gemm.int_attr(side, 0)}
        return rw.op("Gemm", m["a"], m["b"], m.get("c"), **{**gemm.attrs, **flags})


def _perm(m: Match) -> tuple[int, ...]:
    return m.node("transpose").ints_attr("perm", range(len(m["x"].desc.shape or ()))[::-1])


def _axes(reduce: Node) -> set[int]:
    """The dims that a reduction is over, as far as they are known."""
    shape, axes = reduce.operand(0).desc.shape, reduce.input(1)
    if not shape or axes is None or axes.tensor is None:
        return set()
    return {int(axis) % len(shape) for axis in axes.array.reshape(-1)}


def reduces_without(node: Node, perm: tuple[int, ...]) -> bool:
    """Is the node a reduction that needs no Transpose in this order before it: is what stays in its order?"""
    if node.op_type not in REDUCTIONS or node.domain or node.int_attr("keepdims", 1):
        return False
    axes = _axes(node)
    stay = [perm[axis] for axis in range(len(perm)) if axis not in axes]
    return bool(axes) and stay == sorted(stay)
