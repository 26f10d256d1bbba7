"""Name the Gelu that exporters spell out.

x · ½ · (1 + Erf(x / √2))  →  Gelu(x)

PyTorch multiplies by ½ last, TensorFlow x first, Keras the bracket; `/ √2` may be a product with √½.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import Op, Pattern, const, op, var
from atcpy.options import Stage
from atcpy.passes.fusion import Fusion, constant_is, formula_of, only_read_by

_X, _HALF = var("x"), const("half")
_SCALED = op(("Div", "Mul"), _X, const("root"), commutative=True, name="scaled")
_BRACKET = op("Add", op("Erf", _SCALED, name="erf"), const("one"), commutative=True, name="bracket")


def _product(a: Pattern, b: Pattern, c: Pattern) -> Op:
    """(a · b) · c"""
    return op("Mul", op("Mul", a, b, commutative=True, name="inner"), c, commutative=True, name="outer")


class Gelu(Fusion, switch="GeluFusionPass", stage=Stage.PREPARE, after=("PrunePass",), makes=("Gelu",)):
    """Replace x · ½ · (1 + Erf(x / √2)) by Gelu."""

    pattern = (_product(_X, _BRACKET, _HALF), _product(_X, _HALF, _BRACKET), _product(_BRACKET, _HALF, _X))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        bracket, inner, outer = m.node("bracket"), m.node("inner"), m.node("outer")
        after = inner if bracket.output in inner.operands else outer
        for node, reader in (("scaled", m.node("erf")), ("erf", bracket), ("bracket", after), ("inner", outer)):
            yield from only_read_by(m.node(node).output, reader)
        yield from formula_of(m["x"], outer)
        scaled = m.node("scaled")
        divided = scaled.op_type == "Div" and scaled.operand(1) is m["root"]
        for name, wanted in (("root", sqrt(2) if divided else sqrt(0.5)), ("one", 1.0), ("half", 0.5)):
            yield from constant_is(m[name], wanted)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.insert("Gelu", m["x"])
