"""Parts of a tensor: slices, splits, and dims in reverse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from atcpy.ir import Value
from atcpy.ir.arithmetic import IndexExpr, index_range, join, size_of
from atcpy.ir.builder import INT64_MAX
from atcpy.ir.shape import Dim
from atcpy.parsers.tensorflow.op import OpBuilder, maps

_MAX_PARTS: Final = 2**16  # that one node gives


class _Part(NamedTuple):
    """The part of one axis that a Slice of ONNX takes; without bounds the whole axis."""

    axis: int
    start: IndexExpr | int = 0
    end: IndexExpr | int = INT64_MAX
    step: IndexExpr | int = 1


def _slice(b: OpBuilder, x: Value, parts: Sequence[_Part]) -> Value:
    """Slice several axes; those that stay whole need no bounds."""
    bounds = {part.axis: [_index_expr(b, bound) for bound in part[1:]] for part in parts}
    taken = {axis: each for axis, each in bounds.items() if [bound.number for bound in each] != [0, INT64_MAX, 1]}
    if not taken:
        return x
    starts, ends, steps = (join(b, column).value for column in zip(*taken.values(), strict=True))
    return b.op("Slice", x, starts, ends, b.const([*taken]), steps)


def _index_expr(b: OpBuilder, bound: IndexExpr | int) -> IndexExpr:
    return IndexExpr.of(b, [bound]) if isinstance(bound, int) else bound


# --- StridedSlice ------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Strided:
    """What begin, end and strides mean for the axes of the input and of the result."""

    parts: list[_Part] = field(default_factory=list)
    picked: list[tuple[int, IndexExpr]] = field(default_factory=list)  # axes of which a Gather takes one index
    dropped: list[int] = field(default_factory=list)  # axes of the input that the result has not
    inserted: list[int] = field(default_factory=list)  # axes of the result that the input has not


@maps("StridedSlice")
def strided_slice(b: OpBuilder) -> Value:
    """Slice, and Gather where an index is computed; dims go by Squeeze and come by Unsqueeze"""
    return _taken(b, b.input(0))


@maps("TensorStridedSliceUpdate")
def strided_slice_update(b: OpBuilder) -> Value:
    """ScatterND at the indices of the slice"""
    x, updates = b.input(0), b.input(4)
    shape = b.op("Shape", x)
    indices = _taken(b, b.op("Reshape", b.iota(b.op("Size", x)), shape, allowzero=1))
    updates = b.op("Expand", updates, b.op("Shape", indices))
    flat = b.op("ScatterND", b.reshape(x, (-1,)), b.unsqueeze(indices, -1), updates)
    return b.op("Reshape", flat, shape, allowzero=1)


def _taken(b: OpBuilder, x: Value) -> Value:
    """The part that begin, end and strides take of a value in the shape of input 0."""
    plan = _plan(b)
    x = _slice(b, x, plan.parts)
    for axis, index in plan.picked:
        x = b.op("Gather", x, index.value, axis=axis)
    if plan.dropped:
        x = b.squeeze(x, *plan.dropped)
    return b.unsqueeze(x, *plan.inserted) if plan.inserted else x


def _plan(b: OpBuilder) -> _Strided:
    shape = b.shape(0)
    begins, ends, strides = b.index_items(1), b.index_items(2), b.index_items(3)
    count = len(begins)
    if not len(ends) == len(strides) == count:
        raise b.invalid(f"begin, end and strides have {count}, {len(ends)} and {len(strides)} numbers")
    masks = {
        name: {position for position in range(count) if b.int_attr(f"{name}_mask") >> position & 1}
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    if len(masks["ellipsis"]) > 1:
        raise b.invalid("ellipsis_mask has more than one bit")
    new = masks["new_axis"] - masks["ellipsis"]
    covered = count - len(new) - len(masks["ellipsis"])
    if covered > len(shape):
        raise b.invalid(f"it takes parts of {covered} dims, of {len(shape)}")
    plan = _Strided()
    axis = result = 0
    for position in range(count):
        if position in masks["ellipsis"]:
            axis, result = axis + len(shape) - covered, result + len(shape) - covered
        elif position in new:
            plan.inserted.append(result)
            result += 1
        elif position in masks["shrink_axis"]:
            _take(b, plan, axis, begins[position], strides[position])
            axis += 1
        else:
            begin = None if position in masks["begin"] else begins[position]
            end = None if position in masks["end"] else ends[position]
            plan.parts.append(_part(b, axis, begin, end, strides[position]))
            axis, result = axis + 1, result + 1
    return plan


def _take(b: OpBuilder, plan: _Strided, axis: int, begin: IndexExpr, stride: IndexExpr) -> None:
    """Take one index of an axis, which is dropped."""
    size, index = b.shape(0)[axis], begin.number
    if stride.number is not None and stride.number <= 0:
        raise b.invalid(f"a stride of {stride.number} where a dim is dropped")
    plan.dropped.append(axis)
    if index is None or not isinstance(size, int):
        plan.picked.append((axis, begin))
        return
    if not -size <= index < size:
        raise b.invalid(f"index {index} of a dim of {size}")
    plan.parts.append(_Part(axis, begin, index + 1 if index != -1 else INT64_MAX))


def _part(b: OpBuilder, axis: int, begin: IndexExpr | None, end: IndexExpr | None, stride: IndexExpr) -> _Part:
    """The part between bounds, which count from the end where they are negative, and are clamped; None is no bound."""
    step = stride.number
    if step == 0:
        raise b.invalid("strides has a 0")
    down = stride < 0
    start = begin if begin is not None else down.choose(INT64_MAX, IndexExpr.of(b, [0]))
    stop = end if end is not None else down.choose(-INT64_MAX, IndexExpr.of(b, [INT64_MAX]))
    if begin is not None and step != 1 and (step is None or step < 0) and (begin.number is None or begin.number < 0):
        # a Slice of ONNX takes the first element where a start lies before it; that of TensorFlow takes none
        beyond = (begin + size_of(b, b.input(0), axis)) < 0
        stop = (down & beyond).choose(INT64_MAX, stop)
    size = b.shape(0)[axis]
    if isinstance(size, int) and start.number is not None and stop.number is not None and step is not None:
        indices = range(*slice(start.number, stop.number, step).indices(size))
        if len(indices) == 0:
            return _Part(axis, 0, 0)
        if len(indices) == size and step == 1:
            return _Part(axis)
    return _Part(axis, start, stop, stride)


# --- Slice, Split --------------------------------------------------------------------------------------


@maps("Slice")
def slice_(b: OpBuilder) -> Value:
    """Slice; a size of −1 goes to the end"""
    x, starts, sizes = b.input(0), b.index_items(1), b.index_items(2)
    if not len(starts) == len(sizes) == b.rank(0):
        raise b.invalid(f"begin and size have {len(starts)} and {len(sizes)} numbers for {b.rank(0)} dims")
    parts, left = list[_Part](), list[Dim | None]()
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        _check_inside(b, axis, start.number, size.number)
        whole = start.number == 0 and size.number == b.shape(0)[axis]
        parts.append(_Part(axis, start, INT64_MAX if whole else size.equals(-1).choose(INT64_MAX, start + size)))
        left.append(_left(b, axis, start, size))
    return _of_sizes(b, _slice(b, x, parts), left)


def _check_inside(b: OpBuilder, axis: int, start: int | None, size: int | None) -> None:
    """Raise ModelInvalid if a slice is known to reach beyond a dim, which Slice of ONNX would cut off."""
    length = b.shape(0)[axis]
    if not isinstance(length, int) or start is None or size is None:
        return
    if not (0 <= start <= length and -1 <= size <= length - start):
        raise b.invalid(f"begin {start} and size {size} of dim {axis}, which has {length} elements")


def _left(b: OpBuilder, axis: int, start: IndexExpr, size: IndexExpr) -> Dim | None:
    """The size of a dim of a slice, where it is known."""
    if size.number is None or size.number >= 0:
        return size.number
    whole = b.shape(0)[axis]
    return whole - start.number if isinstance(whole, int) and start.number is not None else None


def _of_sizes(b: OpBuilder, value: Value, sizes: Sequence[Dim | None]) -> Value:
    """Reshape to sizes that inference does not see where bounds are computed."""
    known = [size if isinstance(size, int) else -1 for size in sizes]
    if value.desc.is_static or known.count(-1) > 1 or 0 in known:
        return value
    return b.reshape(value, known)


def _part_count(b: OpBuilder, name: str) -> int:
    count = b.int_attr(name)
    if count > _MAX_PARTS:
        raise b.unsupported(f"{count} parts")
    return count


@maps("Split")
def split(b: OpBuilder) -> list[Value | None]:
    """Split into equal parts"""
    axis, count = b.number(0, "axis"), _part_count(b, "num_split")
    size = b.shape(1)[axis] if -b.rank(1) <= axis < b.rank(1) else 0
    if count < 1 or (isinstance(size, int) and size % count):
        raise b.invalid(f"{count} equal parts of a dim of {size}")
    if count == 1:
        return [b.input(1)]
    if isinstance(size, int):
        return [*b.ops("Split", b.input(1), b.const([size // count] * count), outputs=count, axis=axis)]
    return [*b.ops("Split", b.input(1), outputs=count, axis=axis, num_outputs=count)]


@maps("SplitV")
def split_v(b: OpBuilder) -> list[Value | None]:
    """Split; one part of −1 is what is left"""
    x, axis = b.input(0), b.axes(2, b.rank(0))[0]
    sizes = b.index_input(1).reshape(-1)
    if isinstance(sizes.elements, Value) or -1 in sizes.elements:
        rest = size_of(b, x, axis) - _total(b, sizes) - 1
        sizes = sizes.equals(-1).choose(rest, sizes)
    count = _part_count(b, "num_split")
    return [*b.ops("Split", x, sizes.value, outputs=count, axis=axis)] if count > 1 else [x]


def _total(b: OpBuilder, sizes: IndexExpr) -> IndexExpr:
    if isinstance(sizes.elements, Value):
        return IndexExpr(b, b.op("ReduceSum", sizes.elements, b.const([0]), keepdims=1))
    return IndexExpr.of(b, sizes.elements.sum(keepdims=True))


@maps("Unpack")
def unpack(b: OpBuilder) -> list[Value | None]:
    """Split into parts of one, without the dim"""
    x, count, axis = b.input(0), _part_count(b, "num"), b.int_attr("axis")
    if count < 2:
        return [b.squeeze(x, axis)] if count == 1 else []
    parts = b.ops("Split", x, b.const([1] * count), outputs=count, axis=axis)
    return [b.squeeze(part, axis) for part in parts]


# --- Reverse, Roll ---------------------------------------------------------------------------------------


@maps("ReverseV2", "Reverse")
def reverse(b: OpBuilder) -> Value:
    """Slice with steps of −1"""
    rank = b.rank(0)
    if b.node.op == "Reverse":
        axes: Sequence[int] = [axis for axis, is_reversed in enumerate(b.array(1).reshape(-1)) if is_reversed]
    else:
        axes = b.axes(1, rank)
    if len(set(axes)) < len(axes):
        raise b.invalid(f"axes = {list(axes)} names an axis twice")
    return _slice(b, b.input(0), [_Part(axis, INT64_MAX, -INT64_MAX, -1) for axis in sorted(axes)])


@maps("ReverseSequence")
def reverse_sequence(b: OpBuilder) -> Value:
    """ReverseSequence, its two dims brought to the front"""
    rank = b.rank(0)
    axes = [b.int_attr("seq_dim"), b.int_attr("batch_dim")]
    if not all(-rank <= axis < rank for axis in axes) or len({axis % rank for axis in axes}) < 2:
        raise b.invalid(f"seq_dim and batch_dim are {axes} of {rank} dims")
    time, batch = (axis % rank for axis in axes)
    order = [time, batch] if {time, batch} != {0, 1} else [0, 1]
    perm = [*order, *[axis for axis in range(rank) if axis not in order]]
    front = b.transpose(b.input(0), perm)
    attrs = {"time_axis": perm.index(time), "batch_axis": perm.index(batch)}
    return b.transpose(
        b.op("ReverseSequence", front, b.int64_input(1), **attrs), [perm.index(axis) for axis in range(rank)]
    )


@maps("Roll")
def roll(b: OpBuilder) -> Value:
    """Concat of two Slices; Gather where the shift is computed"""
    x, shifts, axes = b.input(0), b.index_items(1), b.axes(2, b.rank(0))
    if len(shifts) != len(axes):
        raise b.invalid(f"{len(shifts)} shifts for {len(axes)} axes")
    for axis in sorted(set(axes)):
        shift = IndexExpr.of(b, [0])
        for part in (part for part, along in zip(shifts, axes, strict=True) if along == axis):
            shift = shift + part
        x = _rolled(b, x, axis, shift)
    return x


def _rolled(b: OpBuilder, x: Value, axis: int, shift: IndexExpr) -> Value:
    size = size_of(b, x, axis)
    if size.number == 0 or shift.number == 0:
        return x
    if size.number is None or shift.number is None:
        return b.op("Gather", x, ((index_range(b, size) - shift) % size.max(1)).value, axis=axis)
    if not (cut := -shift.number % size.number):
        return x
    return b.op("Concat", b.slice(x, cut, INT64_MAX, axis), b.slice(x, 0, cut, axis), axis=axis)
