"""TopK: one launch of `topk`; the result is sorted whether asked for or not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Engine, Node, Reject, TensorDesc
from atcpy.ops.core.axes import around_axis, known_integers, normal_axis, unnamed_dim
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, ParamValue, register_operator
from atcpy.ops.core.operand_shapes import check_single
from atcpy.ops.core.strided import rejects_value
from atcpy.ops.elementwise.cast import KERNEL_DTYPES


def infer_topk(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The K largest or smallest along one dim, and their indices."""
    x = node.operand(0).desc
    check_single(node, "K", node.operand(1))
    if x.shape is None:
        return [TensorDesc.plain(x.dtype, None), TensorDesc.plain(DType.INT64, None)]
    axis = normal_axis(node, node.int_attr("axis", -1), len(x.shape))
    sizes = known_integers(node, 1, known)
    size = unnamed_dim(node, axis) if sizes is None else sizes[0]
    length = x.shape[axis]
    if isinstance(size, int) and (size < 0 or (isinstance(length, int) and size > length)):
        raise ModelInvalid("EZ8888", where=node, what=f"K is {size}, dim {axis} has {length} elements")
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    return [TensorDesc.plain(x.dtype, shape), TensorDesc.plain(DType.INT64, shape)]


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


register_operator(OpDef(name="TopK", infer=infer_topk, engines={Engine.AICPU: supports_topk}, lower=lower_topk))
