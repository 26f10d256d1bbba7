"""Name Relu and Clip where a model writes them as minima and maxima, and join those that follow each other.

Max(x, 0)                  →  Relu(x)
Clip(Clip(x, a, b), c, d)  →  Clip(x, max(a, c), min(b, d)),   c ≤ b

where Relu is a Clip with the bounds 0 and ∞, Max one without an upper bound and Min one without a lower.
No Clip comes of those alone that lacks a bound: runtimes put the largest number in its place, which ∞ is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isnan

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import const, either, op, var
from atcpy.passes.formula import Formula, is_formula, number
from atcpy.passes.fusion import Fusion

_X = var("x")
_A, _B, _C, _D = (const(name, optional=True) for name in "abcd")
_INNER = either(
    op("Relu", _X, name="inner"),
    op("Clip", _X, _A, _B, name="inner"),
    op(("Min", "Max"), _X, const("a"), commutative=True, name="inner"),
)


class Relu(Formula, switch="ReluFusionPass", creates="Relu", constants={"zero": 0.0}):
    """Replace Max(x, 0) by Relu."""

    pattern = op("Max", _X, const("zero"), commutative=True)


class Clip(Fusion, switch="ClipFusionPass", after=("ReluFusionPass",), makes=("Clip", "Max", "Min", "Relu")):
    """Join two of Relu, Clip, Min and Max with constants to one."""

    pattern = (
        op("Relu", _INNER, name="outer"),
        op("Clip", _INNER, _C, _D, name="outer"),
        op(("Min", "Max"), _INNER, const("c"), commutative=True, name="outer"),
    )

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from is_formula(m)
        (low, high), (low_after, high_after) = _bounds(m, "inner", "a", "b"), _bounds(m, "outer", "c", "d")
        if any(map(isnan, (low, high, low_after, high_after))):
            yield Reject("bound-not-scalar", m.root.name)
        if low_after > high:
            yield Reject("other-constant", m.root.name, f"{low_after:.7g} is above {high:.7g}")

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        bounds = zip(_bounds(m, "inner", "a", "b"), _bounds(m, "outer", "c", "d"), strict=True)
        (low, low_after), (high, high_after) = bounds
        low, high = max(low, low_after), min(high, high_after)
        if "Clip" in (m.node("inner").op_type, m.node("outer").op_type) or (-inf < low and high < inf):
            limits = [None if abs(bound) == inf else rw.const(bound, dtype=m["x"].desc.dtype) for bound in (low, high)]
            return rw.op("Clip", m["x"], *limits)
        if (low, high) == (0.0, inf):
            return rw.op("Relu", m["x"])
        kind, bound = ("Max", low) if high == inf else ("Min", high)
        return rw.op(kind, m["x"], rw.const(bound, dtype=m["x"].desc.dtype))


def _bounds(m: Match, name: str, low: str, high: str) -> tuple[float, float]:
    """What a matched node cuts off: below, above."""
    bounds = -inf if m.get(low) is None else number(m[low]), inf if m.get(high) is None else number(m[high])
    kind = m.node(name).op_type
    if kind == "Relu":
        return 0.0, inf
    return (-inf, bounds[0]) if kind == "Min" else bounds
