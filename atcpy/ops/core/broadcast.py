"""Broadcasting: what the elementwise ops of several operands share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import NC1HWC0, DType, Format, Node, Reject, Shape, StaticShape, TensorDesc, Value
from atcpy.ir.shape import Dim, Sym, element_count, is_static
from atcpy.ir.symbolic import agree, is_symbolic, same
from atcpy.ops.core.axes import unnamed_dim
from atcpy.ops.core.opdef import Layout
from atcpy.ops.core.strided import MAX_RANK


def broadcast_shapes(node: Node, shapes: Sequence[Shape | None]) -> Shape | None:
    """The shape that all of these broadcast to (numpy's rule), None if a rank is unknown.

    A symbol beside a number above 1 is that number, as ONNX infers it; two symbols are a third.
    """
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return None
    if len(known) == 1:
        return known[0]
    if not any(is_symbolic(dim) for shape in known for dim in shape):
        if known and all(shape == known[0] for shape in known):
            return known[0]
        numbers = _broadcast_numbers(*known)
        if numbers is not None:
            return numbers
    rank = max(map(len, known), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in known]
    return tuple(_broadcast_dim(node, dims, axis) for axis, dims in enumerate(zip(*padded, strict=True)))


@lru_cache(4096)
def _broadcast_numbers(*shapes: Shape) -> StaticShape | None:
    """The same of shapes of numbers alone that fit, as nearly all are."""
    numbers = [shape for shape in shapes if is_static(shape)]
    if len(numbers) < len(shapes):
        return None
    try:
        return np.broadcast_shapes(*numbers)
    except ValueError:
        return None


def _broadcast_dim(node: Node, dims: Sequence[Dim], axis: int) -> Dim:
    wide = list(dict.fromkeys(dim for dim in dims if isinstance(dim, Sym) or not same(dim, 1)))
    numbers = [dim for dim in wide if isinstance(dim, int)]
    if len(numbers) > 1 and not all(agree(numbers[0], number) for number in numbers):
        shapes = ", ".join(str(value.desc.shape) for value in node.operands)
        raise ModelInvalid("EZ8888", where=node, what=f"shapes {shapes} do not broadcast: {numbers[0]}, {numbers[1]}")
    if numbers:
        return numbers[0]
    if len(wide) > 1:
        return unnamed_dim(node, axis)
    return wide[0] if wide else 1


def infer_same_type(node: Node, values: Sequence[Value]) -> TensorDesc:
    """The type of an op whose operands have one element type and broadcast."""
    dtype = DType.UNDEFINED  # as long as no operand's type is known
    for value in values:
        if dtype is DType.UNDEFINED:
            dtype = value.desc.dtype
        elif value.desc.dtype not in (dtype, DType.UNDEFINED):
            raise ModelInvalid(
                "EZ8888", where=node, what=f"operands are {dtype.long} and {value.desc.dtype.long}, must be of one type"
            )
    return TensorDesc.plain(dtype, broadcast_shapes(node, [value.desc.shape for value in values]))


def memory_strides(shape: StaticShape, target: StaticShape) -> list[int]:
    """Strides, in elements, that walk a row-major `shape` as if it were broadcast to `target`."""
    padded = (1,) * (len(target) - len(shape)) + shape
    strides, step = [0] * len(target), 1
    for axis in reversed(range(len(target))):
        strides[axis] = 0 if same(padded[axis], 1) else step
        step *= padded[axis]
    return strides


def collapse(dims: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """The same walk in as few dims as can be: dims of 1 go, neighbours merge where every operand
    steps through both as through one. At least one dim is left.
    """
    kept: list[tuple[int, tuple[int, ...]]] = []
    for axis, dim in enumerate(dims):
        steps = tuple(stride[axis] for stride in strides)
        if same(dim, 1):
            continue
        if kept and all(same(outer, inner * dim) for outer, inner in zip(kept[-1][1], steps, strict=True)):
            kept[-1] = (kept[-1][0] * dim, steps)
        else:
            kept.append((dim, steps))
    if not kept:
        kept.append((1, (0,) * len(strides)))
    return [dim for dim, _ in kept], [[steps[index] for _, steps in kept] for index in range(len(strides))]


def collapsed_walk(values: Iterable[Value], result: Value) -> tuple[list[int], list[list[int]]]:
    """Dims and strides of each operand, as they lie in memory, for a kernel that writes `result`."""
    descs = tuple([value.desc for value in values])
    if result.desc.has_symbols or any(desc.has_symbols for desc in descs):
        return _walk(result.desc, descs)
    dims, strides = _walk_of_numbers(result.desc, descs)  # graphs have few kinds of it
    return list(dims), [list(each) for each in strides]


def _walk(result: TensorDesc, descs: Iterable[TensorDesc]) -> tuple[list[int], list[list[int]]]:
    target = result.memory_shape
    return collapse(target, [memory_strides(_in_blocks(desc), target) for desc in descs])


_walk_of_numbers = lru_cache(4096)(_walk)


def _in_blocks(desc: TensorDesc) -> StaticShape:
    """An operand's dims in memory; a plain one beside blocked ones has one element."""
    shape = desc.memory_shape
    return () if desc.storage_shape is None and same(element_count(shape), 1) else shape


def supports_broadcast(node: Node, values: Sequence[Value]) -> Iterable[Reject]:
    """The reasons that shapes give against a kernel."""
    if not all(value.desc.is_static for value in values) or not node.output.desc.is_static:
        yield Reject("shape-unknown", node.name)
        return
    if len(node.output.desc.memory_shape) <= MAX_RANK:
        return
    rank = len(collapsed_walk(values, node.output)[0])
    if rank > MAX_RANK:
        yield Reject("rank", node.name, f"{rank} dims that do not merge")


def layout_broadcast(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """NC1HWC0 for the result and for each operand with the result's channels; single elements stay
    plain. An operand that is broadcast over channels cannot lie in blocks.
    """
    if not any(form == NC1HWC0 for form in at_hand):
        return Reject("no-blocked-input", node.name)
    target = node.output.desc.static_shape
    formats: list[Format | None] = []
    for value in node.inputs:
        if value is None or same(value.desc.elements, 1):
            formats.append(None)
            continue
        shape = value.desc.static_shape
        blockable = len(shape) == 4 or (len(shape) == 3 and value.tensor is not None)
        if len(target) != 4 or not blockable or shape[-3] != target[1]:
            return Reject("channel-axis", node.name, f"{list(shape)} beside {list(target)}")
        formats.append(NC1HWC0)
    return Layout(tuple(formats), (NC1HWC0,))


def layout_like_input(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """The first input's format, whichever it is: each element is taken by itself."""
    if at_hand[0].is_plain:
        return Reject("no-blocked-input", node.name)
    return Layout((at_hand[0], *[None] * (node.input_count - 1)), (at_hand[0],))
