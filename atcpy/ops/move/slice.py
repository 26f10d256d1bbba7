"""Slice: one copy, with negative strides where a step is negative."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from atcpy.errors import ModelInvalid
from atcpy.ir import NC1HWC0, Engine, Format, Node, Reject, TensorDesc
from atcpy.ir.shape import Dim
from atcpy.ir.symbolic import example, is_symbolic, maximum, minimum
from atcpy.ir.tensor import Array
from atcpy.ops.core.axes import constant_integers, known_integers, normal_axes, rejects_operand, unnamed_dim
from atcpy.ops.core.opdef import KernelCall, Known, Layout, OpDef, Trait, register_operator
from atcpy.ops.core.permute import permute_axes_input
from atcpy.ops.core.shape_values import is_vector
from atcpy.ops.core.strided import copy_calls, in_few_launches, is_empty, row_major, supports_movement

STARTS, ENDS, AXES, STEPS = range(1, 5)
TO_THE_END = 2**31 - 1  # exporters write an end at or beyond this for "all"


@dataclass(frozen=True, slots=True)
class Extent:
    """What is taken of one dim: `count` elements from `start`, `step` apart."""

    start: int
    step: int
    count: int


def extent(node: Node, size: int, start: int, end: int, step: int) -> Extent:
    """The elements that a Slice takes of a dim, with bounds clamped as ONNX says."""
    if step == 0:
        raise ModelInvalid("EZ8888", where=node, what="a step is 0")
    low, high = (0, size) if step > 0 else (-1, size - 1)
    first = _smaller(max(start + size if start < 0 else start, max(low, 0)), high)
    last = _smaller(max(end + size if end < 0 else end, low), high)
    if is_symbolic(first) and is_symbolic(last):  # where it begins does not matter if nothing is taken
        return Extent(first, step, maximum(0, -((first - last) // step)))
    count = max(0, -((first - last) // step))
    return Extent(first if count else 0, step, count)


def _smaller(a: int, b: int) -> int:
    """A bound beside a number is most often below it for all sizes that a model gets, as the length of a text is below
    that of a table of positions: a guard is better, unless an example is beyond it.
    """
    symbolic, number = (a, b) if is_symbolic(a) else (b, a)
    if is_symbolic(symbolic) and (is_symbolic(number) or example(symbolic) > number):
        return minimum(a, b)
    return min(a, b)


def _axes(node: Node, rank: int, count: int, axes: tuple[int, ...] | None) -> tuple[int, ...]:
    return normal_axes(node, range(count) if axes is None else axes, rank)


def infer_slice(node: Node, known: Known) -> Sequence[TensorDesc]:
    """Sizes where bounds and size are known; else a dim of its own."""
    x = node.operand(0).desc
    if x.shape is None:
        return [TensorDesc.plain(x.dtype, None)]
    starts, ends = known(node.operand(STARTS)), known(node.operand(ENDS))
    axes, steps = known_integers(node, AXES, known), known_integers(node, STEPS, known)
    bounds = starts if starts is not None else ends
    if bounds is None or (axes is None and node.input(AXES) is not None):
        return [TensorDesc.plain(x.dtype, tuple(unnamed_dim(node, axis) for axis in range(len(x.shape))))]
    count = len(bounds)
    dims = list(x.shape)
    for index, axis in enumerate(_axes(node, len(x.shape), count, axes)):
        step = 1 if node.input(STEPS) is None else None if steps is None else steps[index]
        if starts is None or ends is None or step is None:
            dims[axis] = unnamed_dim(node, axis)
        else:
            dims[axis] = _sliced(node, axis, x.shape[axis], starts[index], ends[index], step)
    return [TensorDesc.plain(x.dtype, tuple(dims))]


def _sliced(node: Node, axis: int, size: Dim, start: Dim, end: Dim, step: int) -> Dim:
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
        return extent(node, size, start, end, step).count
    whole = start == 0 and step == 1 and (end == size or (isinstance(end, int) and end >= TO_THE_END))
    at_last = isinstance(start, int) and (start == -1 or start >= TO_THE_END)
    flipped = at_last and step == -1 and isinstance(end, int) and end <= -TO_THE_END
    return size if whole or flipped else unnamed_dim(node, axis)


def propagate_slice(node: Node, known: Known) -> tuple[Dim, ...] | None:
    """The elements between the bounds."""
    elements = known(node.operand(0))
    starts, ends = known_integers(node, STARTS, known), known_integers(node, ENDS, known)
    steps = (1,) if node.input(STEPS) is None else known_integers(node, STEPS, known)
    if elements is None or not starts or not ends or not steps or not is_vector(node.operand(0)):
        return None
    taken = extent(node, len(elements), starts[0], ends[0], steps[0])
    return tuple(elements[taken.start + index * taken.step] for index in range(taken.count))


def evaluate_slice(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Slice on numpy."""
    x, *bounds = arrays
    assert x is not None
    starts, ends, axes, steps = (
        None if array is None else tuple(int(item) for item in array) for array in (*bounds, None, None)[:4]
    )
    assert starts is not None and ends is not None
    for index, axis in enumerate(_axes(node, x.ndim, len(starts), axes)):
        taken = extent(node, x.shape[axis], starts[index], ends[index], steps[index] if steps else 1)
        last = taken.start + taken.count * taken.step
        window = slice(taken.start, None if last < 0 else last, taken.step) if taken.count else slice(0, 0)
        x = x[(*[slice(None)] * axis, window)]
    return [x]


