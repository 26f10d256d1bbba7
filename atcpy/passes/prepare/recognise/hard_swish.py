"""Name the hard activations that exporters spell out.

Clip(x + 3, 0, 6) / 6        →  HardSigmoid(x) {alpha=1/6 beta=1/2}
Clip(a · x + b, 0, 1)        →  HardSigmoid(x) {alpha=a beta=b}
x · Clip(x + 3, 0, 6) / 6    →  HardSwish(x)
x · HardSigmoid(x)           →  HardSwish(x),   alpha = 1/6, beta = 1/2

`/ 6` may also be written as a product with 1/6, and stand at any of the factors.

Those with Clip serve our kernels only: x + 3 is exact where the gate closes, and x / 6 + ½ is not, so a model whose
result comes from there is off by more in a runtime that rounds the two one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import const, either, op, var
from atcpy.passes.formula import factor_of, fits_attribute, is_formula, number, scaled, scaled_product
from atcpy.passes.fusion import Fusion, only_read_by
from atcpy.passes.phase import Phase

_X = var("x")
_SHIFTED = op("Add", _X, const("three"), commutative=True, name="shift")
_RELU6 = op("Clip", _SHIFTED, const("low"), const("high"), name="clip")
_NUMBERS = {"three": 3.0, "low": 0.0, "high": 6.0, "six": 6.0, "sixth": 1 / 6}


class HardSigmoid(
    Fusion, switch="HardSigmoidFusionPass", phase=Phase.RECOGNISE, after=("ClipFusionPass",), is_neutral=False
):
    """Replace Clip(x + 3, 0, 6) / 6 and Clip(a · x + b, 0, 1) by HardSigmoid."""

    _line = op("Add", either(*scaled(_X, "alpha", "inverse")), const("beta"), commutative=True, name="shift")
    pattern = (*scaled(_RELU6, "sixth", "six"), op("Clip", _line, const("zero"), const("one")))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from is_formula(m, **_NUMBERS, zero=0.0, one=1.0)
        yield from fits_attribute(m, *_line(m))

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        alpha, beta = _line(m)
        return rw.op("HardSigmoid", m["x"], alpha=alpha, beta=beta)


def _line(m: Match) -> tuple[float, float]:
    """The alpha and beta of the HardSigmoid."""
    if m.get("beta") is None:
        return 1 / 6, 0.5
    return factor_of(m, "alpha", "inverse"), number(m["beta"])


class HardSwishRelu6(
    Fusion, switch="HardSwishRelu6FusionPass", phase=Phase.RECOGNISE, after=("ClipFusionPass",), is_neutral=False
):
    """Replace x · Clip(x + 3, 0, 6) / 6 by HardSwish."""

    pattern = scaled_product(_X, _RELU6, "sixth", "six")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from is_formula(m, **_NUMBERS)
        yield from fits_attribute(m, *_line(m))  # which it has inside

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.op("HardSwish", m["x"])


class HardSwish(
    Fusion, switch="HardSwishFusionPass", phase=Phase.RECOGNISE, after=("HardSigmoidFusionPass",), makes=("HardSwish",)
):
    """Replace x · HardSigmoid(x) by HardSwish."""

    pattern = op("Mul", var("x"), op("HardSigmoid", var("x"), name="gate"), commutative=True, name="mul")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        gate = m.node("gate")
        yield from only_read_by(gate.output, m.node("mul"))
        alpha, beta = gate.float_attr("alpha", 0.2), gate.float_attr("beta", 0.5)
        if not isclose(alpha, 1 / 6, rel_tol=1e-6) or beta != 0.5:
            yield Reject("other-slope", gate.name, f"alpha = {alpha:.4g}, beta = {beta:.4g}")

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.op("HardSwish", m["x"])
