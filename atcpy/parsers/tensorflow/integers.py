"""Arithmetic on sizes, axes and places while a graph is read: on numpy as long as all is known, else by nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Value
from atcpy.ir.tensor import Array
from atcpy.parsers.tensorflow.op import Op

HIGHEST: Final = 2**63 - 1  # beyond the last place of any dim
LOWEST: Final = -HIGHEST
MAX_KNOWN: Final = 2**22  # numbers that are worked out here; more of them are left to the graph


@dataclass(frozen=True, slots=True, eq=False)
class Integers:
    """A scalar or an array of integers, or of truth values that comparisons give: known, or computed when the model
    runs.
    """

    op: Op
    held: Array | Value

    @property
    def number(self) -> int | None:
        """The one element; None if it is not known."""
        return int(self.held.reshape(-1)[0]) if isinstance(self.held, np.ndarray) and self.held.size == 1 else None

    @property
    def value(self) -> Value:
        """Them as a value of the graph."""
        if isinstance(self.held, Value):
            return self.held
        return self.op.const(self.held, DType.BOOL if self.held.dtype == bool else DType.INT64)

    def _by(self, op_type: str, function: Callable[[Any, Any], Any], other: Integers | int) -> Integers:
        right = other if isinstance(other, Integers) else integers(self.op, other)
        a, b = self.held, right.held
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.broadcast(a, b).size <= MAX_KNOWN:
            return Integers(self.op, np.asarray(function(a, b)))
        return Integers(self.op, self.op.add(op_type, self.value, right.value))

    def __add__(self, other: Integers | int) -> Integers:
        return self._by("Add", np.add, other)

    def __sub__(self, other: Integers | int) -> Integers:
        return self._by("Sub", np.subtract, other)

    def __mul__(self, other: Integers | int) -> Integers:
        return self._by("Mul", np.multiply, other)

    def __floordiv__(self, other: Integers | int) -> Integers:
        """Of numbers that are not negative."""
        return self._by("Div", np.floor_divide, other)

    def __mod__(self, other: Integers | int) -> Integers:
        return self._by("Mod", np.mod, other)

    def __lt__(self, other: Integers | int) -> Integers:
        return self._by("Less", np.less, other)

    def __ge__(self, other: Integers | int) -> Integers:
        return self._by("GreaterOrEqual", np.greater_equal, other)

    def __and__(self, other: Integers) -> Integers:
        return self._by("And", np.logical_and, other)

    def equals(self, other: Integers | int) -> Integers:
        """Where they are equal."""
        return self._by("Equal", np.equal, other)

    def at_least(self, other: Integers | int) -> Integers:
        """The greater of each two."""
        return self._by("Max", np.maximum, other)

    def at_most(self, other: Integers | int) -> Integers:
        """The smaller of each two."""
        return self._by("Min", np.minimum, other)

    def choose(self, yes: Integers | int, no: Integers | int) -> Integers:
        """`yes` where these are true, else `no`."""
        first, second = (item if isinstance(item, Integers) else integers(self.op, item) for item in (yes, no))
        if all(isinstance(item.held, np.ndarray) for item in (self, first, second)):
            return Integers(self.op, np.where(self.held, first.held, second.held))  # type: ignore[arg-type]
        return Integers(self.op, self.op.add("Where", self.value, first.value, second.value))

    def shaped(self, *shape: int) -> Integers:
        """The same in another shape."""
        if isinstance(self.held, np.ndarray):
            if -1 not in shape and self.held.size != prod(shape):
                raise ModelInvalid("E13014", f"{self.held.size} numbers instead of {prod(shape)}", where=self.op.where)
            return Integers(self.op, self.held.reshape(shape))
        return Integers(self.op, self.op.reshape(self.held, shape))

    def pick(self, places: Integers) -> Integers:
        """Those of a list that stand at these places."""
        if isinstance(self.held, np.ndarray) and isinstance(places.held, np.ndarray):
            return Integers(self.op, self.held[places.held])
        return Integers(self.op, self.op.add("Gather", self.value, places.value, axis=0))

    def column(self, place: int) -> Integers:
        """Those of one column of a matrix."""
        if isinstance(self.held, np.ndarray):
            return Integers(self.op, self.held[:, place])
        return Integers(self.op, self.op.add("Gather", self.held, self.op.const(place), axis=1))


def integers(op: Op, items: int | Sequence[int] | Array) -> Integers:
    """Known ones."""
    return Integers(op, np.asarray(items, np.int64))


def size_of(op: Op, value: Value, axis: int) -> Integers:
    """The size of a dim, as a list of one."""
    shape = op.shape_of(value)
    if not -len(shape) <= axis < len(shape):
        raise ModelInvalid("E13014", f'"{value.name}" has {len(shape)} dims, none of them is {axis}', where=op.where)
    dim, at = shape[axis], axis % len(shape)
    return integers(op, [dim]) if isinstance(dim, int) else Integers(op, op.add("Shape", value, start=at, end=at + 1))


def sizes_of(op: Op, value: Value) -> list[Integers]:
    """The sizes of all dims, each as a list of one."""
    return [size_of(op, value, axis) for axis in range(len(op.shape_of(value)))]


def count_up(op: Op, end: Integers) -> Integers:
    """0, 1 … below the one number `end`."""
    if end.number is not None and end.number <= MAX_KNOWN:
        return integers(op, np.arange(end.number))
    return Integers(op, op.add("Range", op.const(0), op.reshape(end.value, ()), op.const(1)))


def join(op: Op, parts: Sequence[Integers]) -> Integers:
    """Lists one after the other."""
    held = [part.held for part in parts]
    if all(isinstance(item, np.ndarray) for item in held):
        return integers(op, np.concatenate([np.zeros(0, np.int64), *held]))
    return Integers(op, op.add("Concat", *[part.value for part in parts], axis=0)) if len(parts) > 1 else parts[0]


def product(op: Op, parts: Sequence[Integers]) -> Integers:
    """All of them multiplied; those that are known at once."""
    known = [part.number for part in parts if part.number is not None]
    result = integers(op, [int(np.prod(known, dtype=np.int64))])
    for part in parts:
        if part.number is None:
            result = part if result.number == 1 else result * part
    return result


def all_of(op: Op, index: int) -> Integers:
    """The integers of an input, whatever its shape."""
    if op.is_constant(index):
        return integers(op, op.ints(index)).shaped(*op.input(index).desc.static_shape)
    return Integers(op, op.shape_input(index))


def each_of(op: Op, index: int) -> list[Integers]:
    """The integers of an input, each as a list of one; they must be a known number."""
    value = op.input(index)
    if not value.desc.is_static:
        raise op.refuse(f'how many numbers input {index}, "{value.name}", holds is not known')
    if op.is_constant(index):
        return [integers(op, [number]) for number in op.ints(index)]
    made = value.producer
    if made.op_type == "Concat" and all(part.desc.is_static and part.desc.shape == (1,) for part in made.operands):
        return [_one(op, part) for part in made.operands]
    if value.desc.elements == 1:
        return [Integers(op, op.reshape(op.shape_input(index), (1,)))]
    known = op.known(value) or (None,) * value.desc.elements
    flat = op.shape_input(index)
    if len(value.desc.static_shape) != 1:
        flat = op.reshape(flat, (-1,))
    return [
        integers(op, [item])
        if isinstance(item, int)
        else Integers(op, op.add("Slice", flat, op.const([place]), op.const([place + 1])))
        for place, item in enumerate(known)
    ]


def _one(op: Op, value: Value) -> Integers:
    known = op.known(value)
    if known is not None and isinstance(known[0], int):
        return integers(op, [known[0]])
    return Integers(op, op.cast(value, DType.INT64))


def known_number(op: Op, index: int, what: str) -> int:
    """The one integer that an input must hold as a constant."""
    numbers = op.ints(index)
    if len(numbers) != 1:
        raise ModelInvalid("E13014", f"{what}: one number, not {len(numbers)}", where=op.where)
    return numbers[0]


def reshape_to(op: Op, value: Value, sizes: Sequence[Integers]) -> Value:
    """A value in a shape whose sizes may be computed when the model runs; one that is not known is left to the rest."""
    numbers = [size.number for size in sizes]
    unknown = numbers.count(None)
    if unknown == 0 or (unknown == 1 and 0 not in numbers):
        return op.reshape(value, [-1 if number is None else number for number in numbers])
    return op.add("Reshape", value, join(op, sizes).value, allowzero=1)
