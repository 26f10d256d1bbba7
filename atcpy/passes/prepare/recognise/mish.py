"""Name Softplus, Softsign and Mish where a model spells them out.

Log(1 + e^x)            →  Softplus(x)
x / (1 + |x|)           →  Softsign(x)
x · Tanh(Softplus(x))   →  Mish(x)
"""

from __future__ import annotations

from atcpy.ir.pattern import Op, Pattern, const, op, var
from atcpy.passes.formula import Formula

_X = var("x")


def _one_and(other: Pattern) -> Op:
    return op("Add", const("one"), other, commutative=True, name="bracket")


class Softplus(Formula, switch="SoftplusFusionPass", creates="Softplus", constants={"one": 1.0}):
    """Replace Log(1 + e^x) by Softplus."""

    pattern = op("Log", _one_and(op("Exp", _X)))


class Softsign(Formula, switch="SoftsignFusionPass", creates="Softsign", constants={"one": 1.0}):
    """Replace x / (1 + |x|) by Softsign."""

    pattern = op("Div", _X, _one_and(op("Abs", _X)))


class Mish(Formula, switch="MishFusionPass", creates="Mish", after=("SoftplusFusionPass",)):
    """Replace x · Tanh(Softplus(x)) by Mish."""

    pattern = op("Mul", _X, op("Tanh", op("Softplus", _X)), commutative=True)
