"""Fold the addition of a constant per channel into the bias of the Conv before it.

Conv(x, w, b) + c  →  Conv(x, w, b + c),   c of shape [M, 1, 1] or [1, M, 1, 1]
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import const, op, var
from atcpy.options import Stage
from atcpy.passes.fusion import Fusion, only_read_by


class ConvBias(Fusion, switch="ConvBiasAddFusionPass", stage=Stage.PREPARE, after=("ConvBatchnormFusionPass",)):
    """Fold a constant added per channel into the Conv's bias."""

    pattern = op(
        "Add",
        op("Conv", var("x"), const("w"), const("b", optional=True), name="conv"),
        const("c"),
        commutative=True,
        name="add",
    )

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        conv, add = m.node("conv"), m.node("add")
        yield from only_read_by(conv.output, add)
        rank, channels = len(m["w"].desc.static_shape), m["w"].desc.static_shape[0]
        shape = m["c"].desc.static_shape
        per_channel = (channels, *[1] * (rank - 2))
        if shape[-(rank - 1) :] != per_channel or any(dim != 1 for dim in shape[: -(rank - 1)]) or len(shape) > rank:
            yield Reject("not-per-channel", add.name, str(list(shape)))

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        b, c = m.get("b"), m["c"].array.reshape(-1)
        bias = c if b is None else b.array + c
        return rw.insert("Conv", m["x"], m["w"], rw.const(bias, like=b or m["c"]), **m.node("conv").attrs)
