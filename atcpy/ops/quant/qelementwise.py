"""Elementwise ops on quantised bytes: ONNX Runtime's QLinearAdd and QLinearMul, and ByteTable, any function of one.

ByteTable(x, table) = table[x], the 256 results in the order of x's bits read as unsigned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atcpy.ir import DType, Engine, Node, Reject, TensorDesc
from atcpy.ir.shape import element_count
from atcpy.ops.core.broadcast import (
    broadcast_shapes,
    collapsed_walk,
    layout_broadcast,
    layout_like_input,
    supports_broadcast,
)
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, ParamValue, register_operator

BYTES = frozenset({DType.UINT8, DType.INT8})
OPS = {"QLinearAdd": "Add", "QLinearMul": "Mul"}
_A, _B = 0, 3  # inputs that are walked; each is followed by its scale and zero point


def infer_qbinary(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The operands broadcast; the type is that of the result's zero point, or of the first operand."""
    a, b, y_zero = node.operand(_A), node.operand(_B), node.input(7)
    dtype = (a if y_zero is None else y_zero).desc.dtype
    return [TensorDesc.plain(dtype, broadcast_shapes(node, [a.desc.shape, b.desc.shape]))]


def supports_qbinary(node: Node) -> Iterable[Reject]:
    """Bytes, with one float32 scale and one zero point each."""
    for value in (node.operand(_A), node.operand(_B), node.output):
        if value.desc.dtype not in BYTES:
            yield Reject("dtype", node.name, value.desc.dtype.long)
    yield from supports_broadcast(node, [node.operand(_A), node.operand(_B)])
    for index in (1, 2, 4, 5, 6, 7):
        step = node.input(index)
        if step is not None and (not step.desc.is_static or step.desc.elements != 1):
            yield Reject("not-per-tensor", step.name)
        elif step is not None and index in {1, 4, 6} and step.desc.dtype is not DType.FLOAT32:
            yield Reject("scale-dtype", node.name, step.desc.dtype.long)


def lower_qbinary(node: Node) -> Iterable[KernelCall]:
    """One launch of `qbinary`."""
    a, b, y = node.operand(_A), node.operand(_B), node.output
    dims, (a_strides, b_strides) = collapsed_walk([a, b], y)
    params: dict[str, ParamValue] = {
        "rank": len(dims), "op": OPS[node.op_type], "dims": dims, "a_strides": a_strides, "b_strides": b_strides,
        **{f"{name}_signed": int(v.desc.dtype is DType.INT8) for name, v in (("a", a), ("b", b), ("y", y))},
    }  # fmt: skip
    yield KernelCall("qbinary", (*node.inputs, None)[:8], (y,), params)


def infer_table(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The input's shape, the table's type."""
    return [TensorDesc.plain(node.operand(1).desc.dtype, node.operand(0).desc.shape)]


def supports_table(node: Node) -> Iterable[Reject]:
    """Bytes of a known number."""
    for value in node.operands:
        if value.desc.dtype not in BYTES:
            yield Reject("dtype", node.name, value.desc.dtype.long)
    if not node.operand(0).desc.is_static:
        yield Reject("shape-unknown", node.name)


def lower_table(node: Node) -> Iterable[KernelCall]:
    """One launch over the bytes as they lie in memory, padding included."""
    x, table = node.operands
    yield KernelCall("byte_table", (x, table), (node.output,), {"n": element_count(x.desc.memory_shape)})


QBINARY = [
    OpDef(
        name=name,
        domain="com.microsoft",
        ge_type=name,
        infer=infer_qbinary,
        engines={Engine.VECTOR: supports_qbinary},
        layout=layout_broadcast,
        lower=lower_qbinary,
    )
    for name in OPS
]  # ops/contrib adds how models have these ops, and registers them
register_operator(
    OpDef(
        name="ByteTable",
        infer=infer_table,
        engines={Engine.VECTOR: supports_table},
        layout=layout_like_input,
        lower=lower_table,
        inplace=(0,),
    )
)
