"""Softmax, LogSoftmax and Hardmax along one axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from atcpy.ir import DType, Engine, Node, Reject, Rewriter, TensorDesc, Value
from atcpy.ops.core.axes import around_axis, normal_axis, supports_along_axis
from atcpy.ops.core.opdef import Axis, KernelCall, Known, OpDef, Trait, register_operator

KINDS = {"Softmax": "softmax", "LogSoftmax": "log_softmax"}
_GE_TYPES = {"Softmax": "SoftmaxV2", "LogSoftmax": "LogSoftmax"}


def infer_softmax(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The output is of the input's type; the axis must exist."""
    x = node.operand(0).desc
    if x.shape is not None:
        softmax_axis(node, len(x.shape))
    return [x.as_plain()]


def softmax_axis(node: Node, rank: int) -> int:
    """The axis, from 0 on; a scalar has an axis 0."""
    return normal_axis(node, node.int_attr("axis", -1), max(rank, 1))


def lower_softmax(node: Node) -> Iterable[KernelCall]:
    """One launch of `softmax`."""
    x = node.operand(0)
    shape = x.desc.static_shape or (1,)
    sizes = around_axis(shape, softmax_axis(node, len(shape)))
    yield KernelCall("softmax", (x,), (node.output,), {"kind": KINDS[node.op_type], **sizes})


def expand_hardmax(node: Node, rw: Rewriter) -> Sequence[Value] | Reject:
    """1 where the index along the axis is that of the first largest element, else 0."""
    x = node.operand(0)
    if x.desc.shape is None:
        return Reject("shape-unknown", node.name)
    rank = len(x.desc.shape)
    axis = softmax_axis(node, rank)
    size = x.desc.shape[axis] if rank else 1
    if not isinstance(size, int):
        return Reject("shape-unknown", node.name)
    values = rw.const(np.array([0, 1], x.desc.dtype.numpy))
    if not rank:
        return [rw.op("Gather", values, rw.const(np.array(1)))]
    largest = rw.op("ArgMax", x, axis=axis, keepdims=0)
    return [rw.op("OneHot", largest, rw.const(np.array(size)), values, axis=axis)]


register_operator(OpDef(name="Hardmax", infer=infer_softmax, expand=expand_hardmax, axis=Axis(-1)))
for _name, _ge_type in _GE_TYPES.items():
    register_operator(
        OpDef(
            name=_name,
            ge_type=_ge_type,
            infer=infer_softmax,
            engines={Engine.VECTOR: supports_along_axis({DType.FLOAT32, DType.FLOAT64})},
            lower=lower_softmax,
            inplace=(0,),
            axis=Axis(-1),
            traits=Trait.NON_NEGATIVE if _name == "Softmax" else Trait.NONE,
        )
    )
