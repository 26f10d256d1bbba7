"""Turn constant weights that a product reads transposed, once and for all.

Gemm(a, w, c) {transB=1}  →  Gemm(a, wᵀ, c) {transB=0}
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import const, op, var
from atcpy.passes.fusion import Fusion
from atcpy.passes.phase import Phase


class TransposeWeights(Fusion, switch="TransposeWeightsPass", phase=Phase.FINISH):
    """Transpose constant weights of Gemm, so that they can be stored as its kernel reads them."""

    pattern = op("Gemm", var("a"), const("w"), var("c", optional=True), name="gemm")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        gemm = m.node("gemm")
        if not gemm.int_attr("transB", 0):
            yield Reject("not-transposed", gemm.name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        w, c = m["w"], m.get("c")
        turned = rw.const(np.ascontiguousarray(w.array.T), like=w)
        inputs = [m["a"], turned] if c is None else [m["a"], turned, c]
        return rw.op("Gemm", *inputs, **(m.node("gemm").attrs | {"transB": 0}))
