"""Name the gated activations that exporters spell out.

x · Sigmoid(x)  →  Swish(x)
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import op, var
from atcpy.options import Stage
from atcpy.passes.fusion import Fusion, only_read_by


class Swish(Fusion, switch="SwishFusionPass", stage=Stage.PREPARE, after=("PrunePass",), makes=("Swish",)):
    """Replace x · Sigmoid(x) by Swish."""

    pattern = op("Mul", var("x"), op("Sigmoid", var("x"), name="sigmoid"), commutative=True, name="mul")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from only_read_by(m.node("sigmoid").output, m.node("mul"))

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.insert("Swish", m["x"], alpha=1.0)
