"""TopK: one launch of `topk`; the result is sorted whether asked for or not."""

from __future__ import annotations

from collections.abc import Iterable

from atcpy.ir import DType, Engine, Node, Reject
from atcpy.ops.core.axes import around_axis, normal_axis
from atcpy.ops.core.opdef import KernelCall, OpDef, ParamValue, register_operator
from atcpy.ops.core.strided import rejects_value
from atcpy.ops.elementwise.cast import KERNEL_DTYPES


def supports_topk(node: Node) -> Iterable[Reject]:
    """Numbers of a known shape, and a K that inference knew."""
    for value in (node.operand(0), *node.outputs):
        yield from rejects_value(node, value.desc)
    if node.operand(0).desc.dtype not in KERNEL_DTYPES - {DType.BOOL}:
        yield Reject("dtype", node.name, node.operand(0).desc.dtype.long)


def lower_topk(node: Node) -> Iterable[KernelCall]:
    """One launch."""
    x, (values, indices) = node.operand(0), node.outputs
    shape = x.desc.static_shape
    axis = normal_axis(node, node.int_attr("axis", -1), len(shape))
    params: dict[str, ParamValue] = {
        **around_axis(shape, axis),
        "k": values.desc.static_shape[axis],
        "largest": int(node.int_attr("largest", 1) != 0),
        "dtype": x.desc.dtype.onnx,
    }
    if values.desc.elements:
        yield KernelCall("topk", (x,), (values, indices), params)


register_operator(OpDef(name="TopK", engines={Engine.AICPU: supports_topk}, lower=lower_topk))
