"""Quantise before clipping, which is then done by saturation, or on integers.

QuantizeLinear(Relu(x))  →  QuantizeLinear(x),               where the zero point is the least integer
QuantizeLinear(Clip(x))  →  Clip(QuantizeLinear(x), q(low), q(high))

Rounding keeps order, so that it does not matter which comes first: this is exact.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import const, op, var
from atcpy.passes.fusion import Fusion, only_read_by
from atcpy.passes.phase import Phase
from atcpy.passes.quantization_params import rejects_bytes, rejects_steps, steps_of


class QuantizeClip(
    Fusion, switch="QuantizeClipFusionPass", phase=Phase.QUANTISE, after=("QuantizedMovePass",), is_neutral=False
):
    """Clip integers, or let them saturate, in the place of floats."""

    pattern = op(
        "QuantizeLinear",
        op(("Relu", "Clip"), var("x"), const("low", optional=True), const("high", optional=True), name="clip"),
        var("scale"),
        var("zero", optional=True),
        name="quantize",
    )

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        quantize = m.node("quantize")
        yield from only_read_by(m.node("clip").output, quantize)
        yield from rejects_bytes(quantize)
        yield from rejects_steps(quantize)
        for bound in (m.get("low"), m.get("high")):
            if bound is not None and bound.desc.elements != 1:
                yield Reject("bound-not-scalar", m.node("clip").name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        quantize, clip = m.node("quantize"), m.node("clip")
        steps = steps_of(quantize)
        numbers = [None if (value := m.get(name)) is None else float(value.array.item()) for name in ("low", "high")]
        if clip.op_type == "Relu":
            numbers = [0.0, None]
        q = rw.op("QuantizeLinear", m["x"], m["scale"], m.get("zero"), **quantize.attrs)
        bounds = [None if number is None else steps.quantize(number) for number in numbers]
        info = np.iinfo(steps.zero.dtype)
        if all(bound is None or bound == end for bound, end in zip(bounds, (info.min, info.max), strict=True)):
            return q
        limits = [None if bound is None else rw.const(bound, name=f"{clip.name}_bound") for bound in bounds]
        return rw.op("Clip", q, *limits)
