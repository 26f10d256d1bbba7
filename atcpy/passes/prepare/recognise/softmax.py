"""Name the Softmax and LogSoftmax that exporters spell out.

e / ΣE,  e = Exp(d), d = x − ReduceMax(x)   →  Softmax(x)
d − Log(Σ Exp(d));  x − ReduceLogSumExp(x)  →  LogSoftmax(x)

Without taking off the largest, Exp overflows: that is another function. So is Log(Softmax(x)): what is too small for a
float is −∞ there.
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import DType, Match, Reject, Rewriter, Value
from atcpy.ir.pattern import Pattern, const, op, var
from atcpy.passes.fusion import Fusion, only_read_within

_X = var("x")
_APART = op("Sub", _X, op("ReduceMax", _X, const("axis"), name="largest"), name="apart")


def _sum(of: Pattern) -> Pattern:
    return op("ReduceSum", op("Exp", of, name="exp"), const("axis of sum"), name="sum")


def _axis(m: Match, reduction: str) -> int | None:
    """Return the one axis that a reduction is over and keeps; None if there are several, or it drops them."""
    node, shape = m.node(reduction), m["x"].desc.shape
    axes = node.operand(1).array.reshape(-1)
    if shape is None or len(axes) != 1 or not node.int_attr("keepdims", 1):
        return None
    return int(axes[0]) % len(shape)


class _OverOneAxis(Fusion):
    """What the two passes below share."""

    creates: str

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        y, dtype = m.node("y"), m["x"].desc.dtype
        yield from only_read_within(m, y)
        if dtype not in (DType.FLOAT32, DType.FLOAT64):
            yield Reject("dtype", y.name, dtype.long)
        axes = {_axis(m, name) for name in ("largest", "sum", "both") if name in m.nodes}
        if len(axes) > 1 or None in axes:
            yield Reject("other-axes", y.name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.op(self.creates, m["x"], axis=_axis(m, "both" if "both" in m.nodes else "sum"))


class Softmax(_OverOneAxis, switch="SoftmaxFusionPass", before=("AttentionFusionPass",), makes=("Softmax",)):
    """Replace Exp(x − max) / Σ Exp(x − max) by Softmax."""

    creates = "Softmax"
    pattern = tuple(
        spelling
        for of in (_APART, _X)
        for spelling in (
            op("Div", op("Exp", of, name="exp"), _sum(of), name="y"),
            op(
                "Mul", op("Exp", of, name="exp"), op("Reciprocal", _sum(of), name="inverse"), commutative=True, name="y"
            ),
        )
    )

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from super().meet_requirements(m)
        if "apart" not in m.nodes:
            yield Reject("other-formula", m.node("exp").name, "the largest is not taken off")


class LogSoftmax(_OverOneAxis, switch="LogSoftmaxFusionPass", after=("SoftmaxFusionPass",), makes=("LogSoftmax",)):
    """Replace x − log Σ Exp(x) by LogSoftmax."""

    creates = "LogSoftmax"
    pattern = (
        op("Sub", _APART, op("Log", _sum(_APART), name="log"), name="y"),
        op("Sub", _X, op("ReduceLogSumExp", _X, const("axis"), name="both"), name="y"),
    )
