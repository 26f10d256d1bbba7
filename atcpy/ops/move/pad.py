"""Pad: a copy of what stays; the borders are filled, or copied from inside.

A constant border is filled a slab at a time. Other borders, and those of many dims, are written by
the `pad` kernel, row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import NC1HWC0, Engine, Format, Node, Reject, TensorDesc, Value
from atcpy.ir.symbolic import is_symbolic, maximum, minimum, same, same_shape
from atcpy.ir.tensor import Array
from atcpy.ops.core.axes import constant_integers, known_integers, normal_axes, rejects_operand, unnamed_dim
from atcpy.ops.core.opdef import (
    GeTypes,
    KernelCall,
    Known,
    Layout,
    OpDef,
    ParamValue,
    Perm,
    Permuted,
    Trait,
    register_operator,
)
from atcpy.ops.core.permute import permute_axes_input
from atcpy.ops.core.reference import known_constant
from atcpy.ops.core.shape_values import integers
from atcpy.ops.core.strided import MAX_RANK, copy_calls, fill_calls, is_empty, item_bytes, row_major, supports_movement

PADS, VALUE, AXES = 1, 2, 3
MODES = frozenset({"constant", "edge", "reflect", "wrap"})


@dataclass(frozen=True, slots=True)
class Span:
    """Indices [begin, begin + count) of a dim of the result are `start`, `start + 1` … of the input."""

    begin: int
    count: int
    start: int


Border = tuple[int, int]  # elements added before and after a dim; negative ones are taken away


def _borders(node: Node, rank: int, pads: tuple[int, ...], axes: tuple[int, ...] | None) -> list[Border]:
    padded_axes = normal_axes(node, range(rank) if axes is None else axes, rank)
    if len(pads) != 2 * len(padded_axes):
        raise ModelInvalid("EZ8888", where=node, what=f"pads has {len(pads)} values, needs {2 * len(padded_axes)}")
    borders = [(0, 0)] * rank
    for index, axis in enumerate(padded_axes):
        borders[axis] = (pads[index], pads[index + len(padded_axes)])
    return borders


def infer_pad(node: Node, known: Known) -> Sequence[TensorDesc]:
    """Each size and its two borders."""
    x = node.operand(0).desc
    if x.shape is None:
        return [TensorDesc.plain(x.dtype, None)]
    mode = node.str_attr("mode", "constant")
    if mode not in MODES:
        raise ModelInvalid("E13014", where=node, what=f"mode = {mode} is none of {', '.join(sorted(MODES))}")
    pads, axes = known_integers(node, PADS, known), known_integers(node, AXES, known)
    if pads is None or (axes is None and node.input(AXES) is not None):
        return [TensorDesc.plain(x.dtype, tuple(unnamed_dim(node, axis) for axis in range(len(x.shape))))]
    dims = list(x.shape)
    for axis, (before, after) in enumerate(_borders(node, len(dims), pads, axes)):
        size = dims[axis]
        if not isinstance(size, int):
            dims[axis] = size if (before, after) == (0, 0) else unnamed_dim(node, axis)
            continue
        if size + before + after < 0:
            raise ModelInvalid("EZ8888", where=node, what=f"pads take more from dim {axis} than its {size} elements")
        dims[axis] = size + before + after
    return [TensorDesc.plain(x.dtype, tuple(dims))]


def borders(node: Node) -> list[Border]:
    """The borders of a Pad with constant pads."""
    axes = None if node.input(AXES) is None else constant_integers(node, AXES)
    return _borders(node, len(node.operand(0).desc.static_shape), constant_integers(node, PADS), axes)


def supports_pad(node: Node) -> Iterable[Reject]:
    """Constant pads; something to repeat in every dim that has a border."""
    yield from supports_movement(node)
    operands = list(rejects_operand(node, PADS, "pads")) + list(rejects_operand(node, AXES, "axes"))
    yield from operands
    if operands or not node.operand(0).desc.is_static or not node.output.desc.is_static:
        return
    x = node.operand(0).desc
    if node.str_attr("mode", "constant") != "constant":
        for size, border in zip(x.static_shape, borders(node), strict=True):
            if not any(map(is_symbolic, (size, *border))) and max(border) > 0 and _kept(size, border) == 0:
                yield Reject("pads-without-input", node.name, f"pads {border} of {size} elements")
    if not _in_copies(node) and len(_merged(x.static_shape, borders(node))[0]) > MAX_RANK:
        yield Reject("rank", node.name, f"{len(x.static_shape)} dims that do not merge")


def _kept(size: int, border: Border) -> int:
    """Elements of the input that stay."""
    return maximum(size + minimum(border[0], 0) + minimum(border[1], 0), 0)


def _in_copies(node: Node) -> bool:
    """True if a copy and fills make it."""
    is_constant = node.str_attr("mode", "constant") == "constant"
    return is_constant and len(node.operand(0).desc.static_shape) <= MAX_RANK


def _is_plain(border: Border) -> bool:
    """Is there no border, whatever the symbols are?"""
    return same_shape(border, (0, 0))


def _merged(sizes: Sequence[int], around: Sequence[Border]) -> tuple[list[int], list[Border]]:
    """The same padding in fewer dims: one that has no border becomes part of a neighbour before it without."""
    dims: list[int] = []
    kept: list[Border] = []
    for size, border in zip(sizes, around, strict=True):
        if kept and _is_plain(border) and _is_plain(kept[-1]):
            dims[-1] *= size
        else:
            dims.append(size)
            kept.append(border)
    return dims, kept


def layout_pad(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """In 5D unless channels move within their blocks, or are copies of others."""
    if at_hand[0] != NC1HWC0:
        return Reject("no-blocked-input", node.name)
    border, c0 = borders(node)[1], NC1HWC0.c0
    in_blocks = not any(size % c0 for size in (node.operand(0).desc.static_shape[1], *border))
    stay = border[0] % c0 == 0 and min(border) >= 0
    if border != (0, 0) and (not (in_blocks or stay) or node.str_attr("mode", "constant") != "constant"):
        return Reject("channel-axis", node.name, f"channels padded by {border}")
    return Layout((NC1HWC0, *[None] * (node.input_count - 1)), (NC1HWC0,))


def lower_pad(node: Node) -> Iterable[KernelCall]:
    """The copies and fills."""
    x, y = node.operand(0), node.output
    sizes, dims = x.desc.memory_shape, y.desc.memory_shape
    if is_empty(dims):
        return
    around = borders(node)
    if y.desc.storage_shape is not None:
        before = around[1][0] // y.desc.format.c0
        around[1:] = [(before, dims[1] - sizes[1] - before), *around[2:], (0, 0)]
    if not _in_copies(node):
        mode = node.str_attr("mode", "constant")
        yield _pad_call(x, y, node.input(VALUE) if mode == "constant" else None, mode, *_merged(sizes, around))
        return
    spans = [_span(size, border) for size, border in zip(sizes, around, strict=True)]
    inside = [span or Span(0, 0, 0) for span in spans]
    if all(spans):
        yield from _copy(x, y, inside)
    yield from _fills(y, node.input(VALUE), inside)
    if y.desc.storage_shape is not None and all(spans):
        yield from _fill_last_block(node, inside)


def _fill_last_block(node: Node, inside: Sequence[Span]) -> Iterable[KernelCall]:
    """What the copy took along of the last block of channels beyond the input's own becomes border, if there is one."""
    y, channels = node.output, node.operand(0).desc.static_shape[1]
    used = channels % y.desc.format.c0
    if not used or borders(node)[1][1] <= 0:
        return
    last = inside[1].begin + inside[1].count - 1
    slab = [inside[0].count, 1, *(span.count for span in inside[2:-1]), y.desc.format.c0 - used]
    begins = [inside[0].begin, last, *(span.begin for span in inside[2:-1]), used]
    yield from _fill(y, node.input(VALUE), slab, begins)


