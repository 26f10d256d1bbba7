"""Concat and Split: one copy an input, one copy an output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import NC1HWC0, Engine, Format, Node, Reject, TensorDesc
from atcpy.ir.shape import Dim, Shape, format_shape
from atcpy.ir.symbolic import agree
from atcpy.ir.tensor import Array
from atcpy.ops.core.axes import known_integers, normal_axis, rejects_operand, unnamed_dim
from atcpy.ops.core.opdef import Axis, KernelCall, Known, Layout, OpDef, Trait, register_operator
from atcpy.ops.core.shape_values import add, integers, is_vector
from atcpy.ops.core.strided import copy_calls, in_few_launches, rejects_value, row_major, supports_movement

CHANNELS = 1

# --- Concat ------------------------------------------------------------------------------------


def infer_concat(node: Node, known: Known) -> Sequence[TensorDesc]:
    """Sizes along the axis add up; the others agree."""
    shapes = [value.desc.shape for value in node.operands]
    dtype = node.operand(0).desc.dtype
    there = [shape for shape in shapes if shape is not None]
    if not there:
        return [TensorDesc.plain(dtype, None)]
    rank = len(there[0])
    axis = normal_axis(node, node.int_attr("axis", 0), rank)
    dims: list[Dim] = [_agreed(node, there, index) for index in range(rank)]
    if len(there) < len(shapes):
        dims[axis] = unnamed_dim(node, axis)
    else:
        dims[axis] = 0
        for shape in there:
            dims[axis] = add(dims[axis], shape[axis])
    for shape in there:
        for index, dim in enumerate(shape):
            if index != axis and isinstance(dim, int) and not _is(dims[index], dim):
                raise _mismatch(node, there)
    return [TensorDesc.plain(dtype, tuple(dims))]


def _is(dim: Dim, size: int) -> bool:
    return isinstance(dim, int) and agree(dim, size)


def _agreed(node: Node, shapes: Sequence[Shape], index: int) -> Dim:
    if any(len(shape) != len(shapes[0]) for shape in shapes):
        raise _mismatch(node, shapes)
    return next((shape[index] for shape in shapes if isinstance(shape[index], int)), shapes[0][index])


def _mismatch(node: Node, shapes: Sequence[Shape]) -> ModelInvalid:
    listed = ", ".join(format_shape(shape) for shape in shapes)
    return ModelInvalid("EZ8888", where=node, what=f"shapes {listed} do not fit along axis {node.int_attr('axis', 0)}")


def propagate_concat(node: Node, known: Known) -> tuple[Dim, ...] | None:
    """The elements of all inputs in a row."""
    elements: list[Dim] = []
    for value in node.operands:
        part = known(value)
        if part is None or not is_vector(value):
            return None
        elements.extend(part)
    return tuple(elements)


def evaluate_concat(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Concat on numpy."""
    return [np.concatenate([array for array in arrays if array is not None], node.int_attr("axis", 0))]


def supports_concat(node: Node) -> Iterable[Reject]:
    """Any element type of whole bytes, any rank that kernels know."""
    for value in (*node.operands, node.output):
        yield from rejects_value(node, value.desc)


