"""Pick one element along a dim and keep the dim: what exporters write for a size among others.

Unsqueeze(Gather(x, i, axis), axis)  →  Gather(x, [i], axis)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import const, op, var
from atcpy.passes.fusion import Fusion, only_read_by
from atcpy.passes.phase import Phase


class GatherUnsqueeze(
    Fusion,
    switch="GatherUnsqueezeFusionPass",
    phase=Phase.MOVE,
    after=("ShapeSubgraphPass",),
    before=("TransposeReshapeMergePass",),
    repeats=True,
):
    """Gather with a list of one index instead of a scalar index and an Unsqueeze."""

    pattern = op(
        ("Unsqueeze", "Reshape"), op("Gather", var("x"), const("index"), name="gather"), const("axes"), name="view"
    )

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        gather, view = m.node("gather"), m.node("view")
        yield from only_read_by(gather.output, view)
        shape = m["x"].desc.shape
        axis = gather.int_attr("axis", 0)
        if shape is None or m["index"].desc.shape != () or view.output.desc.shape != _kept(shape, axis):
            yield Reject("other-axes", view.name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        index = rw.const(np.reshape(m["index"].array, 1), like=m["index"])
        return rw.op("Gather", m["x"], index, **m.node("gather").attrs)


def _kept(shape: tuple[object, ...], axis: int) -> tuple[object, ...]:
    """The shape with one element along a dim."""
    at = axis % len(shape)
    return (*shape[:at], 1, *shape[at + 1 :])