def _span(size: int, border: Border) -> Span | None:
    """What is kept of a dim, None if nothing is."""
    kept = _kept(size, border)
    if same(kept, 0):
        return None
    # Where nothing is kept, as much may be taken away behind as comes in front.
    return Span(minimum(maximum(border[0], 0), size + border[0] + border[1]), kept, maximum(-border[0], 0))


def _pad_call(
    x: Value, y: Value, value: Value | None, mode: str, sizes: Sequence[int], around: Sequence[Border]
) -> KernelCall:
    strides = row_major(sizes)
    dims = [size + sum(border) for size, border in zip(sizes, around, strict=True)]
    params: dict[str, ParamValue] = {
        "mode": mode, "rank": len(sizes), "dims": dims,
        "sizes": [_kept(size, border) for size, border in zip(sizes, around, strict=True)],
        "before": [maximum(before, 0) for before, _ in around], "x_strides": strides,
        "x_offset": sum(maximum(-before, 0) * stride for (before, _), stride in zip(around, strides, strict=True)),
        "item": item_bytes(x.desc.dtype),
    }  # fmt: skip
    return KernelCall("pad", (x,) if value is None else (x, value), (y,), params)


def _copy(x: Value, y: Value, spans: Sequence[Span]) -> Iterable[KernelCall]:
    src, dst = row_major(x.desc.memory_shape), row_major(y.desc.memory_shape)
    return copy_calls(
        x,
        y,
        [span.count for span in spans],
        src,
        dst,
        src_offset=sum(span.start * stride for span, stride in zip(spans, src, strict=True)),
        dst_offset=sum(span.begin * stride for span, stride in zip(spans, dst, strict=True)),
    )


