"""Multiply matrices of integers: what exporters write as floats between DequantizeLinear and QuantizeLinear.

QuantizeLinear(MatMul(DequantizeLinear(x), DequantizeLinear(w)))   →  QLinearMatMul(x, w)
QuantizeLinear(Gemm(DequantizeLinear(x), DequantizeLinear(w), b))  →  QGemm(x, w, round(b / (x_scale · w_scale)))

As in `qlinear_conv.py`, a result may lie one step away: the sums of floats are rounded, these are exact.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import op, var
from atcpy.passes.fusion import Fusion
from atcpy.passes.phase import Phase
from atcpy.passes.prepare.quantised.qlinear_conv import (
    bias_requirements,
    bias_value,
    dequantized,
    product_requirements,
    quantized,
)
from atcpy.passes.quantization_params import step_values


class QLinearMatMul(
    Fusion,
    switch="QLinearMatMulFusionPass",
    phase=Phase.QUANTISE,
    after=("RequantizeEliminationPass",),
    is_neutral=False,
):
    """Multiply matrices of integers between DequantizeLinear and QuantizeLinear."""

    pattern = quantized(op("MatMul", dequantized("x"), dequantized("w"), name="matmul"))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from product_requirements(m, m.node("matmul"), -1)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        (x_scale, x_zero), (w_scale, w_zero), (y_scale, y_zero) = (
            step_values(m.node(name), rw) for name in ("x_node", "w_node", "y_node")
        )
        return rw.op("QLinearMatMul", m["x"], x_scale, x_zero, m["w"], w_scale, w_zero, y_scale, y_zero)


class QGemm(
    Fusion, switch="QGemmFusionPass", phase=Phase.QUANTISE, after=("RequantizeEliminationPass",), is_neutral=False
):
    """Multiply matrices of integers and add a bias between DequantizeLinear and QuantizeLinear."""

    pattern = quantized(op("Gemm", dequantized("x"), dequantized("w"), var("b", optional=True), name="gemm"))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        gemm = m.node("gemm")
        turned = gemm.int_attr("transB", 0)
        rejects = list(product_requirements(m, gemm, 0 if turned else 1))
        if m["w"].tensor is None:
            rejects.append(Reject("weights-not-constant", gemm.name))
        if gemm.int_attr("transA", 0) or (gemm.float_attr("alpha", 1.0), gemm.float_attr("beta", 1.0)) != (1.0, 1.0):
            rejects.append(Reject("scaled-or-transposed", gemm.name))
        yield from rejects
        if not rejects:
            yield from bias_requirements(m, m["w"].desc.static_shape[0 if turned else 1])

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        (x_scale, x_zero), (w_scale, w_zero), (y_scale, y_zero) = (
            step_values(m.node(name), rw) for name in ("x_node", "w_node", "y_node")
        )
        w = m["w"]
        if m.node("gemm").int_attr("transB", 0):
            w = rw.const(np.ascontiguousarray(w.array.T), like=w)
        operands = [m["x"], x_scale, x_zero, w, w_scale, w_zero, bias_value(m, rw), y_scale, y_zero]
        return rw.op("com.microsoft::QGemm", *operands)
