"""Fuse what follows a convolution or a matrix product into it: a bias, a residual addition, then one activation.

Conv(x, w, b) + r                        →  FusedConv(x, w, b, r)     ConvTranspose likewise
MatMul(a, b) + c                         →  FusedMatMul(a, b, c)      c is one row or column, or one number
FusedMatMul(a, b, c) + r                 →  FusedMatMul(a, b, c, r)   r of the result's shape
act(Conv), act(MatMul), act(Gemm) …      →  FusedConv, FusedMatMul {activation=act}

The scale of weights of 16 bits (FusedConv) stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from atcpy.ir import DType, Engine, Match, Node, Reject, Rewriter, Value
from atcpy.ir.pattern import Op, const, op, var
from atcpy.ir.symbolic import is_symbolic, same_shape
from atcpy.ops import all_opdefs, find_opdef
from atcpy.ops.core.half import MULTIPLIES_BF16
from atcpy.passes.fusion import Fusion, only_read_by
from atcpy.passes.phase import Phase

_MORE = (var("b", optional=True), var("r", optional=True), const("scale", optional=True))
_CONV = op(
    ("Conv", "ConvTranspose", "FusedConv", "FusedConvTranspose"), var("x"), const("w"), *_MORE, name="cube"
)  # fmt: skip
_PRODUCT = op(("MatMul", "Gemm", "FusedMatMul"), var("x"), var("w"), *_MORE, name="cube")
_ACTIVATIONS = {opdef.name for opdef in all_opdefs() if opdef.activation is not None}


def _add(to: Op) -> Op:
    return op("Add", to, var("other"), commutative=True, name="add")


def _relu(of: Op) -> Op:
    return op("Relu", of, name="act")


def _clip(of: Op) -> Op:
    return op("Clip", of, const("min", optional=True), const("max", optional=True), name="act")


def _other_activation(of: Op) -> Op:
    return op(tuple(sorted(_ACTIVATIONS - {"Relu", "Clip"})), of, name="act")


def _requirements(m: Match, root: Node) -> Iterator[Reject]:
    """Reasons against fusing the root into the node before it."""
    node = m.node("cube")
    yield from only_read_by(node.output, root)
    if node.attrs.get("activation"):
        yield Reject("already-activated", node.name)
    if node.engine is not Engine.AICORE:  # as the root, which is in the same subgraph
        yield Reject("other-engine", root.name)
    if node.op_type == "Gemm" and m.get("b") is not None and node.float_attr("beta", 1.0) != 1.0:
        yield Reject("bias-scaled", node.name)


def _fuse(
    m: Match, rw: Rewriter, bias: Value | None, residual: Value | None, attrs: Mapping[str, object] | None = None
) -> Value:
    """Insert the fused op."""
    node = m.node("cube")
    opdef = find_opdef(node)
    assert opdef is not None
    own = dict(node.attrs)
    if node.op_type == "Gemm":
        own = {name: own[name] for name in ("transA", "transB", MULTIPLIES_BF16) if own.get(name)}
        if _scale(node) != 1.0:
            own["scale"] = _scale(node)
    value = rw.op(opdef.fused, m["x"], m["w"], bias, residual, m.get("scale"), **(own | dict(attrs or {})))
    value.producer.engine = node.engine
    return value


def _scale(product: Node) -> float:
    return product.float_attr("alpha" if product.op_type == "Gemm" else "scale", 1.0)


class MatMulBias(Fusion, switch="MatMulBiasAddFusionPass", phase=Phase.EPILOGUE):
    """Fuse the addition of a bias into the matrix product before it."""

    pattern = _add(_PRODUCT)

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        product, add = m.node("cube"), m.node("add")
        yield from _requirements(m, add)
        if m.get("b") is not None:
            yield Reject("already-has-bias", product.name)
        if not _is_bias(m["other"], product):
            yield Reject("broadcast", add.name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return _fuse(m, rw, m["other"], m.get("r"))


def _is_bias(value: Value, product: Node) -> bool:
    """Whether the kernel can add a value: a row, a column or a number, the same for each matrix."""
    shape, result = value.desc.shape, product.output.desc.shape
    are_matrices = all(len(operand.desc.shape or ()) > 1 for operand in product.operands[:2])
    if not are_matrices or shape is None or result is None or len(shape) > len(result):
        return False
    if any(map(is_symbolic, result)) and same_shape(shape, result):
        return False  # a residual, for all sizes alike
    fits = all(dim in (1, size) for dim, size in zip(reversed(shape), reversed(result), strict=False))
    return fits and all(dim == 1 for dim in shape[:-2]) and (1 in shape[-2:] or len(shape) < 2)


class _Residual:
    """The passes that fuse a residual addition."""

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        node, add = m.node("cube"), m.node("add")
        yield from _requirements(m, add)
        if m.get("r") is not None:
            yield Reject("already-has-residual", node.name)
        if _scale(node) != 1.0:
            yield Reject("scale-with-residual", node.name)
        if m["other"].desc.shape != node.output.desc.shape:
            yield Reject("broadcast", add.name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return _fuse(m, rw, m.get("b"), m["other"])


class ConvAdd(_Residual, Fusion, switch="ConvAddFusionPass", phase=Phase.EPILOGUE):
    """Fuse a residual addition into the Conv before it."""

    pattern = _add(_CONV)


class MatMulAdd(
    _Residual, Fusion, switch="MatMulAddFusionPass", phase=Phase.EPILOGUE, after=("MatMulBiasAddFusionPass",)
):
    """Fuse a residual addition into the matrix product before it."""

    pattern = _add(_PRODUCT)


class _Activation:
    """The passes that fuse an activation."""

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from _requirements(m, m.node("act"))

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        act = m.node("act")
        opdef = find_opdef(act)
        assert opdef is not None and opdef.activation is not None
        name, alpha, beta = opdef.activation(act)
        attrs: dict[str, object] = {"activation": name}
        if name != "Relu":
            attrs |= {"alpha": alpha, "beta": beta}
        return _fuse(m, rw, m.get("b"), m.get("r"), attrs)


class ConvRelu(_Activation, Fusion, switch="ConvReluFusionPass", phase=Phase.EPILOGUE, after=("ConvAddFusionPass",)):
    """Fuse a Relu into the Conv before it."""

    pattern = _relu(_CONV)


class ConvClip(
    _Activation, Fusion, switch="ConvClipByValueFusionPass", phase=Phase.EPILOGUE, after=("ConvReluFusionPass",)
):
    """Fuse a Clip with constant bounds, such as ReLU6, into the Conv before it."""

    pattern = _clip(_CONV)


class ConvActivation(
    _Activation, Fusion, switch="ConvActivationFusionPass", phase=Phase.EPILOGUE, after=("ConvClipByValueFusionPass",)
):
    """Fuse a smooth or leaky activation into the Conv before it."""

    pattern = _other_activation(_CONV)


class MatMulActivation(
    _Activation, Fusion, switch="MatMulActivationFusionPass", phase=Phase.EPILOGUE, after=("MatMulAddFusionPass",)
):
    """Fuse an activation into the matrix product before it."""

    pattern = (_relu(_PRODUCT), _clip(_PRODUCT), _other_activation(_PRODUCT))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from super().meet_requirements(m)
        dtype = m.node("cube").output.desc.dtype
        if dtype is not DType.FLOAT32:
            yield Reject("activation-dtype", m.node("act").name, dtype.long)
