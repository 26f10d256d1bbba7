"""Scale the sums of a product of integers, and add a bias, where they are computed.

Mul(Cast(MatMulInteger(x, w, …)), Mul(x_scale, w_scale))          →  MatMulIntegerToFloat(x, w, x_scale, w_scale, …)
Add(Mul(Cast(MatMulInteger(x, w, …)), Mul(x_scale, w_scale)), b)  →  MatMulIntegerToFloat(x, w, x_scale, w_scale, …, b)

This is what models have whose activations are quantised at run time. The kernel does the same arithmetic: it is exact.
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import DType, Match, Reject, Rewriter, Value
from atcpy.ir.pattern import const, op, var
from atcpy.ops.quant.qgemm import columns_of, supports_integer_matmul
from atcpy.passes.fusion import Fusion, only_read_by
from atcpy.passes.phase import Phase

_SCALED = op(
    "Mul",
    op(
        "Cast",
        op(
            "MatMulInteger",
            var("x"),
            var("w"),
            *(var(name, optional=True) for name in ("x_zero", "w_zero")),
            name="matmul",
        ),
        name="cast",
    ),
    op("Mul", var("a_scale"), var("b_scale"), name="scales"),
    name="scaled",
    commutative=True,
)


def _requirements(m: Match) -> Iterator[Reject]:
    matmul, cast = m.node("matmul"), m.node("cast")
    yield from only_read_by(matmul.output, cast)
    yield from only_read_by(cast.output, m.node("scaled"))
    unfit = list(supports_integer_matmul(matmul))
    yield from unfit
    if cast.output.desc.dtype is not DType.FLOAT32:
        yield Reject("dtype", cast.name, cast.output.desc.dtype.long)
    if not unfit and _scales(m) is None:
        yield Reject("not-per-channel", m.node("scales").name)


def _scales(m: Match) -> tuple[Value, Value] | None:
    """The scale of x, which is one, and that of w, which is one or one a column."""
    pair, columns = (m["a_scale"], m["b_scale"]), columns_of(m["w"])
    for x_scale, w_scale in (pair, pair[::-1]):
        if x_scale.desc.shape in {(), (1,)} and w_scale.desc.shape in {(), (1,), (columns,)}:
            return x_scale, w_scale
    return None


def _scaled_sums(m: Match, rw: Rewriter) -> Value:
    scales = _scales(m)
    assert scales is not None
    operands = [m["x"], m["w"], *scales, m.get("x_zero"), m.get("w_zero"), m.get("b")]
    return rw.op("com.microsoft::MatMulIntegerToFloat", *operands)


class ScaledSumsWithBias(Fusion, switch="ScaledSumsBiasFusionPass", phase=Phase.QUANTISE, is_neutral=False):
    """Scale the sums of MatMulInteger and add a bias in its kernel."""

    pattern = op("Add", _SCALED, const("b"), commutative=True, name="add")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        rejects = [*_requirements(m), *only_read_by(m.node("scaled").output, m.node("add"))]
        yield from rejects
        if not rejects and m["b"].desc.shape != (columns_of(m["w"]),):
            yield Reject("not-per-channel", m["b"].name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return _scaled_sums(m, rw)


class ScaledSums(
    Fusion,
    switch="ScaledSumsFusionPass",
    phase=Phase.QUANTISE,
    after=("ScaledSumsBiasFusionPass",),
    is_neutral=False,
):
    """Scale the sums of MatMulInteger in its kernel."""

    pattern = _SCALED

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from _requirements(m)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return _scaled_sums(m, rw)
