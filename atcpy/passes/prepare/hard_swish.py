"""Name the hard activations that exporters spell out.

Clip(x + 3, 0, 6) / 6        →  HardSigmoid(x) {alpha=1/6 beta=1/2}
x · Clip(x + 3, 0, 6) / 6    →  HardSwish(x)
x · HardSigmoid(x)           →  HardSwish(x),   alpha = 1/6, beta = 1/2

`/ 6` may also be written as a product with 1/6.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import Op, const, op, var
from atcpy.options import Stage
from atcpy.passes.fusion import Fusion, constant_is, formula_of, only_read_by

_SHIFTED = op("Add", var("x"), const("three"), commutative=True, name="shift")
_RELU6 = op("Clip", _SHIFTED, const("low"), const("high"), name="clip")


def _by_six(numerator: Op) -> Op:
    return op(("Div", "Mul"), numerator, const("six"), commutative=True, name="scaled")


def _requirements(m: Match, readers: tuple[tuple[str, str], ...]) -> Iterator[Reject]:
    for node, reader in readers:
        yield from only_read_by(m.node(node).output, m.node(reader))
    scaled = m.node("scaled")
    yield from formula_of(m["x"], scaled)
    divided = scaled.op_type == "Div" and scaled.operand(1) is m["six"]
    for name, wanted in (("three", 3.0), ("low", 0.0), ("high", 6.0), ("six", 6.0 if divided else 1 / 6)):
        yield from constant_is(m[name], wanted)


class HardSigmoid(
    Fusion, switch="HardSigmoidFusionPass", stage=Stage.PREPARE, after=("PrunePass",), makes=("HardSigmoid",)
):
    """Replace Clip(x + 3, 0, 6) / 6 by HardSigmoid."""

    pattern = _by_six(_RELU6)

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from _requirements(m, (("shift", "clip"), ("clip", "scaled")))

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.insert("HardSigmoid", m["x"], alpha=1 / 6, beta=0.5)


class HardSwishRelu6(
    Fusion, switch="HardSwishRelu6FusionPass", stage=Stage.PREPARE, after=("PrunePass",), makes=("HardSwish",)
):
    """Replace x · Clip(x + 3, 0, 6) / 6 by HardSwish."""

    pattern = _by_six(op("Mul", var("x"), _RELU6, commutative=True, name="gated"))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from _requirements(m, (("shift", "clip"), ("clip", "gated"), ("gated", "scaled")))

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.insert("HardSwish", m["x"])


class HardSwish(
    Fusion, switch="HardSwishFusionPass", stage=Stage.PREPARE, after=("HardSigmoidFusionPass",), makes=("HardSwish",)
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
        return rw.insert("HardSwish", m["x"])
