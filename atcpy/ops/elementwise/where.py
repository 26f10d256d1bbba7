"""Where: one launch of `where`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Engine, Node, Reject, TensorDesc
from atcpy.ir.shape import Dim
from atcpy.ir.tensor import Array
from atcpy.ops.core.broadcast import (
    broadcast_shapes,
    collapsed_walk,
    infer_same_type,
    layout_broadcast,
    supports_broadcast,
)
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, ParamValue, Trait, register_operator
from atcpy.ops.core.shape_values import UNNAMED, is_vector
from atcpy.ops.elementwise.cast import KERNEL_DTYPES


def infer_where(node: Node, known: Known) -> Sequence[TensorDesc]:
    """Condition and both values broadcast together; the values have one type."""
    condition = node.operand(0).desc
    if condition.dtype is not DType.BOOL:
        raise ModelInvalid("EZ8888", where=node, what=f"the condition is {condition.dtype.long}, must be bool")
    dtype = infer_same_type(node, node.operands[1:]).dtype
    return [TensorDesc.plain(dtype, broadcast_shapes(node, [value.desc.shape for value in node.operands]))]


def propagate_where(node: Node, known: Known) -> tuple[Dim, ...] | None:
    """Shape arithmetic: one of the two known elements, or what they agree on."""
    operands = [known(value) for value in node.inputs]
    if not all(is_vector(value) for value in node.operands):
        return None
    present = [elements for elements in operands if elements is not None]
    lengths = {len(elements) for elements in present} - {1}
    if len(present) < 3 or len(lengths) > 1:
        return None
    length = lengths.pop() if lengths else 1
    columns = (elements * length if len(elements) == 1 else elements for elements in present)
    return tuple(_chosen(*column) for column in zip(*columns, strict=True))


def _chosen(condition: Dim, a: Dim, b: Dim) -> Dim:
    if isinstance(condition, int):
        return a if condition else b
    return a if a == b else UNNAMED


def evaluate_where(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """numpy's where."""
    condition, a, b = (np.asarray(array) for array in arrays)
    return [np.where(condition, a, b)]


def supports_where(node: Node) -> Iterable[Reject]:
    """Elements of 1, 2, 4, 8 or 16 bytes."""
    dtype = node.operand(1).desc.dtype
    if dtype not in KERNEL_DTYPES | {DType.COMPLEX64, DType.COMPLEX128}:
        yield Reject("dtype", node.name, dtype.long)
    yield from supports_broadcast(node, node.operands)


def lower_where(node: Node) -> Iterable[KernelCall]:
    """One launch over collapsed dims."""
    dims, (c_strides, a_strides, b_strides) = collapsed_walk(node.operands, node.output)
    params: dict[str, ParamValue] = {
        "rank": len(dims), "dims": dims, "c_strides": c_strides, "a_strides": a_strides, "b_strides": b_strides,
        "item": node.output.desc.dtype.bits // 8,
    }  # fmt: skip
    yield KernelCall("where", tuple(node.operands), (node.output,), params)


register_operator(
    OpDef(
        name="Where",
        ge_type="Select",
        infer=infer_where,
        propagate=propagate_where,
        evaluate=evaluate_where,
        engines={Engine.VECTOR: supports_where},
        layout=layout_broadcast,
        lower=lower_where,
        inplace=(1, 2),
        traits=Trait.ELEMENTWISE,
    )
)
