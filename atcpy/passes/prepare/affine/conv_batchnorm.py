"""Take into a convolution what follows it channel by channel.

k · Conv(x, w, b) + c  →  Conv(x, k·w, k·b + c)

where k and c are those of a BatchNormalization, k = gamma / √(var + ε) and c = beta − mean·k, or of products and sums
with constants. ConvTranspose likewise. Weights of 16 bits would be rounded a second time: `ConvScaleFusionPass` gives
them a factor instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import var
from atcpy.passes.affine import Affine, added, affine_of, cube, joint_requirements, multiplied, normalized
from atcpy.passes.fusion import Fusion
from atcpy.passes.phase import Phase
from atcpy.passes.prepare.affine.product_weights import (
    CONVS,
    as_weights,
    channels_of,
    lender,
    scale_outputs,
    weight_requirements,
    weights_of,
)

_CONV = cube(CONVS, var("x"))


class _Behind:
    """What the three passes below share."""

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from joint_requirements(m, m.node("cube"), m.node("affine"))
        yield from weight_requirements(m, m.once(self._affine))

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        conv, b, affine = m.node("cube"), m.get("b"), m.once(self._affine)
        assert affine is not None
        w, bias = m["w"], affine.behind(b)
        if (affine.k != 1).any():
            w = rw.const(as_weights(conv, scale_outputs(weights_of(conv), affine.k)), like=w)
        if b is None and affine.is_scale:
            return rw.op(conv.op_type, m["x"], w, **conv.attrs)
        return rw.op(conv.op_type, m["x"], w, rw.const(bias, like=lender(m), dtype=w.desc.dtype), **conv.attrs)

    @staticmethod
    def _affine(m: Match) -> Affine | None:
        rank = len(m["w"].desc.static_shape)
        return affine_of(m, channels_of(m.node("cube"))[1], rank - 2, rank)


class ConvBatchnorm(_Behind, Fusion, switch="ConvBatchnormFusionPass", phase=Phase.ABSORB, repeats=True):
    """Fold BatchNormalization into Conv."""

    pattern = normalized(_CONV)


class ConvMul(
    _Behind, Fusion, switch="ConvMulFusionPass", phase=Phase.ABSORB, after=("ConvBatchnormFusionPass",), repeats=True
):
    """Fold a constant factor per channel into the Conv's weights."""

    pattern = multiplied(_CONV)


class ConvBias(
    _Behind, Fusion, switch="ConvBiasAddFusionPass", phase=Phase.ABSORB, after=("ConvMulFusionPass",), repeats=True
):
    """Fold a constant added per channel into the Conv's bias."""

    pattern = added(_CONV)