def supports_slice(node: Node) -> Iterable[Reject]:
    """Constant bounds, movable elements."""
    yield from supports_movement(node)
    for index, name in ((STARTS, "starts"), (ENDS, "ends"), (AXES, "axes"), (STEPS, "steps")):
        yield from rejects_operand(node, index, name)


def extents(node: Node) -> list[Extent]:
    """What a Slice with constant bounds takes of each dim."""
    shape = node.operand(0).desc.static_shape
    starts, ends = constant_integers(node, STARTS), constant_integers(node, ENDS)
    axes = None if node.input(AXES) is None else constant_integers(node, AXES)
    steps = (1,) * len(starts) if node.input(STEPS) is None else constant_integers(node, STEPS)
    taken = [Extent(0, 1, size) for size in shape]
    for index, axis in enumerate(_axes(node, len(shape), len(starts), axes)):
        taken[axis] = extent(node, shape[axis], starts[index], ends[index], steps[index])
    return taken


def layout_slice(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """In 5D, with channels that begin with a block; what the last block has beyond is padding."""
    if at_hand[0] != NC1HWC0:
        return Reject("no-blocked-input", node.name)
    channels = extents(node)[1]
    if channels.start % NC1HWC0.c0 or (channels.step != 1 and channels.count > 1):
        return Reject("channel-axis", node.name, f"channels from {channels.start}, step {channels.step}")
    return Layout((NC1HWC0, *[None] * (node.input_count - 1)), (NC1HWC0,))


def lower_slice(node: Node) -> Iterable[KernelCall]:
    """One strided copy."""
    x, y = node.operand(0), node.output
    dims, taken = y.desc.memory_shape, extents(node)
    if is_empty(dims):
        return
    if y.desc.storage_shape is not None:
        c0 = y.desc.format.c0
        taken = [taken[0], Extent(taken[1].start // c0, 1, dims[1]), *taken[2:], Extent(0, 1, c0)]
    strides = row_major(x.desc.memory_shape)
    offset = sum(part.start * stride for part, stride in zip(taken, strides, strict=True))
    steps = [part.step * stride for part, stride in zip(taken, strides, strict=True)]
    yield from copy_calls(x, y, dims, steps, row_major(dims), src_offset=offset)


register_operator(
    OpDef(
        name="Slice",
        ge_type="StridedSliceV2",
        operand_shapes=lambda node: dict.fromkeys((STARTS, ENDS, AXES, STEPS), "count"),
        infer=infer_slice,
        propagate=propagate_slice,
        evaluate=evaluate_slice,
        engines={Engine.VECTOR: in_few_launches(supports_slice, lower_slice)},
        layout=layout_slice,
        lower=lower_slice,
        traits=Trait.EAGER | Trait.EXTRACTS | Trait.SELECTION,
        data=(0,),
        permute=permute_axes_input(AXES, STARTS),
    )
)
