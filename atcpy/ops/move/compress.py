"""Compress and Unique: slices that are kept, as many as the data say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Engine, Node, Reject, TensorDesc, Value
from atcpy.ir.shape import Shape, StaticShape
from atcpy.ops.core.axes import around_axis, normal_axis, unnamed_dim
from atcpy.ops.core.opdef import Bound, KernelCall, Known, OpDef, ParamValue, register_operator
from atcpy.ops.core.strided import item_bytes, rejects_value
from atcpy.ops.elementwise.cast import KERNEL_DTYPES


def _axis(node: Node, rank: int) -> int | None:
    """The axis along which slices are kept; None: single elements, row by row."""
    return normal_axis(node, node.int_attr("axis", 0), rank) if "axis" in node.attrs else None


def _kept(node: Node) -> Shape | None:
    """The shape of what is kept."""
    shape, count = node.operand(0).desc.shape, unnamed_dim(node, 0)
    if "axis" not in node.attrs:
        return (count,)
    if shape is None:
        return None
    axis = _axis(node, len(shape))
    return tuple(count if at == axis else dim for at, dim in enumerate(shape))


def _all_kept(node: Node) -> StaticShape:
    """The shape if everything is kept."""
    x = node.operand(0).desc
    return x.static_shape if "axis" in node.attrs else (x.elements,)


def _slices(node: Node) -> dict[str, ParamValue]:
    x = node.operand(0).desc
    axis = _axis(node, len(x.static_shape))
    if axis is None:
        return {"outer": 1, "n": x.elements, "inner": 1}
    return around_axis(x.static_shape, axis)


# --- Compress ----------------------------------------------------------------------------------


def infer_compress(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The dim along the axis is as long as there are true conditions."""
    condition = node.operand(1).desc
    if condition.shape is not None and len(condition.shape) != 1:
        raise ModelInvalid("EZ8888", where=node, what=f"the condition is {condition}, must be of rank 1")
    return [TensorDesc.plain(node.operand(0).desc.dtype, _kept(node))]


def supports_compress(node: Node) -> Iterable[Reject]:
    """Known shapes, elements of whole bytes."""
    for value in node.operands:
        yield from rejects_value(node, value.desc)


def lower_compress(node: Node, count: Value) -> Iterable[KernelCall]:
    """One launch."""
    x, condition = node.operands
    params = _slices(node) | {"item": item_bytes(x.desc.dtype), "conditions": condition.desc.elements}
    yield KernelCall("compress", (x, condition), (node.output, count), params)


# --- Unique ------------------------------------------------------------------------------------


def infer_unique(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The slices, and for each its first index and number; for each slice of the input, which it is."""
    shape, count = node.operand(0).desc.shape, unnamed_dim(node, 0)
    every = unnamed_dim(node, 1)
    if shape is not None:
        axis = _axis(node, len(shape))
        if axis is not None:
            every = shape[axis]
        elif node.operand(0).desc.is_static:
            every = node.operand(0).desc.elements
    lines = [TensorDesc.plain(DType.INT64, (dim,)) for dim in (count, every, count)]
    return [TensorDesc.plain(node.operand(0).desc.dtype, _kept(node)), *lines][: len(node.outputs)]


def supports_unique(node: Node) -> Iterable[Reject]:
    """Numbers of a known shape."""
    x = node.operand(0).desc
    yield from rejects_value(node, x)
    if x.dtype not in KERNEL_DTYPES:
        yield Reject("dtype", node.name, x.dtype.long)


def bound_unique(node: Node) -> Sequence[StaticShape]:
    """Every slice may differ from all others."""
    shape = _all_kept(node)
    axis = _axis(node, len(shape)) or 0
    return [shape, *[(shape[axis],)] * 3][: len(node.outputs)]


def lower_unique(node: Node, count: Value) -> Iterable[KernelCall]:
    """One launch."""
    x = node.operand(0)
    results = [value for value in node.outputs if value is not count]
    params = _slices(node) | {
        "sorted": int(node.int_attr("sorted", 1) != 0), "results": len(results), "dtype": x.desc.dtype.onnx,
    }  # fmt: skip
    yield KernelCall("unique", (x,), (*results, count), params)


register_operator(
    OpDef(
        name="Compress",
        infer=infer_compress,
        engines={Engine.AICPU: supports_compress},
        bound=Bound(lambda node: [_all_kept(node)], lower_compress),
    )
)
register_operator(
    OpDef(
        name="Unique",
        infer=infer_unique,
        engines={Engine.AICPU: supports_unique},
        bound=Bound(bound_unique, lower_unique),
    )
)
