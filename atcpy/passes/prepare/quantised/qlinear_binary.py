"""Add and multiply quantised bytes in one kernel.

QuantizeLinear(Add(DequantizeLinear(a), DequantizeLinear(b)))  →  QLinearAdd(a, b)
QuantizeLinear(Mul(DequantizeLinear(a), DequantizeLinear(b)))  →  QLinearMul(a, b)

The kernel does the same arithmetic, without the floats in memory: this is exact.
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import op
from atcpy.passes.fusion import Fusion, only_read_by
from atcpy.passes.phase import Phase
from atcpy.passes.prepare.quantised.qlinear_conv import dequantized, quantized
from atcpy.passes.quantization_params import rejects_bytes, rejects_steps, step_values


class QLinearBinary(
    Fusion,
    switch="QLinearBinaryFusionPass",
    phase=Phase.QUANTISE,
    after=("RequantizeEliminationPass",),
    is_neutral=False,
):
    """Add and multiply bytes between DequantizeLinear and QuantizeLinear."""

    pattern = quantized(op(("Add", "Mul"), dequantized("x"), dequantized("w"), name="binary"))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from only_read_by(m.node("binary").output, m.node("y_node"))
        for name in ("x_node", "w_node", "y_node"):
            yield from rejects_bytes(m.node(name))
            yield from rejects_steps(m.node(name))

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        (a_scale, a_zero), (b_scale, b_zero), (y_scale, y_zero) = (
            step_values(m.node(name), rw) for name in ("x_node", "w_node", "y_node")
        )
        operands = [m["x"], a_scale, a_zero, m["w"], b_scale, b_zero, y_scale, y_zero]
        return rw.op(f"com.microsoft::QLinear{m.node('binary').op_type}", *operands)
