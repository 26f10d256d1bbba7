"""Compute on quantised bytes what exporters write as floats between DequantizeLinear and QuantizeLinear.

QuantizeLinear(Add(DequantizeLinear(x), DequantizeLinear(w)))      →  QLinearAdd(x, w)
QuantizeLinear(Mul(DequantizeLinear(x), DequantizeLinear(w)))      →  QLinearMul(x, w)
QuantizeLinear(MatMul(DequantizeLinear(x), DequantizeLinear(w)))   →  QLinearMatMul(x, w)
QuantizeLinear(Gemm(DequantizeLinear(x), DequantizeLinear(w), b))  →  QGemm(x, w, round(b / (x_scale · w_scale)))
QuantizeLinear(Conv(DequantizeLinear(x), DequantizeLinear(w), b))  →  QLinearConv(x, w, round(b / (x_scale · w_scale)))
QuantizeLinear(Add(DequantizeLinear(QLinearConv(…)), DequantizeLinear(r)))  →  FusedQLinearConv(…, r)

Add and Mul are exact, also behind a convolution: their kernel does the same arithmetic. In the others a bias is rounded
to the step of the sums, far below that of the result. Their sums are exact, where those of floats are rounded: a result
may lie on the other side of a half, one step away.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atcpy.ir import Match, Node, Reject, Rewriter, Value
from atcpy.ir.pattern import Op, op, var
from atcpy.ir.tensor import Array
from atcpy.ops.conv.conv import is_depthwise
from atcpy.ops.quant.qgemm import supports_integer_conv
from atcpy.passes.fusion import Fusion, only_read_by
from atcpy.passes.phase import Phase
from atcpy.passes.prepare.quantised.sum_factors import SumFactors, find_sum_factors
from atcpy.passes.quantization_params import rejects_bytes, rejects_steps, step_values, steps_of

_AFTER = ("RequantizeEliminationPass",)


def _dequantized(name: str, of: Op | None = None) -> Op:
    zero = var(f"{name}_zero", optional=True)
    return op("DequantizeLinear", of or var(name), var(f"{name}_scale"), zero, name=f"{name}_node")


def _quantized(inner: Op) -> Op:
    return op("QuantizeLinear", inner, var("y_scale"), var("y_zero", optional=True), name="y_node")


_X, _W, _B = _dequantized("x"), _dequantized("w"), var("b", optional=True)


def _requirements(m: Match, node: Node, axis: int | None = None) -> Iterator[Reject]:
    """Yield the reasons against computing a node on bytes: its operands or its result are no bytes, or have steps that
    are computed. The steps of `w` may differ along `axis`.
    """
    x, w, y = m.node("x_node"), m.node("w_node"), m.node("y_node")
    yield from only_read_by(node.output, y)
    for quantized in (x, w, y):
        yield from rejects_bytes(quantized)
        yield from rejects_steps(quantized, axis if quantized is w else None)


def _operands(m: Match, rw: Rewriter) -> list[Value | None]:
    """Return x and w, each with its scale and zero point, and those of y."""
    x, w, y = (step_values(m.node(name), rw) for name in ("x_node", "w_node", "y_node"))
    return [m["x"], *x, m["w"], *w, *y]


class QLinearBinary(Fusion, switch="QLinearBinaryFusionPass", phase=Phase.QUANTISE, after=_AFTER, is_neutral=False):
    """Add and multiply bytes between DequantizeLinear and QuantizeLinear."""

    pattern = _quantized(op(("Add", "Mul"), _X, _W, name="binary"))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from _requirements(m, m.node("binary"))

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.op(f"com.microsoft::QLinear{m.node('binary').op_type}", *_operands(m, rw))


class QLinearMatMul(Fusion, switch="QLinearMatMulFusionPass", phase=Phase.QUANTISE, after=_AFTER, is_neutral=False):
    """Multiply matrices of integers between DequantizeLinear and QuantizeLinear."""

    pattern = _quantized(op("MatMul", _X, _W, name="matmul"))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from _requirements(m, m.node("matmul"), axis=-1)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.op("QLinearMatMul", *_operands(m, rw))


class QGemm(Fusion, switch="QGemmFusionPass", phase=Phase.QUANTISE, after=_AFTER, is_neutral=False):
    """Multiply matrices of integers and add a bias between DequantizeLinear and QuantizeLinear."""

    pattern = _quantized(op("Gemm", _X, _W, _B, name="gemm"))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        gemm = m.node("gemm")
        columns = 0 if gemm.int_attr("transB", 0) else 1
        rejects = list(_requirements(m, gemm, columns))
        if m["w"].tensor is None:
            rejects.append(Reject("weights-not-constant", gemm.name))
        if gemm.int_attr("transA", 0) or (gemm.float_attr("alpha", 1.0), gemm.float_attr("beta", 1.0)) != (1.0, 1.0):
            rejects.append(Reject("scaled-or-transposed", gemm.name))
        yield from rejects or _bias_requirements(m, columns)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        operands = _operands(m, rw)
        x, w, y = operands[:3], operands[3:6], operands[6:]
        if m.node("gemm").int_attr("transB", 0):
            w[0] = rw.const(np.ascontiguousarray(m["w"].array.T), like=m["w"])
        return rw.op("com.microsoft::QGemm", *x, *w, _bias(m, rw), *y)


class QLinearConv(Fusion, switch="QLinearConvFusionPass", phase=Phase.QUANTISE, after=_AFTER, is_neutral=False):
    """Convolve integers between DequantizeLinear and QuantizeLinear."""

    pattern = _quantized(op("Conv", _X, _W, _B, name="conv"))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        conv = m.node("conv")
        rejects = list(_requirements(m, conv, axis=0))
        if m["w"].tensor is None:
            rejects.append(Reject("weights-not-constant", conv.name))
        elif len(m["w"].desc.static_shape) > 4:
            rejects.append(Reject("rank", conv.name, f"{len(m['w'].desc.static_shape) - 2} spatial dims"))
        yield from rejects or _bias_requirements(m, 0)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.op("QLinearConv", *_operands(m, rw), _bias(m, rw), **m.node("conv").attrs)


class QLinearConvAdd(
    Fusion,
    switch="QLinearConvAddFusionPass",
    phase=Phase.QUANTISE,
    after=("QLinearConvFusionPass",),
    before=("QLinearBinaryFusionPass",),
):
    """Add bytes to the result of a convolution of integers where it is stored."""

    pattern = _quantized(
        op(
            "Add",
            _dequantized(
                "x",
                op(
                    "QLinearConv",
                    var("conv_x"),
                    var("conv_x_scale"),
                    var("conv_x_zero"),
                    var("conv_w"),
                    var("conv_w_scale"),
                    var("conv_w_zero"),
                    var("conv_y_scale"),
                    var("conv_y_zero"),
                    var("b", optional=True),
                    name="conv",
                ),
            ),
            _dequantized("r"),
            name="add",
            commutative=True,
        )
    )

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        conv, x, add, r, y = (m.node(name) for name in ("conv", "x_node", "add", "r_node", "y_node"))
        yield from only_read_by(conv.output, x)
        yield from only_read_by(x.output, add)
        yield from only_read_by(add.output, y)
        rejects = [reject for node in (x, r, y) for reject in (*rejects_bytes(node), *rejects_steps(node))]
        rejects += supports_integer_conv(conv)
        yield from rejects or _sum_requirements(m)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        conv, factors = m.node("conv"), _factors_of(m)
        assert factors is not None  # a requirement
        attrs: dict[str, object] = {
            "product_scale": factors.product, "addend_scale": factors.addend, "sum_offset": factors.offset,
            "sum_zero": int(steps_of(m.node("y_node")).zero),
        }  # fmt: skip
        return rw.op("FusedQLinearConv", *(*conv.inputs, None)[:9], m["r"], **(dict(conv.attrs) | attrs))


def _sum_requirements(m: Match) -> Iterator[Reject]:
    """Yield the reasons against a sum in the kernel: it is depthwise, an operand is repeated or of another type, zero
    points differ where the result is not that of the convolution, or no factors round as the definition does.
    """
    conv, add = m.node("conv"), m.node("add")
    product, addend, total = (steps_of(m.node(name)) for name in ("x_node", "r_node", "y_node"))
    if is_depthwise(conv, m["conv_w"]):
        yield Reject("depthwise", conv.name)
    if m["r"].desc.shape != conv.output.desc.shape:
        yield Reject("broadcast", add.name)
    if not product.dtype is addend.dtype is total.dtype:
        yield Reject("mixed-types", add.name)
    zero = m["conv_y_zero"]
    if zero.tensor is None:
        yield Reject("scales-not-constant", conv.name)
    elif int(zero.array.item()) != int(product.zero):
        yield Reject("other-scale", m.node("x_node").name)
    elif _factors_of(m) is None:
        yield Reject("scale-range", add.name)


def _factors_of(m: Match) -> SumFactors | None:
    product, addend, total = (steps_of(m.node(name)) for name in ("x_node", "r_node", "y_node"))
    return find_sum_factors(product, addend, total)


def _bias_requirements(m: Match, axis: int) -> Iterator[Reject]:
    """Yield the reasons against a bias in steps of the sums; `axis` of the weights counts its elements."""
    bias, channels = m.get("b"), m["w"].desc.static_shape[axis]
    if bias is None:
        return
    if _bias_array(bias) is None:
        yield Reject("bias-not-constant", bias.name)
    elif bias.desc.elements != channels or bias.desc.static_shape[-1:] != (channels,):
        yield Reject("not-per-channel", bias.name)
    elif np.abs(_in_steps(m, bias)).max(initial=0) >= 2**30:  # far from where the sums would wrap around
        yield Reject("bias-too-large", bias.name)


def _bias_array(bias: Value) -> Array | None:
    """Return the floats of a constant, dequantised or not."""
    if bias.tensor is not None:
        return bias.array.reshape(-1)
    node = bias.producer
    if node.op_type != "DequantizeLinear" or node.operand(0).tensor is None or any(rejects_steps(node, 0)):
        return None
    steps = steps_of(node)
    return (node.operand(0).array.reshape(-1).astype(np.float64) - steps.zero) * steps.scale.astype(np.float64)


def _in_steps(m: Match, bias: Value) -> Array:
    array = _bias_array(bias)
    assert array is not None
    step = steps_of(m.node("x_node")).scale.astype(np.float64) * steps_of(m.node("w_node")).scale.astype(np.float64)
    return np.rint(array / step)


def _bias(m: Match, rw: Rewriter) -> Value | None:
    """Return the bias as int32, in steps of the sums."""
    bias = m.get("b")
    return None if bias is None else rw.const(_in_steps(m, bias).astype(np.int32), name=bias.name)
