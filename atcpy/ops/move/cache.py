"""CacheWrite and CacheRead: rows of a cache that has room for more than it holds. Compiling makes them; no model may.

CacheWrite(new) {axis, first, capacity}   the cache, into which `new` is put at row `first` of the axis; all else of its
                                          memory stays as it is
CacheRead(cache) {axis, rows}             its first rows
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atcpy.ir import Engine, Node, TensorDesc
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, register_operator
from atcpy.ops.core.strided import copy_calls, row_major, supports_movement

AXIS, FIRST, CAPACITY, ROWS = "axis", "first", "capacity", "rows"


def _infer(size: str, node: Node) -> Sequence[TensorDesc]:
    x, axis = node.operand(0).desc, node.int_attr(AXIS, 0)
    if x.shape is None:
        return [x]
    return [TensorDesc.plain(x.dtype, (*x.shape[:axis], node.int_attr(size, 0), *x.shape[axis + 1 :]))]


def infer_write(node: Node, known: Known) -> Sequence[TensorDesc]:
    """As large as the cache."""
    return _infer(CAPACITY, node)


def infer_read(node: Node, known: Known) -> Sequence[TensorDesc]:
    """As many rows as are read."""
    return _infer(ROWS, node)


def lower_write(node: Node) -> Iterable[KernelCall]:
    """One copy, behind the rows that are there."""
    x, y = node.operand(0), node.output
    dims, strides = x.desc.static_shape, row_major(y.desc.static_shape)
    offset = node.int_attr(FIRST, 0) * strides[node.int_attr(AXIS, 0)]
    return copy_calls(x, y, dims, row_major(dims), strides, dst_offset=offset)


def lower_read(node: Node) -> Iterable[KernelCall]:
    """One copy."""
    x, y = node.operand(0), node.output
    dims = y.desc.static_shape
    return copy_calls(x, y, dims, row_major(x.desc.static_shape), row_major(dims))


for _name, _infer_op, _lower in (("CacheWrite", infer_write, lower_write), ("CacheRead", infer_read, lower_read)):
    register_operator(
        OpDef(name=_name, ge_type=_name, infer=_infer_op, engines={Engine.VECTOR: supports_movement}, lower=_lower)
    )
