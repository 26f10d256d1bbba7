"""Take into a product with constant weights what its input goes through channel by channel.

Conv(k · x + c, w, b)    →  Conv(x, w·k, w·c + b)
MatMul(k · x, w)         →  MatMul(x, w·k)
MatMul(k · x + c, w)     →  Gemm(x, w·k, w·c)

where k and c are those of a BatchNormalization or of products and sums with constants. Padding stands behind the sum:
it is 0, not c; so what adds stays before a Conv that pads, and before a ConvTranspose, whose borders see fewer taps.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import either, var
from atcpy.passes.affine import Affine, added, affine_of, cube, joint_requirements, multiplied, normalized
from atcpy.passes.fusion import Fusion
from atcpy.passes.phase import Phase
from atcpy.passes.prepare.affine.gemm_output import affine_requirements, bias_of, insert_product, matrix_requirements
from atcpy.passes.prepare.affine.product_weights import (
    CONVS,
    MATRICES,
    as_weights,
    channels_of,
    lender,
    response,
    scale_inputs,
    weight_requirements,
    weights_of,
)

_X = var("x")
_BEHIND = either(*normalized(_X), *multiplied(_X), *added(_X))


class ConvInput(
    Fusion,
    switch="ConvInputFusionPass",
    phase=Phase.ABSORB,
    after=("ConvBiasAddFusionPass",),
    makes=("Conv",),
    repeats=True,
):
    """Fold BatchNormalization, factors and sums per channel into the Conv that reads them."""

    pattern = cube(CONVS, _BEHIND)

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        conv, affine = m.node("cube"), m.once(self._affine)
        yield from joint_requirements(m, m.node("affine"), m.node("cube"))
        yield from weight_requirements(m, affine)
        is_bare = not any(conv.ints_attr("pads")) and conv.str_attr("auto_pad", "NOTSET") in {"NOTSET", "VALID"}
        if affine is not None and not affine.is_scale and not (is_bare and conv.op_type == "Conv"):
            yield Reject("padded", conv.name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        conv, b, affine = m.node("cube"), m.get("b"), m.once(self._affine)
        assert affine is not None
        w = weights_of(conv)
        scaled = rw.const(as_weights(conv, scale_inputs(w, affine.k)), like=m["w"])
        bias = [] if b is None else [b]
        if not affine.is_scale:
            whole = response(w, affine.c) + (0.0 if b is None else b.array.astype(np.float64))
            bias = [rw.const(whole, like=lender(m), dtype=m["w"].desc.dtype)]
        return rw.op(conv.op_type, m["x"], scaled, *bias, **conv.attrs)

    @staticmethod
    def _affine(m: Match) -> Affine | None:
        rank = len(m["w"].desc.static_shape)
        return affine_of(m, channels_of(m.node("cube"))[0], rank - 2, rank)


class MatMulInput(
    Fusion,
    switch="MatMulInputFusionPass",
    phase=Phase.ABSORB,
    after=("GemmBiasAddFusionPass",),
    makes=("Gemm",),
    repeats=True,
):
    """Fold BatchNormalization, factors and sums per column into the matrix product that reads them."""

    pattern = cube(MATRICES, _BEHIND)

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        product = m.node("cube")
        yield from joint_requirements(m, m.node("affine"), m.node("cube"))
        if product.int_attr("transA", 0):
            yield Reject("scaled-or-transposed", product.name)
        rejects = list(matrix_requirements(m))
        yield from rejects or affine_requirements(m, m.once(self._affine))

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        product, affine = m.node("cube"), m.once(self._affine)
        assert affine is not None
        alpha = product.float_attr("alpha", 1.0) if product.op_type == "Gemm" else 1.0
        w = weights_of(product) * alpha
        bias = None if m.get("b") is None and affine.is_scale else bias_of(m) + response(w, affine.c)
        return insert_product(m, rw, scale_inputs(w, affine.k), bias, lender(m))

    @staticmethod
    def _affine(m: Match) -> Affine | None:
        shape = m["x"].desc.shape
        return None if shape is None else affine_of(m, channels_of(m.node("cube"))[0], 0, len(shape))
