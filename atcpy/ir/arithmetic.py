"""Arithmetic on values in Python's operators: `Expr` for tensors, `IndexExpr` for sizes, axes and indices.

x, y = Expr(b, value), IndexExpr.of(b, [2, 3])
(x * x + 1).value        Mul, Add
(y + 1).elements         array([3, 4]): no node, because all is known
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from atcpy.ir.builder import Builder
from atcpy.ir.dtype import DType
from atcpy.ir.node import Value
from atcpy.ir.tensor import Array

MAX_FOLDED: Final = 2**22  # elements that are computed here; larger results are left to the graph


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """A value on which + − * / and the comparisons create nodes; numbers take its element type."""

    b: Builder
    value: Value

    def _operand(self, other: Expr | float) -> Value:
        return other.value if isinstance(other, Expr) else self.b.like(other, self.value)

    def like(self, number: float) -> Expr:
        """Return a number of the same element type."""
        return Expr(self.b, self.b.like(number, self.value))

    def apply(self, op_type: str, *others: Expr | float) -> Expr:
        """Create a node of an op, with further operands, and return its output."""
        return Expr(self.b, self.b.op(op_type, self.value, *[self._operand(other) for other in others]))

    def __add__(self, other: Expr | float) -> Expr:
        return self.apply("Add", other)

    def __sub__(self, other: Expr | float) -> Expr:
        return self.apply("Sub", other)

    def __rsub__(self, other: float) -> Expr:
        return Expr(self.b, self.b.op("Sub", self._operand(other), self.value))

    def __mul__(self, other: Expr | float) -> Expr:
        return self.apply("Mul", other)

    def __truediv__(self, other: Expr | float) -> Expr:
        return self.apply("Div", other)

    def __rtruediv__(self, other: float) -> Expr:
        return Expr(self.b, self.b.op("Div", self._operand(other), self.value))

    def __mod__(self, other: Expr | float) -> Expr:
        return self.apply("Mod", other)

    def __neg__(self) -> Expr:
        return self.apply("Neg")

    def __abs__(self) -> Expr:
        return self.apply("Abs")

    def __lt__(self, other: Expr | float) -> Expr:
        return self.apply("Less", other)

    def __le__(self, other: Expr | float) -> Expr:
        return self.apply("LessOrEqual", other)

    def __gt__(self, other: Expr | float) -> Expr:
        return self.apply("Greater", other)

    def __or__(self, other: Expr) -> Expr:
        return self.apply("Or", other)

    def __and__(self, other: Expr) -> Expr:
        return self.apply("And", other)

    def equals(self, other: Expr | float) -> Expr:
        """Compare element by element."""
        return self.apply("Equal", other)

    def floor(self) -> Expr:
        """Round down."""
        return self.apply("Floor")

    def ceil(self) -> Expr:
        """Round up."""
        return self.apply("Ceil")

    def exp(self) -> Expr:
        """Compute eˣ."""
        return self.apply("Exp")

    def sin(self) -> Expr:
        """Compute the sine."""
        return self.apply("Sin")

    def round_half_even(self) -> Expr:
        """Round to the nearest integer, ties to even."""
        return self.apply("Round")

    def round_half_away(self) -> Expr:
        """Round to the nearest integer, ties away from zero, as C's round."""
        below = abs(self).floor()
        is_half = 0.5 - (abs(self) - below) <= 0
        return self.apply("Sign") * (below + Expr(self.b, self.b.cast_like(is_half.value, self.value)))

    def min(self, other: Expr | float) -> Expr:
        """Take the smaller of both, element by element."""
        return self.apply("Min", other)

    def max(self, other: Expr | float) -> Expr:
        """Take the larger of both, element by element."""
        return self.apply("Max", other)

    def clip(self, low: float, high: float) -> Expr:
        """Limit to a range."""
        return self.apply("Clip", low, high)

    def where(self, condition: Expr, other: Expr | float) -> Expr:
        """Keep the elements where the condition holds, and take the other's elsewhere."""
        return Expr(self.b, self.b.op("Where", condition.value, self.value, self._operand(other)))

    def masked_fill(self, mask: Expr, number: float) -> Expr:
        """Take the number where the mask is true, and keep the elements elsewhere."""
        return self.like(number).where(mask, self)

    def cast(self, dtype: DType) -> Expr:
        """Convert to an element type."""
        return Expr(self.b, self.b.cast(self.value, dtype))

    def unsqueeze(self, *axes: int) -> Expr:
        """Insert dims of size 1."""
        return Expr(self.b, self.b.unsqueeze(self.value, *axes))


