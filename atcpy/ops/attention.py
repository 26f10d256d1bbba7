"""Attention: the types of its results; HOST_CPU runs it."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import Node, TensorDesc
from atcpy.ir.shape import Dim, Shape
from atcpy.ops.axes import unnamed_dim
from atcpy.ops.opdef import Known, OpDef, register_operator
from atcpy.ops.reference import infer_by_onnx
from atcpy.ops.shape_values import UNNAMED, add, div


def infer_attention(node: Node, known: Known) -> Sequence[TensorDesc]:
    """As the standard says; where its shape functions say nothing, what follows from heads, queries and keys."""
    descs = list(infer_by_onnx(node, known))
    q, k, v = (node.operand(index).desc for index in range(3))
    if (
        q.shape is None
        or k.shape is None
        or v.shape is None
        or not {len(q.shape), len(k.shape), len(v.shape)} <= {3, 4}
    ):
        return descs
    heads, kv_heads = _heads(node, q.shape, "q_num_heads"), _heads(node, k.shape, "kv_num_heads")
    keys = _keys(node, k.shape)
    shapes: list[Shape] = [
        (k.shape[0], kv_heads, keys, _size_of_head(k.shape, kv_heads)),
        (v.shape[0], kv_heads, keys, _size_of_head(v.shape, kv_heads)),
        (q.shape[0], heads, q.shape[-2], keys),
    ]
    for index, (desc, shape) in enumerate(zip((k, v, q), shapes, strict=True), 1):
        if index < len(descs) and descs[index].shape is None:
            named = [unnamed_dim(node, 4 * index + axis) if dim == UNNAMED else dim for axis, dim in enumerate(shape)]
            descs[index] = TensorDesc.plain(desc.dtype, tuple(named))
    return descs


def _heads(node: Node, shape: Shape, attr: str) -> Dim:
    return shape[1] if len(shape) == 4 else node.int_attr(attr, 1)


def _size_of_head(shape: Shape, heads: Dim) -> Dim:
    """The size is given, or the heads lie behind each other in the last dim."""
    if len(shape) == 4:
        return shape[3]
    return div(shape[2], heads)


def _keys(node: Node, k: Shape) -> Dim:
    """The keys of the cache and the new ones."""
    past, new = node.input(4), k[-2]
    if past is None:
        return new
    before = past.desc.shape[2] if past.desc.shape is not None and len(past.desc.shape) == 4 else UNNAMED
    return add(before, new)


register_operator(OpDef(name="Attention", ge_type="Attention", infer=infer_attention))
