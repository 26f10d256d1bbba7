"""CenterCropPad: the middle of a tensor, with zeros around it where it is too small."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atcpy.errors import ModelInvalid
from atcpy.ir import Engine, Node, TensorDesc
from atcpy.ir.symbolic import minimum
from atcpy.ops.core.axes import known_integers, normal_axes, unnamed_dim
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, Trait, register_operator
from atcpy.ops.core.strided import copy_calls, fill_calls, is_empty, row_major, supports_movement


def infer_center_crop_pad(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The dims `axes` become those of operand 1."""
    x = node.operand(0).desc
    if x.shape is None:
        return [TensorDesc.plain(x.dtype, None)]
    rank = len(x.shape)
    axes, sizes = normal_axes(node, node.ints_attr("axes", range(rank)), rank), known_integers(node, 1, known)
    if sizes is not None and (len(sizes) != len(axes) or min(sizes, default=0) < 0):
        raise ModelInvalid("EZ8888", where=node, what=f"sizes {list(sizes)} for {len(axes)} dims")
    dims = list(x.shape)
    for index, axis in enumerate(axes):
        dims[axis] = unnamed_dim(node, axis) if sizes is None else sizes[index]
    return [TensorDesc.plain(x.dtype, tuple(dims))]


def lower_center_crop_pad(node: Node) -> Iterable[KernelCall]:
    """Zeros, if something grows, and a copy of the middle. Of an odd rest, the larger half is at the end."""
    x, y = node.operand(0), node.output
    before, after = x.desc.static_shape, y.desc.static_shape
    if is_empty(after):
        return
    src, dst = row_major(before), row_major(after)
    if any(size > old for size, old in zip(after, before, strict=True)):
        yield from fill_calls(y, after, dst)
    common = [minimum(*pair) for pair in zip(before, after, strict=True)]
    if is_empty(common):
        return
    yield from copy_calls(
        x,
        y,
        common,
        src,
        dst,
        src_offset=sum((size - kept) // 2 * step for size, kept, step in zip(before, common, src, strict=True)),
        dst_offset=sum((size - kept) // 2 * step for size, kept, step in zip(after, common, dst, strict=True)),
    )


register_operator(
    OpDef(
        name="CenterCropPad",
        infer=infer_center_crop_pad,
        engines={Engine.VECTOR: supports_movement},
        lower=lower_center_crop_pad,
        traits=Trait.INSERTS,
    )
)
