"""Convolve integers: what exporters write as floats between a DequantizeLinear and a QuantizeLinear.

QuantizeLinear(Conv(DequantizeLinear(x), DequantizeLinear(w), b))  →  QLinearConv(x, w, round(b / (x_scale · w_scale)))

The bias is rounded to the step of the sums, far below that of the result. The sums are exact, where
those of floats are rounded: a result may lie on the other side of a half, one step away.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atcpy.ir import Match, Node, Reject, Rewriter, Value
from atcpy.ir.pattern import Op, op, var
from atcpy.ir.tensor import Array
from atcpy.passes.fusion import Fusion, only_read_by
from atcpy.passes.phase import Phase
from atcpy.passes.quantization_params import rejects_bytes, rejects_steps, step_values, steps_of


def dequantized(name: str) -> Op:
    """The pattern of a DequantizeLinear of `name`."""
    return op(
        "DequantizeLinear", var(name), var(f"{name}_scale"), var(f"{name}_zero", optional=True), name=f"{name}_node"
    )


def quantized(inner: Op) -> Op:
    """The pattern of a QuantizeLinear."""
    return op("QuantizeLinear", inner, var("y_scale"), var("y_zero", optional=True), name="y_node")


def product_requirements(m: Match, product: Node, axis: int) -> Iterator[Reject]:
    """Reasons against computing a product with integers: bytes everywhere, and steps that are constant; those of
    the right operand may be one for each place along `axis`.
    """
    x, w, y = m.node("x_node"), m.node("w_node"), m.node("y_node")
    yield from only_read_by(product.output, y)
    for node in (x, w, y):
        yield from rejects_bytes(node)
        yield from rejects_steps(node, axis if node is w else None)


def bias_requirements(m: Match, channels: int) -> Iterator[Reject]:
    """Reasons against a bias in steps of the sums."""
    bias = m.get("b")
    if bias is None:
        return
    if _bias_array(bias) is None:
        yield Reject("bias-not-constant", bias.name)
    elif bias.desc.elements != channels or bias.desc.static_shape[-1:] != (channels,):
        yield Reject("not-per-channel", bias.name)
    elif np.abs(_in_steps(m, bias)).max(initial=0) >= 2**30:  # far from where the sums would wrap around
        yield Reject("bias-too-large", bias.name)


def _bias_array(bias: Value) -> Array | None:
    """The floats of a constant, dequantised or not."""
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


def bias_value(m: Match, rw: Rewriter) -> Value | None:
    """The bias as int32, in steps of the sums."""
    bias = m.get("b")
    if bias is None:
        return None
    return rw.const(_in_steps(m, bias).astype(np.int32), name=bias.name)


class QLinearConv(
    Fusion, switch="QLinearConvFusionPass", phase=Phase.QUANTISE, after=("RequantizeEliminationPass",), is_neutral=False
):
    """Convolve integers between DequantizeLinear and QuantizeLinear."""

    pattern = quantized(op("Conv", dequantized("x"), dequantized("w"), var("b", optional=True), name="conv"))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        conv = m.node("conv")
        rejects = list(product_requirements(m, conv, 0))
        if m["w"].tensor is None:
            rejects.append(Reject("weights-not-constant", conv.name))
        elif len(m["w"].desc.static_shape) > 4:
            rejects.append(Reject("rank", conv.name, f"{len(m['w'].desc.static_shape) - 2} spatial dims"))
        yield from rejects
        if not rejects:
            yield from bias_requirements(m, m["w"].desc.static_shape[0])

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        (x_scale, x_zero), (w_scale, w_zero), (y_scale, y_zero) = (
            step_values(m.node(name), rw) for name in ("x_node", "w_node", "y_node")
        )
        operands = [m["x"], x_scale, x_zero, m["w"], w_scale, w_zero, y_scale, y_zero]
        bias = bias_value(m, rw)
        return rw.op("QLinearConv", *operands, *([] if bias is None else [bias]), **m.node("conv").attrs)
