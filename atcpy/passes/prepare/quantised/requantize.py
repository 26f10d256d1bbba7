"""Integers that become floats and the same integers again.

QuantizeLinear(DequantizeLinear(x, s, z), s, z)  →  x
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import op, var
from atcpy.passes.fusion import Fusion
from atcpy.passes.phase import Phase
from atcpy.passes.quantization_params import rejects_steps, steps_of


class RemoveRequantize(
    Fusion, switch="RequantizeEliminationPass", phase=Phase.QUANTISE, after=("QuantizeClipFusionPass",)
):
    """Remove QuantizeLinear where it undoes the DequantizeLinear before it."""

    pattern = op(
        "QuantizeLinear",
        op("DequantizeLinear", var("x"), var("s"), var("z", optional=True), name="dequantize"),
        var("scale"),
        var("zero", optional=True),
        name="quantize",
    )

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        nodes = m.node("dequantize"), m.node("quantize")
        rejects = [reject for node in nodes for reject in rejects_steps(node)]
        yield from rejects
        if not rejects and not steps_of(nodes[0]).same_as(steps_of(nodes[1])):
            yield Reject("other-scale", nodes[1].name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return m["x"]
