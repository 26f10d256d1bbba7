"""Name Sigmoid and the activations that it gates, which exporters spell out.

1 / (1 + e^(−x))                             →  Sigmoid(x)
x · Sigmoid(x), x / (1 + e^(−x))             →  Swish(x)
x · Sigmoid(a · x), x / (1 + e^(−(a · x)))   →  Swish(x) {alpha=a}

1.702 is the `a` of the quick Gelu.
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import Op, Pattern, const, either, op, var
from atcpy.passes.formula import factor_of, fits_attribute, is_formula, scaled
from atcpy.passes.fusion import Fusion
from atcpy.passes.phase import Phase

_X = var("x")
_SCALED = either(*scaled(_X, "alpha", "inverse"))
_MINUS = op("Neg", _X, name="minus")
_MINUS_SCALED = either(op("Neg", _SCALED, name="minus"), *scaled(_X, "minus_alpha", "minus_inverse"))


def _one_and_exp(exponent: Pattern) -> Op:
    """1 + e^exponent"""
    return op("Add", const("one"), op("Exp", exponent), commutative=True, name="bracket")


class Sigmoid(Fusion, switch="SigmoidFusionPass", phase=Phase.RECOGNISE, makes=("Sigmoid",)):
    """Replace 1 / (1 + e^(−x)) by Sigmoid."""

    _bracket = _one_and_exp(either(_MINUS, op("Mul", _X, const("minus_one"), commutative=True, name="minus")))
    pattern = (op("Div", const("one_"), _bracket), op("Reciprocal", _bracket))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from is_formula(m, one=1.0, one_=1.0, minus_one=-1.0)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.op("Sigmoid", m["x"])


class Swish(Fusion, switch="SwishFusionPass", phase=Phase.RECOGNISE, after=("SigmoidFusionPass",), makes=("Swish",)):
    """Replace x · Sigmoid(a · x) by Swish."""

    pattern = (
        op("Mul", _X, op("Sigmoid", either(_X, _SCALED)), commutative=True),
        op("Div", _X, _one_and_exp(either(_MINUS, _MINUS_SCALED))),
    )

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from is_formula(m, one=1.0)
        yield from fits_attribute(m, _alpha(m))

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.op("Swish", m["x"], alpha=_alpha(m))


def _alpha(m: Match) -> float:
    if "minus" in m.nodes or "sigmoid" in m.nodes:
        return factor_of(m, "alpha", "inverse")
    return -factor_of(m, "minus_alpha", "minus_inverse")
