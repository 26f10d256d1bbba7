"""Arithmetic in the words of Python, for mappings that are formulas."""

from __future__ import annotations

from dataclasses import dataclass

from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import Op


@dataclass(frozen=True, slots=True, eq=False)
class Formula:
    """A value that + − * / and the comparisons make new nodes of; numbers take its element type."""

    op: Op
    value: Value

    def _other(self, other: Formula | float) -> Value:
        return other.value if isinstance(other, Formula) else self.op.like(other, self.value)

    def _made(self, op_type: str, *others: Formula | float) -> Formula:
        return Formula(self.op, self.op.add(op_type, self.value, *[self._other(other) for other in others]))

    def __add__(self, other: Formula | float) -> Formula:
        return self._made("Add", other)

    def __sub__(self, other: Formula | float) -> Formula:
        return self._made("Sub", other)

    def __rsub__(self, other: float) -> Formula:
        return Formula(self.op, self.op.add("Sub", self._other(other), self.value))

    def __mul__(self, other: Formula | float) -> Formula:
        return self._made("Mul", other)

    def __truediv__(self, other: Formula | float) -> Formula:
        return self._made("Div", other)

    def __rtruediv__(self, other: float) -> Formula:
        return Formula(self.op, self.op.add("Div", self._other(other), self.value))

    def __mod__(self, other: Formula | float) -> Formula:
        return self._made("Mod", other)

    def __neg__(self) -> Formula:
        return self._made("Neg")

    def __abs__(self) -> Formula:
        return self._made("Abs")

    def __lt__(self, other: Formula | float) -> Formula:
        return self._made("Less", other)

    def __le__(self, other: Formula | float) -> Formula:
        return self._made("LessOrEqual", other)

    def __gt__(self, other: Formula | float) -> Formula:
        return self._made("Greater", other)

    def __or__(self, other: Formula) -> Formula:
        return self._made("Or", other)

    def __and__(self, other: Formula) -> Formula:
        return self._made("And", other)

    def equals(self, other: Formula | float) -> Formula:
        """Element by element."""
        return self._made("Equal", other)

    def floor(self) -> Formula:
        """The integer below."""
        return self._made("Floor")

    def ceil(self) -> Formula:
        """The integer above."""
        return self._made("Ceil")

    def exp(self) -> Formula:
        """e to the power of it."""
        return self._made("Exp")

    def sin(self) -> Formula:
        """The sine."""
        return self._made("Sin")

    def round_even(self) -> Formula:
        """The nearest integer, ties to even."""
        return self._made("Round")

    def round_away(self) -> Formula:
        """The nearest integer, ties away from zero, as C's round."""
        below = abs(self).floor()
        up = below + Formula(self.op, self.op.cast((0.5 - (abs(self) - below) <= 0).value, self.value.desc.dtype))
        return self._made("Sign") * up

    def least(self, other: Formula | float) -> Formula:
        """The smaller of both."""
        return self._made("Min", other)

    def most(self, other: Formula | float) -> Formula:
        """The larger of both."""
        return self._made("Max", other)

    def clip(self, low: float, high: float) -> Formula:
        """Between two numbers."""
        return self._made("Clip", low, high)

    def where(self, condition: Formula, other: Formula | float) -> Formula:
        """It where the condition holds, and the other elsewhere."""
        return Formula(self.op, self.op.add("Where", condition.value, self.value, self._other(other)))

    def cast(self, dtype: DType) -> Formula:
        """In another element type."""
        return Formula(self.op, self.op.cast(self.value, dtype))

    def unsqueeze(self, *axes: int) -> Formula:
        """With new dims of size 1."""
        return Formula(self.op, self.op.unsqueeze(self.value, *axes))


def counting(op: Op, length: Value | int, dtype: DType = DType.FLOAT32) -> Formula:
    """0, 1, … below a scalar of int64."""
    if isinstance(length, int):
        return Formula(op, op.const(range(length), dtype))
    return Formula(op, op.add("Range", op.const(0), length, op.const(1))).cast(dtype)


def size(op: Op, value: Value, axis: int) -> Formula:
    """The size of a dim, a scalar of int64."""
    dim = op.shape_of(value)[axis]
    if isinstance(dim, int):
        return Formula(op, op.const(dim))
    return Formula(op, op.squeeze(op.add("Shape", value, start=axis, end=axis + 1), 0))
