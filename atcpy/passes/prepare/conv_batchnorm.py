"""Fold an inference BatchNormalization into the Conv that feeds it.

BN(Conv(x, w, b))  →  Conv(x, w·k, (b − mean)·k + beta),   k = gamma / √(var + ε)

Weights of 16 bits would be rounded a second time: `ConvScaleFusionPass` gives them a factor instead.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ops.half import HALF_DTYPES
from atcpy.options import Stage
from atcpy.passes.conv_bn import CONV_BN, continues_conv, factor_and_bias
from atcpy.passes.fusion import Fusion


class ConvBatchnorm(Fusion, switch="ConvBatchnormFusionPass", stage=Stage.PREPARE, after=("PrunePass",)):
    """Fold BatchNormalization into Conv."""

    pattern = CONV_BN

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from continues_conv(m)
        if m["w"].desc.dtype in HALF_DTYPES:
            yield Reject("weights-rounded", m.node("bn").name, m["w"].desc.dtype.long)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        # float64: k·w rounded once keeps the result within the model's own precision.
        k, bias = factor_and_bias(m)
        w = m["w"].array.astype(np.float64)
        return rw.insert(
            "Conv",
            m["x"],
            rw.const(w * k.reshape(-1, *[1] * (w.ndim - 1)), like=m["w"]),
            rw.const(bias, like=m["beta"], dtype=m["w"].desc.dtype),
            **m.node("conv").attrs,
        )