def _fills(y: Value, value: Value | None, inside: Sequence[Span]) -> Iterable[KernelCall]:
    """Slabs before and after the inside, dim by dim; earlier dims are then within their inside."""
    dims = list(y.desc.memory_shape)
    begins = [0] * len(dims)
    for axis, span in enumerate(inside):
        size = dims[axis]
        end = span.begin + span.count
        for begin, count in ((0, span.begin), (end, size - end)):
            slab = [*dims[:axis], count, *dims[axis + 1 :]]
            if not is_empty(slab):
                yield from _fill(y, value, slab, [*begins[:axis], begin, *begins[axis + 1 :]])
        dims[axis], begins[axis] = span.count, span.begin


def _fill(y: Value, value: Value | None, slab: Sequence[int], begins: Sequence[int]) -> Iterable[KernelCall]:
    strides = row_major(y.desc.memory_shape)
    offset = sum(at * stride for at, stride in zip(begins, strides, strict=True))
    if value is None:
        return fill_calls(y, slab, strides, dst_offset=offset)
    return copy_calls(value, y, slab, [0] * len(slab), strides, dst_offset=offset)


def evaluate_pad(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Crop by the negative pads, then add the others: ONNX's own implementation takes no negative ones."""
    x, pads, value, axes = (*arrays, None, None)[:4]
    assert x is not None and pads is not None
    around = _borders(node, x.ndim, tuple(pads.tolist()), None if axes is None else tuple(axes.tolist()))
    dims = [size + sum(border) for size, border in zip(x.shape, around, strict=True)]
    if min(dims, default=0) < 0:
        raise ModelInvalid("EZ8888", where=node, what=f"pads take more from {list(x.shape)} than its elements")
    starts = [max(-before, 0) for before, _ in around]
    kept = x[tuple(slice(s, s + _kept(n, border)) for s, n, border in zip(starts, x.shape, around, strict=True))]
    mode = node.str_attr("mode", "constant")
    if mode != "constant":
        widths = [(max(before, 0), max(after, 0)) for before, after in around]
        return [np.pad(kept, widths, mode)]  # type: ignore[call-overload]
    y = np.full(dims, ("" if x.dtype == object else 0) if value is None else value.reshape(()), x.dtype)
    if kept.size:
        y[
            tuple(slice(max(before, 0), max(before, 0) + n) for (before, _), n in zip(around, kept.shape, strict=True))
        ] = kept
    return [y]


def permute_pad(node: Node, perm: Perm) -> Permuted | None:
    """Two numbers a dim, or the axes that they belong to."""
    if node.input(AXES) is not None:
        return permute_axes_input(AXES)(node, perm)
    pads, rank = integers(known_constant(node.input(PADS))), len(perm)
    if pads is None or len(pads) != 2 * rank:
        return None
    return Permuted({}, {PADS: np.array([pads[side + axis] for side in (0, rank) for axis in perm], np.int64)})


def type_in_ge(node: Node) -> str:
    """GE has an op of its own for mirrored borders."""
    return "PadV2" if node.str_attr("mode", "constant") == "constant" else "MirrorPad"


register_operator(
    OpDef(
        name="Pad",
        ge_type=GeTypes(("PadV2", "MirrorPad"), type_in_ge),
        infer=infer_pad,
        engines={Engine.VECTOR: supports_pad},
        layout=layout_pad,
        lower=lower_pad,
        evaluate=evaluate_pad,
        data=(0,),
        permute=permute_pad,
        traits=Trait.INSERTS,
    )
)
