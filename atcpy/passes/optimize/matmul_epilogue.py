"""Fuse what follows a matrix product into it: a bias, a residual addition, then an activation.

MatMul(a, b) + c                         →  FusedMatMul(a, b, c)      c spreads over all rows, or all columns
FusedMatMul(a, b, c) + r                 →  FusedMatMul(a, b, c, r)   r of the result's shape
act(MatMul), act(Gemm), act(FusedMatMul) →  FusedMatMul(a, b, c, r) {activation=act}
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import DType, Match, Node, Reject, Rewriter, Value
from atcpy.ir.pattern import var
from atcpy.passes.fusion import Fusion
from atcpy.passes.optimize.epilogue import (
    activation_attrs,
    added,
    clip,
    cube,
    epilogue_requirements,
    fused,
    relu,
    smooth,
)
from atcpy.passes.phase import Phase

_PRODUCT = cube(("MatMul", "Gemm", "FusedMatMul"), var("w"))


def _requirements(m: Match, root: Node) -> Iterator[Reject]:
    product = m.node("cube")
    yield from epilogue_requirements(m, root)
    if product.op_type == "Gemm" and m.get("b") is not None and product.float_attr("beta", 1.0) != 1.0:
        yield Reject("bias-scaled", product.name)


def _fused(m: Match, rw: Rewriter, bias: Value | None, residual: Value | None, attrs: dict[str, object]) -> Value:
    product = m.node("cube")
    own = dict(product.attrs)
    if product.op_type == "Gemm":
        own = {name: own[name] for name in ("transA", "transB") if own.get(name)}
        if _scale(product) != 1.0:
            own["scale"] = _scale(product)
    return fused(m, rw, "FusedMatMul", bias, residual, own | attrs)


def _scale(product: Node) -> float:
    return product.float_attr("alpha" if product.op_type == "Gemm" else "scale", 1.0)


def _spreads(bias: Value, product: Node) -> bool:
    """True if the kernel can step over a bias: a row, a column or a number, the same for each matrix."""
    shape, result = bias.desc.shape, product.output.desc.shape
    matrices = all(len(value.desc.shape or ()) > 1 for value in product.operands[:2])
    if not matrices or shape is None or result is None or len(shape) > len(result):
        return False
    fits = all(have in (1, want) for have, want in zip(reversed(shape), reversed(result), strict=False))
    return fits and all(dim == 1 for dim in shape[:-2]) and (1 in shape[-2:] or len(shape) < 2)


class MatMulBias(Fusion, switch="MatMulBiasAddFusionPass", phase=Phase.EPILOGUE):
    """Fuse the addition of a bias into the matrix product before it."""

    pattern = added(_PRODUCT)

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        product, add = m.node("cube"), m.node("add")
        yield from _requirements(m, add)
        if m.get("b") is not None:
            yield Reject("already-has-bias", product.name)
        if not _spreads(m["other"], product):
            yield Reject("broadcast", add.name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return _fused(m, rw, m["other"], m.get("r"), {})


class MatMulAdd(Fusion, switch="MatMulAddFusionPass", phase=Phase.EPILOGUE, after=("MatMulBiasAddFusionPass",)):
    """Fuse a residual addition into the matrix product before it."""

    pattern = added(_PRODUCT)

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        product, add = m.node("cube"), m.node("add")
        yield from _requirements(m, add)
        if m.get("r") is not None:
            yield Reject("already-has-residual", product.name)
        if _scale(product) != 1.0:
            yield Reject("scale-with-residual", product.name)
        if m["other"].desc.shape != product.output.desc.shape:
            yield Reject("broadcast", add.name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return _fused(m, rw, m.get("b"), m["other"], {})


class MatMulActivation(
    Fusion, switch="MatMulActivationFusionPass", phase=Phase.EPILOGUE, after=("MatMulAddFusionPass",)
):
    """Fuse an activation into the matrix product before it."""

    pattern = (relu(_PRODUCT), clip(_PRODUCT), smooth(_PRODUCT))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from _requirements(m, m.node("act"))
        dtype = m.node("cube").output.desc.dtype
        if dtype is not DType.FLOAT32:
            yield Reject("activation-dtype", m.node("act").name, dtype.long)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return _fused(m, rw, m.get("b"), m.get("r"), activation_attrs(m))
