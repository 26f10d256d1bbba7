"""Name the activations of the Elu family, and ThresholdedRelu, where a model spells them out.

Where(x > 0, x, a · (e^x − 1))           →  Elu(x) {alpha=a}
Relu(x) + Min(a · (e^x − 1), 0)          →  Elu(x) {alpha=a},  a ≥ 0
Relu(x) + Min(a · (e^(x / a) − 1), 0)    →  Celu(x) {alpha=a},  a > 0
g · Elu(x) {alpha=a}                     →  Selu(x) {alpha=a gamma=g}
Where(x > t, x, 0)                       →  ThresholdedRelu(x) {alpha=t}

`x > 0` may also be `x ≥ 0`, or `x < 0` with the values the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isclose

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import Op, Pattern, const, either, op, var
from atcpy.passes.formula import Formula, factor_of, fits_attribute, is_formula, number, scaled, where_above
from atcpy.passes.fusion import rounding_of

_X, _ZERO = var("x"), const("zero")


def _curve(x: Pattern) -> Pattern:
    """a · (e^x − 1)"""
    exp = op("Exp", x)
    less = either(op("Sub", exp, const("one"), name="less"), op("Add", exp, const("minus_one"), name="less"))
    return either(less, *scaled(less, "alpha", "inverse"))


_CURVE_CONSTANTS = {"zero": 0.0, "one": 1.0, "minus_one": -1.0}


class Elu(Formula, switch="EluFusionPass", creates="Elu", constants=_CURVE_CONSTANTS, after=("ReluFusionPass",)):
    """Replace Where(x > 0, x, a · (e^x − 1)) by Elu."""

    pattern = where_above(_X, _ZERO, _X, _curve(_X))

    def attributes(self, m: Match) -> Mapping[str, float]:
        return {"alpha": factor_of(m, "alpha", "inverse")}


class Celu(
    Formula,
    switch="CeluFusionPass",
    creates="Celu",
    constants=_CURVE_CONSTANTS,
    after=("ReluFusionPass",),
    makes=("Celu", "Elu"),
):
    """Replace Relu(x) + Min(a · (e^(x / a) − 1), 0) by Celu or Elu."""

    _below: Op = op("Min", _curve(either(_X, *scaled(_X, "slope", "width", name="stretched"))), _ZERO, commutative=True)
    pattern = op("Add", op("Relu", _X), _below, commutative=True)

    def attributes(self, m: Match) -> Mapping[str, float]:
        return {"alpha": factor_of(m, "alpha", "inverse")}

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from is_formula(m, **self.constants)
        alpha, slope = factor_of(m, "alpha", "inverse"), factor_of(m, "slope", "width")
        yield from fits_attribute(m, alpha, slope)
        if alpha < 0 or not (slope == 1 or isclose(alpha * slope, 1, rel_tol=rounding_of(m["x"].desc.dtype))):
            yield Reject("other-slope", m.root.name, f"alpha = {alpha:.4g}, slope = {slope:.4g}")

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.op("Elu" if factor_of(m, "slope", "width") == 1 else "Celu", m["x"], **self.attributes(m))


class Selu(Formula, switch="SeluFusionPass", creates="Selu", after=("CeluFusionPass", "EluFusionPass")):
    """Replace g · Elu(x) by Selu."""

    pattern = op("Mul", op("Elu", _X), const("gamma"), commutative=True)

    def attributes(self, m: Match) -> Mapping[str, float]:
        return {"alpha": m.node("elu").float_attr("alpha", 1.0), "gamma": number(m["gamma"])}


class ThresholdedRelu(Formula, switch="ThresholdedReluFusionPass", creates="ThresholdedRelu", constants={"zero": 0.0}):
    """Replace Where(x > t, x, 0) by ThresholdedRelu."""

    # Of Where(x ≤ t, 0, x), NaN would come through.
    _above = either(op("Greater", _X, const("limit"), name="compare"), op("Less", const("limit"), _X, name="compare"))
    pattern = op("Where", _above, _X, _ZERO)

    def attributes(self, m: Match) -> Mapping[str, float]:
        return {"alpha": number(m["limit"])}
