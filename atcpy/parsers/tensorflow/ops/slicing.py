"""Parts of a tensor: slices, splits, and dims in reverse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from atcpy.errors import ModelInvalid
from atcpy.ir import Value
from atcpy.ir.shape import Dim
from atcpy.parsers.tensorflow.integers import (
    HIGHEST,
    LOWEST,
    Integers,
    all_of,
    count_up,
    each_of,
    integers,
    join,
    known_number,
    size_of,
)
from atcpy.parsers.tensorflow.op import Op, maps

_MAX_PARTS: Final = 2**16  # that one node gives


class _Part(NamedTuple):
    """What a Slice of ONNX takes of one dim."""

    axis: int
    start: Integers
    end: Integers
    step: Integers


def _slice(op: Op, x: Value, parts: Sequence[_Part]) -> Value:
    """The parts of so many dims; none of what is whole."""
    wanted = [part for part in parts if (part.start.number, part.end.number, part.step.number) != (0, HIGHEST, 1)]
    if not wanted:
        return x
    starts, ends, steps = (join(op, [part[field] for part in wanted]).value for field in (1, 2, 3))  # type: ignore[misc]
    return op.add("Slice", x, starts, ends, op.const([part.axis for part in wanted]), steps)


# --- StridedSlice ------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Strided:
    """What the positions of begin, end and strides say about the dims of the input and of the result."""

    parts: list[_Part] = field(default_factory=list)
    picked: list[tuple[int, Integers]] = field(default_factory=list)  # dims of which a place is taken by Gather
    dropped: list[int] = field(default_factory=list)  # dims of the input that are left out
    made: list[int] = field(default_factory=list)  # dims of the result that are new


@maps("StridedSlice")
def strided_slice(op: Op) -> Value:
    """Slice, and Gather where an index is computed; dims go by Squeeze and come by Unsqueeze"""
    return _taken(op, op.input(0))


@maps("TensorStridedSliceUpdate")
def strided_slice_update(op: Op) -> Value:
    """ScatterND at the places that the slice has"""
    x, updates = op.input(0), op.input(4)
    count = op.add("Size", x)
    numbers = op.add("Range", op.const(0), count, op.const(1))
    places = _taken(op, op.add("Reshape", numbers, op.add("Shape", x), allowzero=1))
    spread = op.add("Expand", updates, op.add("Shape", places))
    flat = op.add("ScatterND", op.reshape(x, (-1,)), op.unsqueeze(places, -1), spread)
    return op.add("Reshape", flat, op.add("Shape", x), allowzero=1)


def _taken(op: Op, x: Value) -> Value:
    """What begin, end and strides take of a value in the shape of input 0."""
    plan = _plan(op)
    x = _slice(op, x, plan.parts)
    for axis, place in plan.picked:
        x = op.add("Gather", x, place.value, axis=axis)
    if plan.dropped:
        x = op.squeeze(x, *plan.dropped)
    return op.unsqueeze(x, *plan.made) if plan.made else x


def _plan(op: Op) -> _Strided:
    shape = op.shape(0)
    begins, ends, strides = each_of(op, 1), each_of(op, 2), each_of(op, 3)
    count = len(begins)
    if not len(ends) == len(strides) == count:
        what = f"begin, end and strides have {count}, {len(ends)} and {len(strides)} numbers"
        raise ModelInvalid("E13014", what, where=op.where)
    masks = {
        name: {place for place in range(count) if op.int_attr(f"{name}_mask") >> place & 1}
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    if len(masks["ellipsis"]) > 1:
        raise ModelInvalid("E13014", "ellipsis_mask has more than one bit", where=op.where)
    new = masks["new_axis"] - masks["ellipsis"]
    spoken = count - len(new) - len(masks["ellipsis"])
    if spoken > len(shape):
        raise ModelInvalid("E13014", f"it takes parts of {spoken} dims, of {len(shape)}", where=op.where)
    plan = _Strided()
    axis = result = 0
    for place in range(count):
        if place in masks["ellipsis"]:
            axis, result = axis + len(shape) - spoken, result + len(shape) - spoken
        elif place in new:
            plan.made.append(result)
            result += 1
        elif place in masks["shrink_axis"]:
            _take(op, plan, axis, begins[place], strides[place])
            axis += 1
        else:
            begin = None if place in masks["begin"] else begins[place]
            end = None if place in masks["end"] else ends[place]
            plan.parts.append(_part(op, axis, begin, end, strides[place]))
            axis, result = axis + 1, result + 1
    return plan


def _take(op: Op, plan: _Strided, axis: int, begin: Integers, stride: Integers) -> None:
    """One place of a dim, which is left out of the result."""
    size, index = op.shape(0)[axis], begin.number
    if stride.number is not None and stride.number <= 0:
        raise ModelInvalid("E13014", f"a stride of {stride.number} where a dim is dropped", where=op.where)
    plan.dropped.append(axis)
    if index is None or not isinstance(size, int):
        plan.picked.append((axis, begin))
        return
    if not -size <= index < size:
        raise ModelInvalid("E13014", f"place {index} of a dim of {size}", where=op.where)
    plan.parts.append(_Part(axis, begin, integers(op, [index + 1 if index != -1 else HIGHEST]), integers(op, [1])))


def _part(op: Op, axis: int, begin: Integers | None, end: Integers | None, stride: Integers) -> _Part:
    """The places between bounds that count from the end where they are negative, and are clamped; None is no bound."""
    step = stride.number
    if step == 0:
        raise ModelInvalid("E13014", "strides has a 0", where=op.where)
    zero, highest, lowest = (integers(op, [number]) for number in (0, HIGHEST, LOWEST))
    down = stride < 0
    start = begin if begin is not None else down.choose(highest, zero)
    stop = end if end is not None else down.choose(lowest, highest)
    if begin is not None and step != 1 and (step is None or step < 0) and (begin.number is None or begin.number < 0):
        # a Slice of ONNX takes the first place where a start lies before it; that of TensorFlow takes none
        beyond = (begin + size_of(op, op.input(0), axis)) < 0
        stop = (down & beyond).choose(highest, stop)
    size = op.shape(0)[axis]
    if isinstance(size, int) and start.number is not None and stop.number is not None and step is not None:
        places = range(*slice(start.number, stop.number, step).indices(size))
        if len(places) == 0:
            return _Part(axis, zero, zero, integers(op, [1]))
        if len(places) == size and step == 1:
            return _Part(axis, zero, highest, stride)
    return _Part(axis, start, stop, stride)


# --- Slice, Split --------------------------------------------------------------------------------------


@maps("Slice")
def slice_(op: Op) -> Value:
    """Slice; a size of −1 goes to the end"""
    x, starts, sizes = op.input(0), each_of(op, 1), each_of(op, 2)
    if not len(starts) == len(sizes) == op.rank(0):
        what = f"begin and size have {len(starts)} and {len(sizes)} numbers for {op.rank(0)} dims"
        raise ModelInvalid("E13014", what, where=op.where)
    parts = []
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        whole = start.number == 0 and size.number == op.shape(0)[axis]
        end = integers(op, [HIGHEST]) if whole else size.equals(-1).choose(HIGHEST, start + size)
        parts.append(_Part(axis, start, end, integers(op, [1])))
    taken = _slice(op, x, parts)
    return _of_sizes(
        op,
        taken,
        [_left(op, axis, start, size) for axis, (_, start, size) in enumerate(zip(parts, starts, sizes, strict=True))],
    )


def _left(op: Op, axis: int, start: Integers, size: Integers) -> Dim | None:
    """The size of a dim of a slice, where it is known."""
    if size.number is None or size.number >= 0:
        return size.number
    whole = op.shape(0)[axis]
    return whole - start.number if isinstance(whole, int) and start.number is not None else None


def _of_sizes(op: Op, value: Value, sizes: Sequence[Dim | None]) -> Value:
    """A value whose sizes are told to those who infer less from bounds that are computed."""
    known = [size if isinstance(size, int) else -1 for size in sizes]
    if value.desc.is_static or known.count(-1) > 1 or 0 in known:
        return value
    return op.reshape(value, known)


def _part_count(op: Op, name: str) -> int:
    count = op.int_attr(name)
    if count > _MAX_PARTS:
        raise op.refuse(f"{count} parts")
    return count


@maps("Split")
def split(op: Op) -> list[Value | None]:
    """Split into equal parts"""
    axis, count = known_number(op, 0, "axis"), _part_count(op, "num_split")
    size = op.shape(1)[axis] if -op.rank(1) <= axis < op.rank(1) else 0
    if count < 1 or (isinstance(size, int) and size % count):
        raise ModelInvalid("E13014", f"{count} equal parts of a dim of {size}", where=op.where)
    if count == 1:
        return [op.input(1)]
    if isinstance(size, int):
        return [*op.add_many("Split", op.input(1), op.const([size // count] * count), outputs=count, axis=axis)]
    return [*op.add_many("Split", op.input(1), outputs=count, axis=axis, num_outputs=count)]


@maps("SplitV")
def split_v(op: Op) -> list[Value | None]:
    """Split; one part of −1 is what is left"""
    x, axis = op.input(0), op.axes(2, op.rank(0))[0]
    sizes = all_of(op, 1).shaped(-1)
    if isinstance(sizes.held, Value) or -1 in sizes.held:
        rest = size_of(op, x, axis) - _total(op, sizes) - 1
        sizes = sizes.equals(-1).choose(rest, sizes)
    count = _part_count(op, "num_split")
    return [*op.add_many("Split", x, sizes.value, outputs=count, axis=axis)] if count > 1 else [x]


def _total(op: Op, sizes: Integers) -> Integers:
    if isinstance(sizes.held, Value):
        return Integers(op, op.add("ReduceSum", sizes.held, op.const([0]), keepdims=1))
    return integers(op, sizes.held.sum(keepdims=True))


@maps("Unpack")
def unpack(op: Op) -> list[Value | None]:
    """Split into parts of one, without the dim"""
    x, count, axis = op.input(0), _part_count(op, "num"), op.int_attr("axis")
    if count < 2:
        return [op.squeeze(x, axis)] if count == 1 else []
    parts = op.add_many("Split", x, op.const([1] * count), outputs=count, axis=axis)
    return [op.squeeze(part, axis) for part in parts]


# --- Reverse, Roll ---------------------------------------------------------------------------------------


@maps("ReverseV2", "Reverse")
def reverse(op: Op) -> Value:
    """Slice with steps of −1"""
    rank = op.rank(0)
    if op.node.op == "Reverse":
        axes: Sequence[int] = [axis for axis, is_turned in enumerate(op.array(1).reshape(-1)) if is_turned]
    else:
        axes = op.axes(1, rank)
    start, end, step = (integers(op, [number]) for number in (HIGHEST, LOWEST, -1))
    return _slice(op, op.input(0), [_Part(axis, start, end, step) for axis in sorted(set(axes))])


@maps("ReverseSequence")
def reverse_sequence(op: Op) -> Value:
    """ReverseSequence, its two dims brought to the front"""
    rank = op.rank(0)
    axes = [op.int_attr("seq_dim"), op.int_attr("batch_dim")]
    if not all(-rank <= axis < rank for axis in axes) or len({axis % rank for axis in axes}) < 2:
        raise ModelInvalid("E13014", f"seq_dim and batch_dim are {axes} of {rank} dims", where=op.where)
    time, batch = (axis % rank for axis in axes)
    order = [time, batch] if {time, batch} != {0, 1} else [0, 1]
    perm = [*order, *[axis for axis in range(rank) if axis not in order]]
    front = op.transpose(op.input(0), perm)
    turned = op.add(
        "ReverseSequence", front, op.shape_input(1), time_axis=perm.index(time), batch_axis=perm.index(batch)
    )
    return op.transpose(turned, [perm.index(axis) for axis in range(rank)])


@maps("Roll")
def roll(op: Op) -> Value:
    """Concat of two Slices; Gather where the shift is computed"""
    x, shifts, axes = op.input(0), each_of(op, 1), op.axes(2, op.rank(0))
    if len(shifts) != len(axes):
        raise ModelInvalid("E13014", f"{len(shifts)} shifts for {len(axes)} axes", where=op.where)
    for axis in sorted(set(axes)):
        shift = integers(op, [0])
        for part in (part for part, along in zip(shifts, axes, strict=True) if along == axis):
            shift = shift + part
        x = _rolled(op, x, axis, shift)
    return x


def _rolled(op: Op, x: Value, axis: int, shift: Integers) -> Value:
    size = size_of(op, x, axis)
    if size.number == 0 or shift.number == 0:
        return x
    if size.number is None or shift.number is None:
        return op.add("Gather", x, ((count_up(op, size) - shift) % size.at_least(1)).value, axis=axis)
    if not (cut := -shift.number % size.number):
        return x
    zero, at, end, step = (integers(op, [number]) for number in (0, cut, HIGHEST, 1))
    tail, head = _slice(op, x, [_Part(axis, at, end, step)]), _slice(op, x, [_Part(axis, zero, at, step)])
    return op.add("Concat", tail, head, axis=axis)
