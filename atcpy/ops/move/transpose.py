"""Transpose, DepthToSpace and SpaceToDepth: copies whose dims come in another order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atcpy.errors import ModelInvalid
from atcpy.ir import NC1HWC0, Engine, Format, Node, Reject, TensorDesc
from atcpy.ir.shape import Dim, Shape
from atcpy.ir.tensor import Array
from atcpy.ops.core.axes import normal_axes, unnamed_dim
from atcpy.ops.core.opdef import KernelCall, Known, Layout, OpDef, Trait, register_operator
from atcpy.ops.core.strided import copy_calls, in_few_launches, row_major, supports_movement

# --- Transpose ---------------------------------------------------------------------------------


def permutation(node: Node, rank: int) -> tuple[int, ...]:
    """The input's dim that each dim of the output is; reversed by default."""
    stated = node.ints_attr("perm", range(rank - 1, -1, -1))
    perm = normal_axes(node, stated, rank)
    if len(perm) != rank or perm != stated:
        raise ModelInvalid("E13014", where=node, what=f"perm = {list(stated)} for a tensor of rank {rank}")
    return perm


def infer_transpose(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The dims in another order."""
    x = node.operand(0).desc
    if x.shape is None:
        return [TensorDesc.plain(x.dtype, None)]
    return [TensorDesc.plain(x.dtype, tuple(x.shape[axis] for axis in permutation(node, len(x.shape))))]


def evaluate_transpose(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Transpose on numpy."""
    assert arrays[0] is not None
    return [arrays[0].transpose(permutation(node, arrays[0].ndim))]


def layout_transpose(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """Reads 5D as it is, for that is a permutation too; what it makes is plain."""
    if at_hand[0] != NC1HWC0:
        return Reject("no-blocked-input", node.name)
    return Layout((NC1HWC0,), (None,))


def lower_transpose(node: Node) -> Iterable[KernelCall]:
    """One copy, in the order of the result. Of 5D, one of whole blocks and one of the rest."""
    x, y = node.operand(0), node.output
    shape, perm = x.desc.static_shape, permutation(node, len(x.desc.static_shape))
    if 0 in shape:
        return
    dst = [0] * len(shape)
    for axis, stride in zip(perm, row_major(y.desc.static_shape), strict=True):
        dst[axis] = stride
    if x.desc.storage_shape is None:
        yield from copy_calls(x, y, shape, row_major(shape), dst)
        return
    n, c, h, w = shape
    c0 = x.desc.format.c0
    block, rest = h * w * c0, c % c0
    image = -(-c // c0) * block
    if c >= c0:
        dims, src = (n, c // c0, c0, h, w), (image, block, 1, w * c0, c0)
        yield from copy_calls(x, y, dims, src, (dst[0], dst[1] * c0, *dst[1:]))
    if rest:
        whole = c - rest
        src_offset, dst_offset = whole // c0 * block, whole * dst[1]
        strides = (image, 1, w * c0, c0)
        yield from copy_calls(x, y, (n, rest, h, w), strides, dst, src_offset=src_offset, dst_offset=dst_offset)


# --- DepthToSpace, SpaceToDepth ----------------------------------------------------------------


def _block_size(node: Node) -> int:
    size = node.int_attr("blocksize", 0)
    if size < 1:
        raise ModelInvalid("E13014", where=node, what=f"blocksize = {size} must be positive")
    return size


def _depth_first(node: Node) -> bool:
    mode = node.str_attr("mode", "DCR")
    if mode not in {"DCR", "CRD"}:
        raise ModelInvalid("E13014", where=node, what=f"mode = {mode} is neither DCR nor CRD")
    return mode == "DCR"


def infer_depth_to_space(node: Node, known: Known) -> Sequence[TensorDesc]:
    """[N, C·b², H, W] gives [N, C, H·b, W·b]."""
    x, b = node.operand(0).desc, _block_size(node)
    if x.shape is None:
        return [TensorDesc.plain(x.dtype, None)]
    n, c, h, w = _four_dims(node, x.shape)
    return [TensorDesc.plain(x.dtype, (n, _over(node, 1, c, b * b), _times(node, 2, h, b), _times(node, 3, w, b)))]


def infer_space_to_depth(node: Node, known: Known) -> Sequence[TensorDesc]:
    """[N, C, H·b, W·b] gives [N, C·b², H, W]."""
    x, b = node.operand(0).desc, _block_size(node)
    if x.shape is None:
        return [TensorDesc.plain(x.dtype, None)]
    n, c, h, w = _four_dims(node, x.shape)
    return [TensorDesc.plain(x.dtype, (n, _times(node, 1, c, b * b), _over(node, 2, h, b), _over(node, 3, w, b)))]


def _four_dims(node: Node, shape: Shape) -> Shape:
    if len(shape) != 4:
        raise ModelInvalid("EZ8888", where=node, what=f"input of rank {len(shape)}, needs 4")
    return shape


def _times(node: Node, axis: int, size: Dim, factor: int) -> Dim:
    return size * factor if isinstance(size, int) else unnamed_dim(node, axis)


def _over(node: Node, axis: int, size: Dim, divisor: int) -> Dim:
    if not isinstance(size, int):
        return unnamed_dim(node, axis)
    if size % divisor:
        raise ModelInvalid("EZ8888", where=node, what=f"dim {axis} of size {size} is not a multiple of {divisor}")
    return size // divisor


def layout_depth_space(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """In 5D where whole blocks of channels move together."""
    if at_hand[0] != NC1HWC0:
        return Reject("no-blocked-input", node.name)
    c = min(value.desc.static_shape[1] for value in (node.operand(0), node.output))
    if c % NC1HWC0.c0 or not _depth_first(node):
        return Reject("channel-axis", node.name, f"{c} channels in mode {node.str_attr('mode', 'DCR')}")
    return Layout((NC1HWC0,), (NC1HWC0,))


def lower_depth_space(node: Node) -> Iterable[KernelCall]:
    """One copy over [n, b, b, c, h, w, c0]; depth is split as (b, b, c) or (c, b, b)."""
    x, y, b = node.operand(0), node.output, _block_size(node)
    deep, wide = (x, y) if node.op_type == "DepthToSpace" else (y, x)
    n, _, h, w = deep.desc.static_shape
    c0 = deep.desc.format.c0 or 1
    c = wide.desc.memory_shape[1]
    dims = (n, b, b, c, h, w, c0)
    pixel, row, plane = c0, w * c0, h * w * c0
    order = (b * c * plane, c * plane, plane) if _depth_first(node) else (b * plane, plane, b * b * plane)
    in_deep = (b * b * c * plane, *order, row, pixel, 1)
    wide_row = w * b * c0
    wide_plane = h * b * wide_row
    in_wide = (c * wide_plane, wide_row, c0, wide_plane, b * wide_row, b * c0, 1)
    if 0 in dims:
        return
    src, dst = (in_deep, in_wide) if x is deep else (in_wide, in_deep)
    yield from copy_calls(x, y, dims, src, dst)


register_operator(
    OpDef(
        name="Transpose",
        infer=infer_transpose,
        evaluate=evaluate_transpose,
        engines={Engine.VECTOR: in_few_launches(supports_movement, lower_transpose)},
        layout=layout_transpose,
        lower=lower_transpose,
        traits=Trait.SELECTION,
    )
)
for _name, _infer in (("DepthToSpace", infer_depth_to_space), ("SpaceToDepth", infer_space_to_depth)):
    register_operator(
        OpDef(
            name=_name,
            infer=_infer,
            engines={Engine.VECTOR: supports_movement},
            layout=layout_depth_space,
            lower=lower_depth_space,
            traits=Trait.SELECTION,
        )
    )
