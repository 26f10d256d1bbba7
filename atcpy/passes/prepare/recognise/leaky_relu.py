"""Name LeakyRelu and PRelu where a model spells them out.

Max(x, a · x)              →  LeakyRelu(x) {alpha=a},  0 < a ≤ 1
Where(x > 0, x, a · x)     →  LeakyRelu(x) {alpha=a}
Relu(x) − a · Relu(−x)     →  PRelu(x, a)
Relu(x) + a · Relu(−x)     →  PRelu(x, −a)
Relu(x) + a · Min(x, 0)    →  PRelu(x, a)
PRelu(x, a)                →  LeakyRelu(x) {alpha=a},  a is one number

The slope of PRelu may be a number for each channel. With a = 0 or above 1, Max(x, a · x) is another function.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import Pattern, const, either, op, var
from atcpy.passes.formula import Formula, factor_of, is_function_of, scaled, where_above
from atcpy.passes.fusion import Fusion, constant_is, only_read_within

_X, _ZERO = var("x"), const("zero")
_SCALED = either(*scaled(_X, "alpha", "inverse"))


class LeakyRelu(
    Formula,
    switch="LeakyReluFusionPass",
    creates="LeakyRelu",
    constants={"zero": 0.0},
    after=("PReluFusionPass", "ReluFusionPass"),
):
    """Replace Max(x, a · x), Where(x > 0, x, a · x), and PRelu with one slope by LeakyRelu."""

    pattern = (
        op("Max", _X, _SCALED, commutative=True),
        *where_above(_X, _ZERO, _X, _SCALED),
        op("PRelu", _X, const("alpha")),
    )

    def attributes(self, m: Match) -> Mapping[str, float]:
        return {"alpha": factor_of(m, "alpha", "inverse")}

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from super().meet_requirements(m)
        alpha = factor_of(m, "alpha", "inverse")
        if m.root.op_type == "Max" and not 0 < alpha <= 1:
            yield Reject("other-slope", m.root.name, f"alpha = {alpha:.4g}")


def _slope_times(part: Pattern) -> Pattern:
    return op("Mul", part, const("slope"), commutative=True, name="sloped")


class PRelu(Fusion, switch="PReluFusionPass", after=("ReluFusionPass",), makes=("PRelu",)):
    """Replace Relu(x) − a · Relu(−x) by PRelu."""

    _right = op("Relu", _X, name="right")
    _left = _slope_times(op("Relu", op("Neg", _X), name="left"))
    _below = _slope_times(op("Min", _X, _ZERO, commutative=True))
    pattern = (op("Sub", _right, _left), op("Add", _right, either(_left, _below), commutative=True))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        x, slope = m["x"], m["slope"]
        yield from only_read_within(m, m.root)
        if m.get("zero") is not None:
            yield from constant_is(m["zero"], 0.0)
        yield from is_function_of(x, m.root, [value for name, value in m.values.items() if value and name != "x"])
        shape = x.desc.shape or ()
        if any(dim not in (1, have) for dim, have in zip(slope.desc.static_shape[::-1], shape[::-1], strict=False)):
            yield Reject("broadcast", m.root.name)
        if not np.isfinite(slope.array).all():
            yield Reject("other-constant", slope.name, "is not finite")

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        is_negative = m.root.op_type == "Add" and "left" in m.nodes
        slope = rw.const(-m["slope"].array, like=m["slope"]) if is_negative else m["slope"]
        return rw.op("PRelu", m["x"], slope)
