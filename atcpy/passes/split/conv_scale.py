"""Let weights of 16 bits stay as they are where a BatchNormalization follows: its factor is a scale.

BN(Conv(x, w, b))  →  FusedConv(x, w, k·b + c, , k),   k = gamma / √(var + ε),   c = beta − mean·k

The kernel multiplies while it widens, in float32: neither a second rounding nor overflow.
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import DType, Engine, Match, Reject, Rewriter, Value
from atcpy.ir.pattern import var
from atcpy.ops.core.half import HALF_DTYPES
from atcpy.passes.affine import Affine, affine_of, affine_requirements, cube, joint_requirements, normalized
from atcpy.passes.fusion import Fusion
from atcpy.passes.phase import Phase
from atcpy.passes.split.assign_engines import choose_engine


class ConvScale(Fusion, switch="ConvScaleFusionPass", phase=Phase.OPERANDS):
    """Make BatchNormalization a scale of a Conv's 16-bit weights."""

    pattern = normalized(cube(("Conv",), var("x")))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        conv, bn = m.node("cube"), m.node("affine")
        yield from joint_requirements(m, conv, bn)
        yield from affine_requirements(bn, m.once(self._affine))
        engine, reasons = choose_engine(conv)
        if engine is not Engine.AICORE:
            yield from reasons
        elif m["w"].desc.dtype not in HALF_DTYPES:
            yield Reject("dtype", conv.name, m["w"].desc.dtype.long)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        affine = m.once(self._affine)
        assert affine is not None
        bias = rw.const(affine.behind(m.get("b")), like=m["affine.beta"], dtype=DType.FLOAT32)
        scale = rw.const(affine.k, like=m["affine.gamma"], dtype=DType.FLOAT32)
        return rw.op("FusedConv", m["x"], m["w"], bias, None, scale, **m.node("cube").attrs)

    @staticmethod
    def _affine(m: Match) -> Affine | None:
        shape = m["w"].desc.static_shape
        return affine_of(m, shape[0], len(shape) - 2, len(shape))
