"""Name sums of squares and their roots, and write a product with the reciprocal of such a root as a quotient.

ReduceSum(x²)                   →  ReduceSumSquare(x)
√ ReduceSum(x²)                 →  ReduceL2(x)
x · 1/√ max(ReduceSum(x²), ε)   →  x / max(ReduceL2(x), √ε),   TensorFlow's l2_normalize

None of them is LpNormalization: that gives 0 for a row of zeros, where a quotient without ε is NaN, and one of length 1
for a row that is shorter than ε.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, sqrt

from atcpy.ir import DType, Match, Reject, Rewriter, Value
from atcpy.ir.pattern import const, either, op, var
from atcpy.passes.formula import number
from atcpy.passes.fusion import Fusion, constant_is, only_read_within

_SQUARE = either(op("Mul", var("x"), var("x"), name="square"), op("Pow", var("x"), const("two"), name="square"))
_OF_SQUARES = op("ReduceSum", _SQUARE, const("axes"), name="sum")
_SUM = either(_OF_SQUARES, op("ReduceSumSquare", var("x"), const("axes"), name="sum"))
_CLAMPED = either(
    op("Max", _SUM, const("epsilon"), commutative=True, name="floor"),
    op("Clip", _SUM, const("epsilon"), name="floor"),
    _SUM,
)


class _OfSquares(Fusion):
    """What the three passes below share."""

    creates = "ReduceL2"

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from only_read_within(m, m.root)
        if m["x"].desc.dtype not in (DType.FLOAT32, DType.FLOAT64):
            yield Reject("dtype", m.root.name, m["x"].desc.dtype.long)
        if not m["axes"].desc.elements:
            yield Reject("other-axes", m.node("sum").name)
        for name, required in (("two", 2.0), ("half", 0.5)):
            if name in m.values:
                yield from constant_is(m[name], required)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.op(self.creates, m["x"], m["axes"], keepdims=m.node("sum").int_attr("keepdims", 1))


class SumSquare(
    _OfSquares,
    switch="ReduceSumSquareFusionPass",
    after=("RMSNormFusionPass", "L2NormalizeFusionPass", "ReduceL2FusionPass"),
    makes=("ReduceSumSquare",),
):
    """Replace a sum of squares by ReduceSumSquare."""

    creates = "ReduceSumSquare"
    pattern = _OF_SQUARES


class L2(
    _OfSquares, switch="ReduceL2FusionPass", after=("RMSNormFusionPass", "L2NormalizeFusionPass"), makes=("ReduceL2",)
):
    """Replace the root of a sum of squares by ReduceL2."""

    pattern = op("Sqrt", _SUM, name="root"), op("Pow", _SUM, const("half"), name="root")


class L2Normalize(_OfSquares, switch="L2NormalizeFusionPass", after=("RMSNormFusionPass",), makes=("ReduceL2",)):
    """Divide by the root of a sum of squares instead of multiplying by its reciprocal."""

    pattern = op(
        "Mul",
        var("y"),
        op("Reciprocal", op("Sqrt", _CLAMPED, name="root"), name="reciprocal"),
        commutative=True,
        name="product",
    )

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from super().meet_requirements(m)
        epsilon = m.get("epsilon")
        if epsilon is not None:
            adds_dims = len(epsilon.desc.static_shape) > len(m.node("sum").output.desc.shape or ())
            if adds_dims or not 0 <= number(epsilon) < inf:
                yield Reject("other-constant", epsilon.name, "is not one number from 0 on")

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        length = super().replacement(m, rw)
        if "epsilon" in m.values:
            epsilon = rw.const(sqrt(number(m["epsilon"])), like=m["epsilon"])
            length = rw.op("Max", length, epsilon)
        return rw.op("Div", m["y"], length)
