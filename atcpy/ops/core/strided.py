"""Launches of the `strided_copy` kernel: every movement of data that is one affine map.

Dims of size 1 go and neighbours that lie as one dim become one, so that the kernel sees few large
dims, the destination's order first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from atcpy.ir import DType, Reject, TensorDesc, Value
from atcpy.ir.node import Node
from atcpy.ir.symbolic import example, same
from atcpy.ops.core.opdef import KernelCall, Lower, ParamValue, Supports

MAX_RANK = 8
MAX_LAUNCHES = 64
ITEM_BYTES = frozenset({1, 2, 4, 8, 16})


def is_empty(dims: Iterable[int]) -> bool:
    """Return whether there are no elements, whatever the symbols are. A launch may have none for some."""
    return any(same(dim, 0) for dim in dims)


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
    order = sorted(
        (axis for axis, dim in enumerate(dims) if not same(dim, 1)), key=lambda axis: -example(dst_strides[axis])
    )
    kept: list[tuple[int, int, int]] = []
    for axis in order:
        dim, src, dst = dims[axis], src_strides[axis], dst_strides[axis]
        if kept and same(kept[-1][1], dim * src) and same(kept[-1][2], dim * dst):
            kept[-1] = (kept[-1][0] * dim, src, dst)
        else:
            kept.append((dim, src, dst))
    return [item[0] for item in kept], [item[1] for item in kept], [item[2] for item in kept]


def copy_calls(
    src: Value,
    dst: Value,
    dims: Sequence[int],
    src_strides: Sequence[int],
    dst_strides: Sequence[int],
    *,
    src_offset: int = 0,
    dst_offset: int = 0,
) -> Iterator[KernelCall]:
    """dst[dst_offset + i·dst_strides] = src[src_offset + i·src_strides] for every i below dims."""
    for params in _launches(dst, dims, src_strides, dst_strides, src_offset, dst_offset):
        yield KernelCall("strided_copy", (src,), (dst,), params)


def fill_calls(
    dst: Value, dims: Sequence[int], dst_strides: Sequence[int], *, value: int = 0, dst_offset: int = 0
) -> Iterator[KernelCall]:
    """dst[dst_offset + i·dst_strides] = the element with the bits `value`, for every i below dims."""
    for params in _launches(dst, dims, [0] * len(dims), dst_strides, 0, dst_offset):
        yield KernelCall("strided_copy", (), (dst,), {**params, "value": value})


def copy_whole(src: Value, dst: Value) -> Iterator[KernelCall]:
    """dst = src, element by element; nothing happens where they are one block of memory."""
    if dst.desc.elements:
        yield from copy_calls(src, dst, [dst.desc.elements], [1], [1])


def copy_bytes(src: Value, dst: Value) -> KernelCall:
    """dst = src, byte by byte: elements may be narrower than one, and the types may differ."""
    line: dict[str, ParamValue] = {"rank": 1, "dims": [src.desc.nbytes], "src_strides": [1], "dst_strides": [1]}
    return KernelCall("strided_copy", (src,), (dst,), {**line, "item": 1})


def _launches(
    dst: Value,
    dims: Sequence[int],
    src_strides: Sequence[int],
    dst_strides: Sequence[int],
    src_offset: int,
    dst_offset: int,
) -> Iterator[dict[str, ParamValue]]:
    """Arguments of one launch, or of one for each index of the smallest dims beyond those that a kernel knows."""
    few = list(zip(*collapse(dims, src_strides, dst_strides), strict=True))
    by_size = sorted(range(len(few)), key=lambda axis: example(few[axis][0]))
    walked = sorted(by_size[: max(len(few) - MAX_RANK, 0)])
    inner = [few[axis] for axis in range(len(few)) if axis not in walked]
    for indices in itertools.product(*(range(few[axis][0]) for axis in walked)):
        steps = [(index * few[axis][1], index * few[axis][2]) for index, axis in zip(indices, walked, strict=True)]
        yield {
            "rank": len(inner), "dims": [dim for dim, _, _ in inner], "src_strides": [src for _, src, _ in inner],
            "dst_strides": [stride for _, _, stride in inner], "src_offset": src_offset + sum(src for src, _ in steps),
            "dst_offset": dst_offset + sum(stride for _, stride in steps), "item": item_bytes(dst.desc.dtype),
        }  # fmt: skip


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


def in_few_launches(supports: Supports, lower: Lower) -> Supports:
    """Supports what becomes a few copies: dims beyond those that the kernel knows take one for each index."""

    def supports_there(node: Node) -> Iterable[Reject]:
        reasons = list(supports(node))
        yield from reasons
        ranks = [len(value.desc.static_shape) for value in (*node.operands, *node.outputs) if value.desc.is_static]
        if (
            not reasons
            and max(ranks) > MAX_RANK
            and sum(1 for _ in itertools.islice(lower(node), MAX_LAUNCHES + 1)) > MAX_LAUNCHES
        ):
            yield Reject("rank", node.name, f"{max(ranks)} dims that do not merge")

    return supports_there