def arange(b: Builder, length: Value | int, dtype: DType = DType.FLOAT32) -> Expr:
    """Return 0, 1, … below a scalar of int64."""
    if isinstance(length, int):
        return Expr(b, b.const(range(length), dtype))
    return Expr(b, b.iota(length)).cast(dtype)


def dim(b: Builder, value: Value, axis: int) -> Expr:
    """Return the size of an axis as a scalar of int64."""
    size = size_of(b, value, axis)
    return Expr(b, b.const(size.number) if size.number is not None else b.squeeze(size.value, 0))


@dataclass(frozen=True, slots=True, eq=False)
class IndexExpr:
    """A scalar or an array of integers, or of the truth values that comparing them gives. As long as `elements` are
    known, the operators compute them with numpy; else they create nodes.
    """

    b: Builder
    elements: Array | Value

    @staticmethod
    def of(b: Builder, items: int | Sequence[int] | Array) -> IndexExpr:
        """Return known integers as int64."""
        return IndexExpr(b, np.asarray(items, np.int64))

    @property
    def number(self) -> int | None:
        """The only element; None if it is not known."""
        elements = self.elements
        return int(elements.reshape(-1)[0]) if isinstance(elements, np.ndarray) and elements.size == 1 else None

    @property
    def value(self) -> Value:
        """The integers as a value of the graph; known ones become a constant."""
        if isinstance(self.elements, Value):
            return self.elements
        return self.b.const(self.elements, DType.BOOL if self.elements.dtype == bool else DType.INT64)

    def _operand(self, other: IndexExpr | int) -> IndexExpr:
        return other if isinstance(other, IndexExpr) else IndexExpr.of(self.b, other)

    def _by(self, op_type: str, function: Callable[[Any, Any], Any], other: IndexExpr | int) -> IndexExpr:
        right = self._operand(other)
        x, y = self.elements, right.elements
        if isinstance(x, np.ndarray) and isinstance(y, np.ndarray) and np.broadcast(x, y).size <= MAX_FOLDED:
            return IndexExpr(self.b, np.asarray(function(x, y)))
        return IndexExpr(self.b, self.b.op(op_type, self.value, right.value))

    def __add__(self, other: IndexExpr | int) -> IndexExpr:
        return self._by("Add", np.add, other)

    def __sub__(self, other: IndexExpr | int) -> IndexExpr:
        return self._by("Sub", np.subtract, other)

    def __mul__(self, other: IndexExpr | int) -> IndexExpr:
        return self._by("Mul", np.multiply, other)

    def __floordiv__(self, other: IndexExpr | int) -> IndexExpr:
        """Divide integers that are not negative."""
        return self._by("Div", np.floor_divide, other)

    def __mod__(self, other: IndexExpr | int) -> IndexExpr:
        return self._by("Mod", np.mod, other)

    def __lt__(self, other: IndexExpr | int) -> IndexExpr:
        return self._by("Less", np.less, other)

    def __ge__(self, other: IndexExpr | int) -> IndexExpr:
        return self._by("GreaterOrEqual", np.greater_equal, other)

    def __and__(self, other: IndexExpr) -> IndexExpr:
        return self._by("And", np.logical_and, other)

    def equals(self, other: IndexExpr | int) -> IndexExpr:
        """Compare element by element."""
        return self._by("Equal", np.equal, other)

    def max(self, other: IndexExpr | int) -> IndexExpr:
        """Take the larger of both, element by element."""
        return self._by("Max", np.maximum, other)

    def min(self, other: IndexExpr | int) -> IndexExpr:
        """Take the smaller of both, element by element."""
        return self._by("Min", np.minimum, other)

    def choose(self, yes: IndexExpr | int, no: IndexExpr | int) -> IndexExpr:
        """Take `yes` where these are true, else `no`."""
        first, second = self._operand(yes), self._operand(no)
        if all(isinstance(item.elements, np.ndarray) for item in (self, first, second)):
            return IndexExpr(self.b, np.where(self.elements, first.elements, second.elements))  # type: ignore[arg-type]
        return IndexExpr(self.b, self.b.op("Where", self.value, first.value, second.value))

    def reshape(self, *shape: int) -> IndexExpr:
        """Change the shape; 0 is a size. Raises ModelInvalid if known elements do not fill it."""
        if isinstance(self.elements, np.ndarray):
            if -1 not in shape and self.elements.size != prod(shape):
                raise self.b.invalid(f"{self.elements.size} numbers instead of {prod(shape)}")
            return IndexExpr(self.b, self.elements.reshape(shape))
        return IndexExpr(self.b, self.b.reshape(self.elements, shape, allowzero=0 in shape and -1 not in shape))

    def gather(self, indices: IndexExpr) -> IndexExpr:
        """Take the elements of a list that stand at these indices."""
        if isinstance(self.elements, np.ndarray) and isinstance(indices.elements, np.ndarray):
            return IndexExpr(self.b, self.elements[indices.elements])
        return IndexExpr(self.b, self.b.op("Gather", self.value, indices.value, axis=0))

    def column(self, index: int) -> IndexExpr:
        """Take one column of a matrix."""
        if isinstance(self.elements, np.ndarray):
            return IndexExpr(self.b, self.elements[:, index])
        return IndexExpr(self.b, self.b.op("Gather", self.elements, self.b.const(index), axis=1))


