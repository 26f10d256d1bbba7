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

from collections.abc import Iterator, Mapping
from math import isclose

from atcpy.ir import Match, Reject
from atcpy.ir.pattern import const, either, op, var
from atcpy.passes.formula import Formula, factor_of, fits_attribute, number, scaled, scaled_product

_X = var("x")
_SHIFTED = op("Add", _X, const("three"), commutative=True, name="shift")
_RELU6 = op("Clip", _SHIFTED, const("low"), const("high"), name="clip")
_RELU6_CONSTANTS = {"three": 3.0, "low": 0.0, "high": 6.0, "six": 6.0, "sixth": 1 / 6}


class HardSigmoid(
    Formula,
    switch="HardSigmoidFusionPass",
    creates="HardSigmoid",
    constants={**_RELU6_CONSTANTS, "zero": 0.0, "one": 1.0},
    after=("ClipFusionPass",),
    is_neutral=False,
):
    """Replace Clip(x + 3, 0, 6) / 6 and Clip(a · x + b, 0, 1) by HardSigmoid."""

    _line = op("Add", either(*scaled(_X, "alpha", "inverse")), const("beta"), commutative=True, name="shift")
    pattern = (*scaled(_RELU6, "sixth", "six"), op("Clip", _line, const("zero"), const("one")))

    def attributes(self, m: Match) -> Mapping[str, float]:
        if m.get("beta") is None:
            return {"alpha": 1 / 6, "beta": 0.5}
        return {"alpha": factor_of(m, "alpha", "inverse"), "beta": number(m["beta"])}


class HardSwishRelu6(
    Formula,
    switch="HardSwishRelu6FusionPass",
    creates="HardSwish",
    constants=_RELU6_CONSTANTS,
    after=("ClipFusionPass",),
    is_neutral=False,
):
    """Replace x · Clip(x + 3, 0, 6) / 6 by HardSwish."""

    pattern = scaled_product(_X, _RELU6, "sixth", "six")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from super().meet_requirements(m)
        yield from fits_attribute(m, 1 / 6)  # the slope, which HardSwish has inside as a float32


class HardSwish(Formula, switch="HardSwishFusionPass", creates="HardSwish", after=("HardSigmoidFusionPass",)):
    """Replace x · HardSigmoid(x) by HardSwish."""

    pattern = op("Mul", _X, op("HardSigmoid", _X, name="gate"), commutative=True)

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from super().meet_requirements(m)
        gate = m.node("gate")
        alpha, beta = gate.float_attr("alpha", 0.2), gate.float_attr("beta", 0.5)
        if not isclose(alpha, 1 / 6, rel_tol=1e-6) or beta != 0.5:
            yield Reject("other-slope", gate.name, f"alpha = {alpha:.4g}, beta = {beta:.4g}")
