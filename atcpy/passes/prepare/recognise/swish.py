"""Name Sigmoid and the activations that it gates, which exporters spell out.

1 / (1 + e^(−x))                             →  Sigmoid(x)
x · Sigmoid(x), x / (1 + e^(−x))             →  Swish(x)
x · Sigmoid(a · x), x / (1 + e^(−(a · x)))   →  Swish(x) {alpha=a}

1.702 is the `a` of the quick Gelu.
"""

from __future__ import annotations

from collections.abc import Mapping

from atcpy.ir import Match
from atcpy.ir.pattern import Op, Pattern, const, either, op, var
from atcpy.passes.formula import Formula, factor_of, scaled

_X = var("x")
_SCALED = either(*scaled(_X, "alpha", "inverse"))
_MINUS = op("Neg", _X, name="minus")
_MINUS_SCALED = either(op("Neg", _SCALED, name="minus"), *scaled(_X, "minus_alpha", "minus_inverse"))


def _one_and_exp(exponent: Pattern) -> Op:
    """1 + e^exponent"""
    return op("Add", const("one"), op("Exp", exponent), commutative=True, name="bracket")


class Sigmoid(
    Formula, switch="SigmoidFusionPass", creates="Sigmoid", constants={"one": 1.0, "one_": 1.0, "minus_one": -1.0}
):
    """Replace 1 / (1 + e^(−x)) by Sigmoid."""

    _bracket = _one_and_exp(either(_MINUS, op("Mul", _X, const("minus_one"), commutative=True, name="minus")))
    pattern = (op("Div", const("one_"), _bracket), op("Reciprocal", _bracket))


class Swish(Formula, switch="SwishFusionPass", creates="Swish", constants={"one": 1.0}, after=("SigmoidFusionPass",)):
    """Replace x · Sigmoid(a · x) by Swish."""

    pattern = (
        op("Mul", _X, op("Sigmoid", either(_X, _SCALED)), commutative=True),
        op("Div", _X, _one_and_exp(either(_MINUS, _MINUS_SCALED))),
    )

    def attributes(self, m: Match) -> Mapping[str, float]:
        if "minus" in m.nodes or "sigmoid" in m.nodes:
            return {"alpha": factor_of(m, "alpha", "inverse")}
        return {"alpha": -factor_of(m, "minus_alpha", "minus_inverse")}
