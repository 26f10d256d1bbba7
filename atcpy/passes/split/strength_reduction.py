"""Cheaper ops for powers and quotients, after all patterns that look for the dear ones.

Pow(x, −1)   →  Reciprocal(x)    both are the quotient 1/x, rounded once
Pow(x, ½)    →  Sqrt(x)          x ≥ 0 only: of −∞ and −0 they differ
x / 2ⁿ       →  x · 2⁻ⁿ          exact wherever 2⁻ⁿ is a normal number: the same real number is rounded

Squares and cubes stay Pow: its kernel multiplies. By any other constant a division stays: the product would be off
by a rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import frexp, isfinite

import numpy as np

from atcpy.ir import DType, Match, Reject, Rewriter, Value
from atcpy.ir.pattern import const, op, var
from atcpy.ops import Trait, has_trait
from atcpy.passes.formula import is_function_of, number
from atcpy.passes.fusion import Fusion, constant_is
from atcpy.passes.phase import Phase

_X = var("x")
_WHOLE = frozenset({DType.FLOAT32, DType.FLOAT64})


class PowReciprocal(Fusion, switch="PowReciprocalFusionPass", phase=Phase.STRENGTH):
    """Replace x to the power −1 by Reciprocal."""

    pattern = op("Pow", _X, const("power"))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from is_function_of(m["x"], m.root, [m["power"]])
        yield from constant_is(m["power"], -1.0)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.op("Reciprocal", m["x"])


class PowSqrt(Fusion, switch="PowSqrtFusionPass", phase=Phase.STRENGTH):
    """Replace x to the power ½ by Sqrt, where x is not negative."""

    pattern = op("Pow", _X, const("power"))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from is_function_of(m["x"], m.root, [m["power"]])
        yield from constant_is(m["power"], 0.5)
        producer = m["x"].producer
        # Relu may give −0, whose root is −0 and whose power is +0.
        if not has_trait(producer, Trait.NON_NEGATIVE) or producer.op_type == "Relu":
            yield Reject("sign-unknown", m.root.name, m["x"].name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.op("Sqrt", m["x"])


class DivPowerOfTwo(Fusion, switch="DivToMulFusionPass", phase=Phase.STRENGTH):
    """Replace a division by a power of two by a product."""

    pattern = op("Div", _X, const("divisor"))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        dtype = m["x"].desc.dtype
        if dtype not in _WHOLE:
            yield Reject("dtype", m.root.name, dtype.long)
            return
        yield from is_function_of(m["x"], m.root, [m["divisor"]])
        if not _has_exact_inverse(number(m["divisor"]), dtype):
            yield Reject("other-constant", m["divisor"].name, "is not a power of two with an inverse")

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        inverse = 1 / np.asarray(m["divisor"].array, np.float64)
        return rw.op("Mul", m["x"], rw.const(inverse, like=m["divisor"]))


def _has_exact_inverse(divisor: float, dtype: DType) -> bool:
    """True for ±2ⁿ whose inverse is a normal number of the type."""
    if not isfinite(divisor) or abs(frexp(divisor)[0]) != 0.5:
        return False
    limits = np.finfo(np.float32 if dtype is DType.FLOAT32 else np.float64)
    return bool(limits.tiny <= abs(1 / divisor) <= limits.max)
