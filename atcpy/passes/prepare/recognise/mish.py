"""Name Softplus, Softsign and Mish where a model spells them out.

Log(1 + e^x)            →  Softplus(x)
x / (1 + |x|)           →  Softsign(x)
x · Tanh(Softplus(x))   →  Mish(x)
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import Op, Pattern, const, op, var
from atcpy.passes.formula import is_formula
from atcpy.passes.fusion import Fusion
from atcpy.passes.phase import Phase

_X = var("x")


def _one_and(other: Pattern) -> Op:
    return op("Add", const("one"), other, commutative=True, name="bracket")


class Softplus(Fusion, switch="SoftplusFusionPass", phase=Phase.RECOGNISE, makes=("Softplus",)):
    """Replace Log(1 + e^x) by Softplus."""

    pattern = op("Log", _one_and(op("Exp", _X)))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from is_formula(m, one=1.0)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.op("Softplus", m["x"])


class Softsign(Fusion, switch="SoftsignFusionPass", phase=Phase.RECOGNISE, makes=("Softsign",)):
    """Replace x / (1 + |x|) by Softsign."""

    pattern = op("Div", _X, _one_and(op("Abs", _X)))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from is_formula(m, one=1.0)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.op("Softsign", m["x"])


class Mish(Fusion, switch="MishFusionPass", phase=Phase.RECOGNISE, after=("SoftplusFusionPass",), makes=("Mish",)):
    """Replace x · Tanh(Softplus(x)) by Mish."""

    pattern = op("Mul", _X, op("Tanh", op("Softplus", _X)), commutative=True)

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from is_formula(m)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.op("Mish", m["x"])
