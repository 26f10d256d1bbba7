"""Expand and Tile: one copy that reads elements more than once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import NC1HWC0, Engine, Format, Node, Reject, TensorDesc
from atcpy.ir.shape import Dim, Shape, format_shape
from atcpy.ir.symbolic import agree, same
from atcpy.ir.tensor import Array
from atcpy.ops.core.axes import known_integers, unnamed_dim
from atcpy.ops.core.opdef import KernelCall, Known, Layout, OpDef, Perm, Permuted, Trait, register_operator
from atcpy.ops.core.reference import has_few_elements, known_constant
from atcpy.ops.core.shape_values import integers, mul
from atcpy.ops.core.strided import copy_calls, in_few_launches, is_empty, row_major, supports_movement

# --- Expand ------------------------------------------------------------------------------------


def infer_expand(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The input's shape and operand 1, broadcast against each other."""
    x = node.operand(0).desc
    target = known(node.operand(1))
    if x.shape is None:
        return [TensorDesc.plain(x.dtype, None)]
    if target is None:
        length = (node.operand(1).desc.shape or (None,))[0]
        rank = max(length, len(x.shape)) if isinstance(length, int) else None
        unknown = None if rank is None else tuple(unnamed_dim(node, axis) for axis in range(rank))
        return [TensorDesc.plain(x.dtype, unknown)]
    return [TensorDesc.plain(x.dtype, _expanded(node, x.shape, target))]


def _expanded(node: Node, shape: Shape, target: Shape) -> Shape:
    rank = max(len(shape), len(target))
    padded, expanded = ((1,) * (rank - len(dims)) + dims for dims in (shape, target))
    dims: list[Dim] = []
    for axis, (have, want) in enumerate(zip(padded, expanded, strict=True)):
        is_negative = isinstance(want, int) and want < 0
        one = same(have, 1) or same(want, 1)
        differ = not one and isinstance(have, int) and isinstance(want, int) and not agree(have, want)
        if is_negative or differ:
            text = f"shape {format_shape(shape)} cannot be expanded to {format_shape(target)}"
            raise ModelInvalid("EZ8888", where=node, what=text)
        if same(have, 1) or same(have, want):
            dims.append(want)
        elif same(want, 1) or (isinstance(have, int) and not isinstance(want, int)):
            dims.append(have)
        elif isinstance(want, int):
            dims.append(want)
        else:
            dims.append(unnamed_dim(node, axis))
    return tuple(dims)


def propagate_expand(node: Node, known: Known) -> tuple[Dim, ...] | None:
    """The elements; a single one as often as the shape says."""
    elements, y = known(node.operand(0)), node.output.desc
    if elements is None or not has_few_elements(y):
        return None
    return elements * y.elements if len(elements) == 1 else elements


def evaluate_expand(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Expand on numpy."""
    x, target = arrays
    assert x is not None and target is not None
    return [np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(int(dim) for dim in target)))]


def layout_expand(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """In 5D where the channels stay what they are."""
    x, y = node.operand(0).desc.static_shape, node.output.desc.static_shape
    if at_hand[0] != NC1HWC0:
        return Reject("no-blocked-input", node.name)
    if len(y) != 4 or x[1] != y[1]:
        return Reject("channel-axis", node.name, f"{format_shape(x)} becomes {format_shape(y)}")
    return Layout((NC1HWC0, None), (NC1HWC0,))


def lower_expand(node: Node) -> Iterable[KernelCall]:
    """One copy; a dim that is repeated has a source stride of 0."""
    x, y = node.operand(0), node.output
    dims, shape = y.desc.memory_shape, x.desc.memory_shape
    if is_empty(dims):
        return
    strides = [0 if same(size, 1) else stride for size, stride in zip(shape, row_major(shape), strict=True)]
    yield from copy_calls(x, y, dims, [0] * (len(dims) - len(shape)) + strides, row_major(dims))


# --- Tile --------------------------------------------------------------------------------------


def infer_tile(node: Node, known: Known) -> Sequence[TensorDesc]:
    """Each size times its repeats."""
    x = node.operand(0).desc
    if x.shape is None:
        return [TensorDesc.plain(x.dtype, None)]
    repeats = known(node.operand(1))
    if repeats is None:
        return [TensorDesc.plain(x.dtype, tuple(unnamed_dim(node, axis) for axis in range(len(x.shape))))]
    if len(repeats) != len(x.shape) or any(isinstance(count, int) and count < 0 for count in repeats):
        raise ModelInvalid("EZ8888", where=node, what=f"repeats = {list(repeats)} for {format_shape(x.shape)}")
    return [TensorDesc.plain(x.dtype, tuple(mul(size, count) for size, count in zip(x.shape, repeats, strict=True)))]


def propagate_tile(node: Node, known: Known) -> tuple[Dim, ...] | None:
    """The elements, as often as operand 1 says."""
    elements, repeats = known(node.operand(0)), known_integers(node, 1, known)
    if elements is None or repeats is None or len(repeats) != 1 or not has_few_elements(node.output.desc):
        return None
    return elements * repeats[0]


def evaluate_tile(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Tile on numpy."""
    x, repeats = arrays
    assert x is not None and repeats is not None
    return [np.tile(x, [int(count) for count in repeats])]


def _tiles(node: Node) -> tuple[list[int], list[int], list[int]]:
    """Dims and strides of the copy: each dim and, outside it, its repeats."""
    shape, result = node.operand(0).desc.memory_shape, node.output.desc.memory_shape
    dims: list[int] = []
    src: list[int] = []
    dst: list[int] = []
    for size, whole, src_stride, dst_stride in zip(shape, result, row_major(shape), row_major(result), strict=True):
        dims += [whole // size, size]
        src += [0, src_stride]
        dst += [dst_stride * size, dst_stride]
    return dims, src, dst


def layout_tile(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """In 5D unless channels that do not fill their blocks are repeated."""
    x, y = node.operand(0).desc.static_shape, node.output.desc.static_shape
    if at_hand[0] != NC1HWC0:
        return Reject("no-blocked-input", node.name)
    if x[1] != y[1] and x[1] % NC1HWC0.c0:
        return Reject("channel-axis", node.name, f"{x[1]} channels repeated")
    return Layout((NC1HWC0, None), (NC1HWC0,))


def lower_tile(node: Node) -> Iterable[KernelCall]:
    """One copy."""
    if not is_empty(node.output.desc.static_shape):
        yield from copy_calls(node.operand(0), node.output, *_tiles(node))


def permute_tile(node: Node, perm: Perm) -> Permuted | None:
    """One number a dim."""
    repeats = integers(known_constant(node.input(1)))
    return None if repeats is None else Permuted({}, {1: np.array([repeats[axis] for axis in perm], np.int64)})


register_operator(
    OpDef(
        name="Expand",
        infer=infer_expand,
        propagate=propagate_expand,
        evaluate=evaluate_expand,
        engines={Engine.VECTOR: in_few_launches(supports_movement, lower_expand)},
        layout=layout_expand,
        lower=lower_expand,
        traits=Trait.EAGER | Trait.BROADCAST | Trait.CONVERSION | Trait.SELECTION,
    )
)
register_operator(
    OpDef(
        name="Tile",
        infer=infer_tile,
        propagate=propagate_tile,
        evaluate=evaluate_tile,
        engines={Engine.VECTOR: in_few_launches(supports_movement, lower_tile)},
        layout=layout_tile,
        lower=lower_tile,
        data=(0,),
        permute=permute_tile,
        traits=Trait.CONVERSION | Trait.SELECTION,
    )
)
