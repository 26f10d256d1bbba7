"""Take into a product with constant weights what follows it column by column.

k · MatMul(x, w) + c                               →  Gemm(x, k·w, c)
k · Gemm(x, w, b) {alpha=s beta=t} + c             →  Gemm(x, k·s·w, k·t·b + c)

where k and c are those of a BatchNormalization or of products and sums with constants. What multiplies only leaves a
MatMul one, of however many dims; Gemm has two.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import var
from atcpy.ir.tensor import Array
from atcpy.passes.affine import Affine, added, affine_of, cube, joint_requirements, multiplied, normalized
from atcpy.passes.broadcast import reaches_last_only, spread_over_last
from atcpy.passes.fusion import Fusion
from atcpy.passes.phase import Phase
from atcpy.passes.prepare.affine.product_weights import (
    MATRICES,
    as_weights,
    channels_of,
    factor_requirements,
    lender,
    scale_outputs,
    weight_requirements,
    weights_of,
)

_PRODUCT = cube(MATRICES, var("x"))


def matrix_requirements(m: Match) -> Iterator[Reject]:
    """Reasons why the weights or the bias of a product are not what is computed with."""
    node = m.node("cube")
    if len(m["w"].desc.static_shape) != 2:
        yield Reject("weights-not-a-matrix", node.name)
        return
    b, columns = m.get("b"), channels_of(node)[1]
    if b is not None and not reaches_last_only(b, (columns,)):
        yield Reject("not-per-channel", b.name)


def bias_of(m: Match) -> Array:
    """What a Gemm adds to each column, beta included, in float64; 0 without a bias."""
    b, node = m.get("b"), m.node("cube")
    if b is None:
        return np.zeros(channels_of(node)[1])
    return spread_over_last(b, channels_of(node)[1:]).astype(np.float64) * node.float_attr("beta", 1.0)


def insert_product(m: Match, rw: Rewriter, w: Array | None, bias: Array | None, like: Value) -> Value:
    """The product with other weights, in which Gemm's alpha is; None leaves them as they are."""
    node = m.node("cube")
    weights = m["w"] if w is None else rw.const(as_weights(node, w), like=m["w"])
    attrs = {name: value for name in ("transA", "transB") if (value := node.int_attr(name, 0))}
    if bias is None:
        return rw.op(node.op_type, m["x"], weights, **attrs)
    return rw.op("Gemm", m["x"], weights, rw.const(bias, like=like, dtype=m["x"].desc.dtype), **attrs)


def affine_requirements(m: Match, affine: Affine | None) -> Iterator[Reject]:
    """Reasons against taking the node `affine` into the weights and the bias of a product."""
    yield from weight_requirements(m, affine)
    rank = len(m["x"].desc.shape or ())
    adds = affine is not None and not affine.is_scale
    if rank != 2 and (adds or m.node("affine").op_type == "BatchNormalization"):
        yield Reject("rank", m.root.name, str(rank))


class _Behind:
    """What the three passes below share."""

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from joint_requirements(m, m.node("cube"), m.node("affine"))
        rejects = list(matrix_requirements(m))
        yield from rejects or affine_requirements(m, m.once(self._affine))

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        affine, node = m.once(self._affine), m.node("cube")
        assert affine is not None
        k = affine.k * (node.float_attr("alpha", 1.0) if node.op_type == "Gemm" else 1.0)
        w = scale_outputs(weights_of(node), k) if (k != 1).any() else None
        bias = None if m.get("b") is None and affine.is_scale else affine.k * bias_of(m) + affine.c
        return insert_product(m, rw, w, bias, lender(m))

    @staticmethod
    def _affine(m: Match) -> Affine | None:
        shape = m["x"].desc.shape
        return None if shape is None else affine_of(m, channels_of(m.node("cube"))[1], 0, len(shape))


class MatMulBatchnorm(
    _Behind, Fusion, switch="MatMulBatchnormFusionPass", phase=Phase.ABSORB, makes=("Gemm",), repeats=True
):
    """Fold BatchNormalization into the matrix product before it."""

    pattern = normalized(_PRODUCT)


class MatMulMul(
    _Behind,
    Fusion,
    switch="MatMulMulFusionPass",
    phase=Phase.ABSORB,
    after=("MatMulBatchnormFusionPass",),
    makes=("Gemm",),
    repeats=True,
):
    """Fold a constant factor per column into the weights of the matrix product before it."""

    pattern = multiplied(_PRODUCT)


class GemmBias(
    _Behind,
    Fusion,
    switch="GemmBiasAddFusionPass",
    phase=Phase.ABSORB,
    after=("MatMulMulFusionPass",),
    makes=("Gemm",),
    repeats=True,
):
    """Make MatMul and the addition of a constant per column one Gemm."""

    pattern = added(_PRODUCT)


class GemmFactors(
    Fusion, switch="GemmFactorsFusionPass", phase=Phase.ABSORB, after=("GemmBiasAddFusionPass",), makes=("Gemm",)
):
    """Multiply constant weights and bias of a Gemm by its alpha and beta."""

    pattern = cube(("Gemm",), var("x"))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from matrix_requirements(m)
        if self._alpha(m) == 1 and (m.get("b") is None or m.node("cube").float_attr("beta", 1.0) == 1):
            yield Reject("nothing-to-fold", m.root.name)
        else:
            yield from factor_requirements(m, self._alpha(m) != 1)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        w = weights_of(m.node("cube")) * self._alpha(m) if self._alpha(m) != 1 else None
        return insert_product(m, rw, w, None if m.get("b") is None else bias_of(m), m.get("b") or m["w"])

    @staticmethod
    def _alpha(m: Match) -> float:
        return m.node("cube").float_attr("alpha", 1.0)
