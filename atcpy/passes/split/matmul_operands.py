"""Fuse what stands around a product of activations into it: its scale, and the transposed right operand of attention.

MatMul(a, b) · s, MatMul(a, b) / (1/s)                →  FusedMatMul(a, b) {scale=s}
MatMul(a, Transpose(x) {perm=[…, j, i]}), i or j last  →  FusedMatMul(a, Transpose(x) {perm=[…, i, j]}) {transB=1}

The second Transpose moves whole rows where the first one gathered single elements; where it moves
nothing it is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import DType, Engine, Match, Node, Reject, Rewriter, Value
from atcpy.ir.pattern import const, op, var
from atcpy.ops.move.transpose import permutation
from atcpy.passes.fusion import Fusion, only_read_by
from atcpy.passes.phase import Phase
from atcpy.passes.split.assign_engines import choose_engine

_PRODUCT = op("MatMul", var("a"), var("b"), name="product")
_TRANSPOSED = op("Transpose", var("x"), name="transpose")


def _requirements(product: Node) -> Iterator[Reject]:
    engine, reasons = choose_engine(product)
    if engine is not Engine.AICORE:
        yield from reasons
    if product.output.desc.dtype is not DType.FLOAT32:
        yield Reject("dtype", product.name, product.output.desc.dtype.long)


class MatMulScale(Fusion, switch="MatMulScaleFusionPass", phase=Phase.OPERANDS):
    """Fuse a constant factor into the matrix product before it."""

    pattern = (
        op("Mul", _PRODUCT, const("factor"), commutative=True, name="scaled"),
        op("Div", _PRODUCT, const("factor"), name="scaled"),
    )

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        product, scaled, factor = m.node("product"), m.node("scaled"), m["factor"]
        yield from only_read_by(product.output, scaled)
        yield from _requirements(product)
        if factor.desc.elements != 1:
            yield Reject("not-per-tensor", factor.name)
        elif scaled.op_type == "Div" and not float(factor.array.reshape(())):
            yield Reject("other-constant", factor.name, "is 0")
        if scaled.output.desc.shape is None or scaled.output.desc.shape != product.output.desc.shape:
            yield Reject("broadcast", scaled.name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        factor = float(m["factor"].array.reshape(()))
        scale = 1 / factor if m.node("scaled").op_type == "Div" else factor
        return rw.op("FusedMatMul", m["a"], m["b"], scale=scale)


class MatMulTranspose(
    Fusion, switch="MatMulTransposeFusionPass", phase=Phase.OPERANDS, after=("MatMulScaleFusionPass",)
):
    """Let a matrix product read its right operand transposed."""

    pattern = op(("MatMul", "FusedMatMul"), var("a"), _TRANSPOSED, name="product")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        product, transpose = m.node("product"), m.node("transpose")
        yield from only_read_by(transpose.output, product)
        yield from _requirements(product)
        rank = len(transpose.output.desc.shape or ())
        if product.int_attr("transB", 0) or rank < 2 or permutation(transpose, rank)[-2] != rank - 1:
            yield Reject("not-transposed", transpose.name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        product, transpose, x = m.node("product"), m.node("transpose"), m["x"]
        *outer, j, i = permutation(transpose, len(transpose.output.desc.shape or ()))
        perm = (*outer, i, j)
        if list(perm) != sorted(perm):
            x = rw.op("Transpose", x, perm=perm)
        return rw.op("FusedMatMul", m["a"], x, **(dict(product.attrs) | {"transB": 1}))
