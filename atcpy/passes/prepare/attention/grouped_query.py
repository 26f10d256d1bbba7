"""Let Attention share heads of keys and values among heads of queries, where a model repeats them.

Attention(q, r(k), r(v))  →  Attention(q, k, v),   r(x) = Reshape(Expand(Unsqueeze(x, 2)))
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import Op, op, var
from atcpy.ops.core.shape_values import UNNAMED
from atcpy.passes.fusion import Fusion
from atcpy.passes.layout_chain import VIEWS


def _repeated(name: str) -> Op:
    repeated = op("Expand", var(name), var(f"{name} repeats"), name=f"{name} repeated")
    return op("Reshape", repeated, var(f"{name} dims"), name=f"{name} heads")


class AttentionGroups(
    Fusion,
    switch="AttentionGroupsFusionPass",
    after=("AttentionFusionPass",),
    before=("AttentionHeadsFusionPass",),
    makes=("Attention",),
):
    """Let Attention read keys and values that are repeated for heads of queries."""

    pattern = op("Attention", var("q"), _repeated("k"), _repeated("v"), var("mask", optional=True), name="attention")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        if not all(_repeats_heads(m, name) for name in ("k", "v")):
            yield Reject("heads", m.root.name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.op("Attention", m["q"], _once(m["k"], rw), _once(m["v"], rw), m.get("mask"), **m.root.attrs)


def _repeats_heads(m: Match, name: str) -> bool:
    """Whether [batch, heads, 1, rows, size] is repeated along the third dim, which becomes part of the second."""
    once, repeated = m[name].desc.shape, m.node(f"{name} repeated").output.desc.shape
    if once is None or len(once) != 5 or repeated is None or UNNAMED in repeated:
        return False
    batch, groups, one, *matrix = once
    times = repeated[2]
    if not isinstance(groups, int) or not isinstance(times, int):
        return False
    heads = m.node(f"{name} heads").output.desc.shape
    return one == 1 and repeated == (batch, groups, times, *matrix) and heads == (batch, groups * times, *matrix)


def _once(value: Value, rw: Rewriter) -> Value:
    """Return [batch, heads, rows, size] of a value with a dim of 1 behind its heads."""
    shape, view = value.desc.shape or (), value.producer
    if view.op_type in VIEWS and view.operand(0).desc.shape == (*shape[:2], *shape[3:]):
        return view.operand(0)
    return rw.op("Squeeze", value, rw.const([2]))
