"""Take into a product with constant weights what its input goes through channel by channel.

Conv(k · x + c, w, b)    →  Conv(x, w·k, w·c + b)
MatMul(k · x, w)         →  MatMul(x, w·k)
MatMul(k · x + c, w)     →  Gemm(x, w·k, w·c)

where k and c are those of a BatchNormalization or of products and sums with constants. Padding stands behind the sum:
it is 0, not c; so what adds stays before a Conv that pads, and before a ConvTranspose, whose borders see fewer taps.
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import either, var
from atcpy.ir.tensor import Array
from atcpy.passes.affine import added, cube, joint_requirements, multiplied, normalized
from atcpy.passes.fusion import Fusion
from atcpy.passes.phase import Phase
from atcpy.passes.prepare.affine.product_weights import (
    CONVS,
    MATRICES,
    alpha_of,
    bias_of,
    input_affine,
    insert_product,
    product_requirements,
    response,
    scale_inputs,
    weights_of,
)

_X = var("x")
_AFFINE = either(*normalized(_X), *multiplied(_X), *added(_X))


class _Input(Fusion):
    """What the two passes below share."""

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        node, affine = m.node("cube"), m.once(input_affine)
        assert affine is not None
        w = weights_of(node) * alpha_of(node)
        bias: Array | Value | None = m.get("b")
        if not affine.is_scale:
            bias = bias_of(m) + response(w, affine.c)
        elif bias is not None and node.op_type == "Gemm":
            bias = bias_of(m)
        return insert_product(m, rw, scale_inputs(w, affine.k), bias)


class ConvInput(
    _Input,
    switch="ConvInputFusionPass",
    phase=Phase.ABSORB,
    after=("ConvBiasAddFusionPass",),
    makes=("Conv",),
    repeats=True,
):
    """Fold BatchNormalization, factors and sums per channel into the Conv that reads them."""

    pattern = cube(CONVS, _AFFINE)

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        conv, affine = m.node("cube"), m.once(input_affine)
        yield from joint_requirements(m, m.node("affine"), conv)
        yield from product_requirements(m, input_affine)
        is_bare = not any(conv.ints_attr("pads")) and conv.str_attr("auto_pad", "NOTSET") in {"NOTSET", "VALID"}
        if affine is not None and not affine.is_scale and not (is_bare and conv.op_type == "Conv"):
            yield Reject("padded", conv.name)


class MatMulInput(
    _Input,
    switch="MatMulInputFusionPass",
    phase=Phase.ABSORB,
    after=("GemmBiasAddFusionPass",),
    makes=("Gemm",),
    repeats=True,
):
    """Fold BatchNormalization, factors and sums per column into the matrix product that reads them."""

    pattern = cube(MATRICES, _AFFINE)

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        product = m.node("cube")
        yield from joint_requirements(m, m.node("affine"), product)
        if product.int_attr("transA", 0):
            yield Reject("scaled-or-transposed", product.name)
        yield from product_requirements(m, input_affine)
