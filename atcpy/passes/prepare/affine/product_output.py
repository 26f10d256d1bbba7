"""Take into a product with constant weights what follows it channel by channel.

k · Conv(x, w, b) + c                              →  Conv(x, k·w, k·b + c)
k · MatMul(x, w) + c                               →  Gemm(x, k·w, c)
k · Gemm(x, w, b) {alpha=s beta=t} + c             →  Gemm(x, k·s·w, k·t·b + c)

where k and c are those of a BatchNormalization, k = gamma / √(var + ε) and c = beta − mean·k, or of products and sums
with constants. ConvTranspose likewise. What multiplies only leaves a MatMul one, of however many dims; Gemm has two.
Weights of 16 bits would be rounded a second time: `ConvScaleFusionPass` gives those of a Conv a factor instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import var
from atcpy.passes.affine import added, cube, joint_requirements, multiplied, normalized
from atcpy.passes.base import Declared
from atcpy.passes.fusion import Fusion
from atcpy.passes.phase import Phase
from atcpy.passes.prepare.affine.product_weights import (
    CONVS,
    MATRICES,
    alpha_of,
    bias_of,
    factor_requirements,
    insert_product,
    matrix_requirements,
    output_affine,
    product_requirements,
    scale_outputs,
    weights_of,
)

_CONV, _MATRIX_PRODUCT = cube(CONVS, var("x")), cube(MATRICES, var("x"))


class _Output(Fusion):
    """What the six passes below share."""

    def __init_subclass__(cls, *, switch: str, **declared: Unpack[Declared]) -> None:
        declared["repeats"] = True
        super().__init_subclass__(switch=switch, phase=Phase.ABSORB, **declared)

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from joint_requirements(m, m.node("cube"), m.node("affine"))
        yield from product_requirements(m, output_affine)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        affine, node = m.once(output_affine), m.node("cube")
        assert affine is not None
        k = affine.k * alpha_of(node)
        w = scale_outputs(weights_of(node), k) if (k != 1).any() else None
        if m.get("b") is None:
            return insert_product(m, rw, w, None if affine.is_scale else affine.c)
        return insert_product(m, rw, w, affine.k * bias_of(m) + affine.c)


class ConvBatchnorm(_Output, switch="ConvBatchnormFusionPass"):
    """Fold BatchNormalization into Conv."""

    pattern = normalized(_CONV)


class ConvMul(_Output, switch="ConvMulFusionPass", after=("ConvBatchnormFusionPass",)):
    """Fold a constant factor per channel into the Conv's weights."""

    pattern = multiplied(_CONV)


class ConvBias(_Output, switch="ConvBiasAddFusionPass", after=("ConvMulFusionPass",)):
    """Fold a constant added per channel into the Conv's bias."""

    pattern = added(_CONV)


class MatMulBatchnorm(_Output, switch="MatMulBatchnormFusionPass", makes=("Gemm",)):
    """Fold BatchNormalization into the matrix product before it."""

    pattern = normalized(_MATRIX_PRODUCT)


class MatMulMul(_Output, switch="MatMulMulFusionPass", after=("MatMulBatchnormFusionPass",), makes=("Gemm",)):
    """Fold a constant factor per column into the weights of the matrix product before it."""

    pattern = multiplied(_MATRIX_PRODUCT)


class GemmBias(_Output, switch="GemmBiasAddFusionPass", after=("MatMulMulFusionPass",), makes=("Gemm",)):
    """Make MatMul and the addition of a constant per column one Gemm."""

    pattern = added(_MATRIX_PRODUCT)


class GemmFactors(
    Fusion, switch="GemmFactorsFusionPass", phase=Phase.ABSORB, after=("GemmBiasAddFusionPass",), makes=("Gemm",)
):
    """Multiply constant weights and bias of a Gemm by its alpha and beta."""

    pattern = cube(("Gemm",), var("x"))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from matrix_requirements(m)
        alpha = alpha_of(m.root)
        if alpha == 1 and (m.get("b") is None or m.root.float_attr("beta", 1.0) == 1):
            yield Reject("nothing-to-fold", m.root.name)
        else:
            yield from factor_requirements(m, alpha != 1)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        alpha = alpha_of(m.root)
        w = weights_of(m.root) * alpha if alpha != 1 else None
        return insert_product(m, rw, w, None if m.get("b") is None else bias_of(m))
