"""Launches of the `strided_copy` kernel: every movement of data that is one affine map.

Dims of size 1 go and neighbours that lie as one dim become one, so that the kernel sees few large
dims, the destination's order first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atcpy.errors import InternalError
from atcpy.ir import DType, Reject, TensorDesc, Value
from atcpy.ir.node import Node
from atcpy.ops.opdef import KernelCall, ParamValue

MAX_RANK = 8
ITEM_BYTES = frozenset({1, 2, 4, 8, 16})


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a tensor that lies row by row."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def collapse(
    dims: Sequence[int], src_strides: Sequence[int], dst_strides: Sequence[int]
) -> tuple[list[int], list[int], list[int]]:
    """The same map in as few dims as possible, ordered by destination strides."""
    order = sorted((axis for axis, dim in enumerate(dims) if dim != 1), key=lambda axis: -dst_strides[axis])
    kept: list[tuple[int, int, int]] = []
    for axis in order:
        dim, src, dst = dims[axis], src_strides[axis], dst_strides[axis]
        if kept and kept[-1][1] == dim * src and kept[-1][2] == dim * dst:
            kept[-1] = (kept[-1][0] * dim, src, dst)
        else:
            kept.append((dim, src, dst))
    return [item[0] for item in kept], [item[1] for item in kept], [item[2] for item in kept]


def copy_call(
    src: Value,
    dst: Value,
    dims: Sequence[int],
    src_strides: Sequence[int],
    dst_strides: Sequence[int],
    *,
    src_offset: int = 0,
    dst_offset: int = 0,
) -> KernelCall:
    """dst[dst_offset + i·dst_strides] = src[src_offset + i·src_strides] for every i below dims."""
    few, src_few, dst_few = collapse(dims, src_strides, dst_strides)
    if len(few) > MAX_RANK:
        raise InternalError(f"a copy into {dst.name} has {len(few)} dims")
    params: dict[str, ParamValue] = {
        "rank": len(few), "dims": few, "src_strides": src_few, "dst_strides": dst_few,
        "src_offset": src_offset, "dst_offset": dst_offset, "item": item_bytes(dst.desc.dtype),
    }  # fmt: skip
    return KernelCall("strided_copy", (src,), (dst,), params)


def fill_call(
    dst: Value, dims: Sequence[int], dst_strides: Sequence[int], *, value: int = 0, dst_offset: int = 0
) -> KernelCall:
    """dst[dst_offset + i·dst_strides] = the element with the bits `value`, for every i below dims."""
    few, _, dst_few = collapse(dims, [0] * len(dims), dst_strides)
    if len(few) > MAX_RANK:
        raise InternalError(f"a fill of {dst.name} has {len(few)} dims")
    params: dict[str, ParamValue] = {
        "rank": len(few), "dims": few, "dst_strides": dst_few, "dst_offset": dst_offset,
        "item": item_bytes(dst.desc.dtype), "value": value,
    }  # fmt: skip
    return KernelCall("strided_copy", (), (dst,), params)


def item_bytes(dtype: DType) -> int:
    """Bytes of an element that kernels move."""
    return dtype.bits // 8


def is_movable(dtype: DType) -> bool:
    """True for element types of whole bytes, whatever they mean."""
    return dtype.bits % 8 == 0 and dtype.bits // 8 in ITEM_BYTES


def supports_movement(node: Node) -> Iterable[Reject]:
    """Static shapes and an element type of whole bytes, for input 0 and every output."""
    for value in (*node.operands[:1], *node.outputs):
        yield from rejects_value(node, value.desc)


def rejects_value(node: Node, desc: TensorDesc) -> Iterable[Reject]:
    """Why a value cannot be moved by kernels."""
    if not is_movable(desc.dtype):
        yield Reject("dtype", node.name, desc.dtype.long)
    if not desc.is_static:
        yield Reject("shape-unknown", node.name)
    elif len(desc.static_shape) > MAX_RANK:
        yield Reject("rank", node.name, f"{len(desc.static_shape)} dims")
