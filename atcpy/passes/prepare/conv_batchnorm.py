"""Fold an inference BatchNormalization into the Conv that feeds it.

BN(Conv(x, w, b))  →  Conv(x, w·k, (b − mean)·k + beta),   k = gamma / √(var + ε)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import const, op, var
from atcpy.options import Stage
from atcpy.passes.fusion import Fusion, only_read_by


class ConvBatchnorm(Fusion, switch="ConvBatchnormFusionPass", stage=Stage.PREPARE, after=("PrunePass",)):
    """Fold BatchNormalization into Conv."""

    pattern = op(
        "BatchNormalization",
        op("Conv", var("x"), const("w"), const("b", optional=True), name="conv"),
        const("gamma"),
        const("beta"),
        const("mean"),
        const("var"),
        name="bn",
    )

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        bn = m.node("bn")
        yield from only_read_by(m.node("conv").output, bn)
        if bn.int_attr("training_mode", 0):
            yield Reject("training-mode", bn.name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        # float64: k·w rounded once keeps the result within the model's own precision.
        gamma, beta, mean, var_, w = (m[n].array.astype(np.float64) for n in ("gamma", "beta", "mean", "var", "w"))
        b = m.get("b")
        bias = 0.0 if b is None else b.array.astype(np.float64)
        k = gamma / np.sqrt(var_ + m.node("bn").float_attr("epsilon", 1e-5))
        scaled = w * k.reshape(-1, *[1] * (w.ndim - 1))
        return rw.insert(
            "Conv",
            m["x"],
            rw.const(scaled, like=m["w"]),
            rw.const((bias - mean) * k + beta, like=m["beta"], dtype=m["w"].desc.dtype),
            **m.node("conv").attrs,
        )
