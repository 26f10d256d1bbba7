"""OneHot and EyeLike: ones among zeros."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import Engine, Node, Reject, TensorDesc
from atcpy.ir.tensor import Array
from atcpy.ops.core.axes import known_integers, normal_axis, unnamed_dim
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, ParamValue, register_operator
from atcpy.ops.core.strided import fill_calls, is_empty, item_bytes, rejects_value, row_major
from atcpy.ops.elementwise.cast import KERNEL_DTYPES

INDICES, DEPTH, VALUES = range(3)


# --- OneHot ------------------------------------------------------------------------------------


def infer_onehot(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The shape of the indices with one dim more, as large as the depth."""
    indices, dtype = node.operand(INDICES).desc, node.operand(VALUES).desc.dtype
    if indices.shape is None:
        return [TensorDesc.plain(dtype, None)]
    axis = normal_axis(node, node.int_attr("axis", -1), len(indices.shape) + 1)
    numbers, constant = known_integers(node, DEPTH, known), node.operand(DEPTH).tensor
    if not numbers and constant is not None and constant.array.size == 1:  # it may be of any type of numbers
        numbers = (int(constant.array.reshape(())),)
    if numbers and numbers[0] < 0:
        raise ModelInvalid("EZ8888", where=node, what=f"depth = {numbers[0]}")
    size = numbers[0] if numbers else unnamed_dim(node, axis)
    return [TensorDesc.plain(dtype, (*indices.shape[:axis], size, *indices.shape[axis:]))]


def supports_onehot(node: Node) -> Iterable[Reject]:
    """A depth that inference knew; indices that are numbers."""
    for value in (node.operand(INDICES), node.output):
        yield from rejects_value(node, value.desc)
    if node.operand(INDICES).desc.dtype not in KERNEL_DTYPES:
        yield Reject("index-dtype", node.name, node.operand(INDICES).desc.dtype.long)


def lower_onehot(node: Node) -> Iterable[KernelCall]:
    """One launch."""
    indices, y = node.operand(INDICES), node.output
    shape = y.desc.static_shape
    axis = normal_axis(node, node.int_attr("axis", -1), len(shape))
    params: dict[str, ParamValue] = {
        "outer": math.prod(shape[:axis]), "depth": shape[axis], "inner": math.prod(shape[axis + 1 :]),
        "item": item_bytes(y.desc.dtype), "dtype": indices.desc.dtype.onnx,
    }  # fmt: skip
    if not is_empty(shape):
        yield KernelCall("onehot", (indices, node.operand(VALUES)), (y,), params)


def evaluate_onehot(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """OneHot on numpy, for values of any type; indices out of range give rows that are all off."""
    indices, depth, values = arrays
    assert indices is not None and depth is not None and values is not None
    count = int(depth.reshape(-1)[0])
    axis = normal_axis(node, node.int_attr("axis", -1), indices.ndim + 1)
    positions = indices.astype(np.int64)
    numbers = np.arange(count).reshape([-1 if at == axis else 1 for at in range(indices.ndim + 1)])
    on = np.expand_dims(np.where(positions < 0, positions + count, positions), axis) == numbers
    return [np.where(on, values[1], values[0])]


# --- EyeLike -----------------------------------------------------------------------------------


def supports_eyelike(node: Node) -> Iterable[Reject]:
    """Elements whose one has bits that a record holds."""
    yield from rejects_value(node, node.output.desc)
    if node.output.desc.dtype not in KERNEL_DTYPES:
        yield Reject("dtype", node.name, node.output.desc.dtype.long)


def lower_eyelike(node: Node) -> Iterable[KernelCall]:
    """Zeros, then ones along the diagonal, which is a stride of its own."""
    y = node.output
    rows, columns = y.desc.static_shape
    k = node.int_attr("k", 0)
    if 0 in (rows, columns):
        return
    yield from fill_calls(y, (rows, columns), row_major((rows, columns)))
    length = min(rows - max(-k, 0), columns - max(k, 0))
    if length > 0:
        one = np.ones((), y.desc.dtype.numpy).tobytes().ljust(8, b"\0")
        offset = max(k, 0) + max(-k, 0) * columns
        value = int.from_bytes(one, "little", signed=True)
        yield from fill_calls(y, (length,), (columns + 1,), value=value, dst_offset=offset)


register_operator(
    OpDef(
        name="OneHot",
        infer=infer_onehot,
        evaluate=evaluate_onehot,
        engines={Engine.AICPU: supports_onehot},
        lower=lower_onehot,
    )
)
register_operator(OpDef(name="EyeLike", engines={Engine.VECTOR: supports_eyelike}, lower=lower_eyelike))