def size_of(b: Builder, value: Value, axis: int) -> IndexExpr:
    """Return the size of an axis as a list of one element; the rank must be known."""
    shape = b.shape_of(value)
    if not -len(shape) <= axis < len(shape):
        raise b.invalid(f'"{value.name}" has {len(shape)} dims, none of them is {axis}')
    size, start = shape[axis], axis % len(shape)
    if isinstance(size, int):
        return IndexExpr.of(b, [size])
    return IndexExpr(b, b.op("Shape", value, start=start, end=start + 1))


def sizes_of(b: Builder, value: Value) -> list[IndexExpr]:
    """Return the sizes of all axes, each as a list of one element."""
    return [size_of(b, value, axis) for axis in range(len(b.shape_of(value)))]


def index_range(b: Builder, end: IndexExpr) -> IndexExpr:
    """Return the list 0, 1, … below `end`, which has one element."""
    if end.number is not None and end.number <= MAX_FOLDED:
        return IndexExpr.of(b, np.arange(end.number))
    return IndexExpr(b, b.iota(end.value))


def join(b: Builder, parts: Sequence[IndexExpr]) -> IndexExpr:
    """Join lists."""
    elements = [part.elements for part in parts]
    if all(isinstance(item, np.ndarray) for item in elements):
        return IndexExpr.of(b, np.concatenate([np.zeros(0, np.int64), *elements]))
    return IndexExpr(b, b.op("Concat", *[part.value for part in parts], axis=0)) if len(parts) > 1 else parts[0]


def product(b: Builder, parts: Sequence[IndexExpr]) -> IndexExpr:
    """Multiply lists of one element; known factors are multiplied here."""
    known = [part.number for part in parts if part.number is not None]
    result = IndexExpr.of(b, [int(np.prod(known, dtype=np.int64))])
    for part in parts:
        if part.number is None:
            result = part if result.number == 1 else result * part
    return result


def reshape_to(b: Builder, value: Value, sizes: Sequence[IndexExpr]) -> Value:
    """Reshape a value to sizes that need not be known; a single unknown one is inferred from the others."""
    numbers = [size.number for size in sizes]
    unknown = numbers.count(None)
    if unknown == 0 or (unknown == 1 and 0 not in numbers):
        shape = [-1 if number is None else number for number in numbers]
        return b.reshape(value, shape, allowzero=0 in shape and -1 not in shape)
    return b.op("Reshape", value, join(b, sizes).value, allowzero=1)
