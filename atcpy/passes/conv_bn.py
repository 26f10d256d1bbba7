"""What the passes that take a BatchNormalization into the Conv before it have in common.

BN(Conv(x, w, b))  =  k · Conv(x, w) + (b − mean)·k + beta,   k = gamma / √(var + ε)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atcpy.ir import Match, Reject
from atcpy.ir.pattern import const, op, var
from atcpy.ir.tensor import Array
from atcpy.passes.fusion import only_read_by

CONV_BN = op(
    "BatchNormalization",
    op("Conv", var("x"), const("w"), const("b", optional=True), name="conv"),
    const("gamma"),
    const("beta"),
    const("mean"),
    const("var"),
    name="bn",
)


def continues_conv(m: Match) -> Iterator[Reject]:
    """Reasons against taking the BatchNormalization into the Conv."""
    bn = m.node("bn")
    yield from only_read_by(m.node("conv").output, bn)
    if bn.int_attr("training_mode", 0):
        yield Reject("training-mode", bn.name)


def factor_and_bias(m: Match) -> tuple[Array, Array]:
    """k and the new bias, in float64."""
    gamma, beta, mean, var_ = (m[name].array.astype(np.float64) for name in ("gamma", "beta", "mean", "var"))
    b = m.get("b")
    bias = 0.0 if b is None else b.array.astype(np.float64)
    k = gamma / np.sqrt(var_ + m.node("bn").float_attr("epsilon", 1e-5))
    return k, (bias - mean) * k + beta