def layout_concat(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """In 5D along any dim; along channels where each part begins with a block."""
    if NC1HWC0 not in at_hand:
        return Reject("no-blocked-input", node.name)
    parts = [value.desc.static_shape[CHANNELS] for value in node.operands]
    if normal_axis(node, node.int_attr("axis", 0), 4) == CHANNELS and any(c % NC1HWC0.c0 for c in parts[:-1]):
        return Reject("channel-axis", node.name, f"channels {parts} do not begin with a block of {NC1HWC0.c0}")
    return Layout((NC1HWC0,) * node.input_count, (NC1HWC0,))


def lower_concat(node: Node) -> Iterable[KernelCall]:
    """One copy an input, into its part of the result."""
    y = node.output
    strides = row_major(y.desc.memory_shape)
    axis = normal_axis(node, node.int_attr("axis", 0), len(y.desc.static_shape))
    begin = 0
    for x in node.operands:
        dims = x.desc.memory_shape
        if 0 not in dims:
            yield from copy_calls(x, y, dims, row_major(dims), strides, dst_offset=begin * strides[axis])
        begin += dims[axis]


# --- Split -------------------------------------------------------------------------------------


def infer_split(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The sizes of operand 1, or equal ones of which the last may be smaller."""
    x = node.operand(0).desc
    if x.shape is None:
        return [TensorDesc.plain(x.dtype, None) for _ in node.outputs]
    axis = normal_axis(node, node.int_attr("axis", 0), len(x.shape))
    sizes = _split_sizes(node, x.shape[axis], known_integers(node, 1, known))
    return [TensorDesc.plain(x.dtype, (*x.shape[:axis], size, *x.shape[axis + 1 :])) for size in sizes]


def _split_sizes(node: Node, size: Dim, stated: tuple[int, ...] | None) -> Sequence[Dim]:
    count = len(node.outputs)
    if stated is not None:
        if len(stated) != count or min(stated, default=0) < 0 or (isinstance(size, int) and sum(stated) != size):
            raise ModelInvalid("EZ8888", where=node, what=f"{size} cannot be split as {list(stated)} into {count}")
        return stated
    if node.input(1) is not None or not isinstance(size, int):
        return [unnamed_dim(node, index) for index in range(count)]
    if node.int_attr("num_outputs", count) != count:
        raise ModelInvalid("E13014", where=node, what=f"num_outputs is not the number of outputs, {count}")
    each = -(-size // count)
    if each * (count - 1) > size:
        raise ModelInvalid("EZ8888", where=node, what=f"{size} cannot be split into {count} parts of {each}")
    return [each] * (count - 1) + [size - each * (count - 1)]


def evaluate_split(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Split on numpy."""
    x, split = arrays[0], arrays[1] if len(arrays) > 1 else None
    assert x is not None
    axis = normal_axis(node, node.int_attr("axis", 0), x.ndim)
    stated = None if split is None else tuple(int(size) for size in split)
    sizes = integers(tuple(_split_sizes(node, x.shape[axis], stated)))
    assert sizes is not None
    return np.split(x, np.cumsum(sizes)[:-1].tolist(), axis)


def supports_split(node: Node) -> Iterable[Reject]:
    """Constant sizes, movable elements."""
    yield from supports_movement(node)
    yield from rejects_operand(node, 1, "split")


def layout_split(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """In 5D along any dim; along channels where each part begins with a block."""
    if at_hand[0] != NC1HWC0:
        return Reject("no-blocked-input", node.name)
    parts = [value.desc.static_shape[CHANNELS] for value in node.outputs]
    if normal_axis(node, node.int_attr("axis", 0), 4) == CHANNELS and any(c % NC1HWC0.c0 for c in parts[:-1]):
        return Reject("channel-axis", node.name, f"channels {parts} do not begin with a block of {NC1HWC0.c0}")
    return Layout((NC1HWC0, None)[: node.input_count], (NC1HWC0,) * len(node.outputs))


def lower_split(node: Node) -> Iterable[KernelCall]:
    """One copy an output."""
    x = node.operand(0)
    strides = row_major(x.desc.memory_shape)
    axis = normal_axis(node, node.int_attr("axis", 0), len(x.desc.static_shape))
    begin = 0
    for y in node.outputs:
        dims = y.desc.memory_shape
        if 0 not in dims:
            yield from copy_calls(x, y, dims, strides, row_major(dims), src_offset=begin * strides[axis])
        begin += dims[axis]


register_operator(
    OpDef(
        name="Concat",
        ge_type="ConcatD",
        infer=infer_concat,
        propagate=propagate_concat,
        evaluate=evaluate_concat,
        engines={Engine.VECTOR: in_few_launches(supports_concat, lower_concat)},
        layout=layout_concat,
        lower=lower_concat,
        axis=Axis(0),
        traits=Trait.VARIADIC | Trait.INSERTS,
    )
)
register_operator(
    OpDef(
        name="Split",
        ge_type="SplitD",
        infer=infer_split,
        evaluate=evaluate_split,
        engines={Engine.VECTOR: in_few_launches(supports_split, lower_split)},
        layout=layout_split,
        lower=lower_split,
        traits=Trait.EAGER | Trait.EXTRACTS,
        data=(0,),
        axis=Axis(0),
    )
)
