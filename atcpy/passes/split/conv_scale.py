"""Let weights of 16 bits stay as they are where a BatchNormalization follows: its factor is a scale.

BN(Conv(x, w, b))  →  FusedConv(x, w, (b − mean)·k + beta, , k),   k = gamma / √(var + ε)

The kernel multiplies while it widens, in float32: neither a second rounding nor overflow.
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import DType, Engine, Match, Reject, Rewriter, Value
from atcpy.ops.half import HALF_DTYPES
from atcpy.options import Stage
from atcpy.passes.conv_bn import CONV_BN, continues_conv, factor_and_bias
from atcpy.passes.fusion import Fusion
from atcpy.passes.split.assign_engines import place


class ConvScale(Fusion, switch="ConvScaleFusionPass", stage=Stage.SPLIT, after=("InsertCastPass",)):
    """Make BatchNormalization a scale of a Conv's 16-bit weights."""

    pattern = CONV_BN

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        conv = m.node("conv")
        yield from continues_conv(m)
        engine, reasons = place(conv)
        if engine is not Engine.AICORE:
            yield from reasons
        elif m["w"].desc.dtype not in HALF_DTYPES:
            yield Reject("dtype", conv.name, m["w"].desc.dtype.long)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        k, bias = factor_and_bias(m)
        wide_bias = rw.const(bias, like=m["beta"], dtype=DType.FLOAT32)
        scale = rw.const(k, like=m["gamma"], dtype=DType.FLOAT32)
        return rw.op("FusedConv", m["x"], m["w"], wide_bias, None, scale, **m.node("conv").attrs)
