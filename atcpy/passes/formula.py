"""The frame of passes that recognise a function which a model spells out as a formula, and patterns for them.

A formula is a pattern of one value `x` and of constants, each of which is a single number; exporters
differ in the order of its products and in whether they divide by 2 or multiply by ½.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from math import inf, isfinite
from typing import Unpack

import numpy as np

from atcpy.ir import DType, Match, Node, Reject, Rewriter, Value
from atcpy.ir.pattern import Op, Pattern, const, either, op
from atcpy.passes.base import Declared
from atcpy.passes.fusion import Fusion, constant_is, only_read_within


class Formula(Fusion):
    """Replaces a formula of `x` by the op that it `creates`. Those of the named `constants` that are in a match must be
    these numbers.
    """

    creates: str
    constants: Mapping[str, float]

    def __init_subclass__(
        cls, *, switch: str, creates: str, constants: Mapping[str, float] | None = None, **declared: Unpack[Declared]
    ) -> None:
        cls.creates, cls.constants = creates, constants or {}
        declared.setdefault("makes", (creates,))
        super().__init_subclass__(switch=switch, **declared)

    def attributes(self, m: Match) -> Mapping[str, float | str]:
        """Return the attributes of the new node."""
        return {}

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from is_formula(m, **self.constants)
        yield from fits_attribute(m, *(value for value in self.attributes(m).values() if isinstance(value, float)))

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.op(self.creates, m["x"], **self.attributes(m))


def product(*factors: Pattern, name: str = "product") -> tuple[Op, ...]:
    """The product of several factors, in every order of multiplication."""
    trees = {}
    for size in range(1, len(factors) // 2 + 1):
        for indices in combinations(range(len(factors)), size):
            left = [factors[i] for i in indices]
            right = [factors[i] for i in range(len(factors)) if i not in indices]
            for a in _factor(left, f"{name}.left"):
                for b in _factor(right, f"{name}.right"):
                    trees[frozenset((a, b))] = op("Mul", a, b, commutative=True, name=name)
    return tuple(trees.values())


def _factor(factors: list[Pattern], name: str) -> tuple[Pattern, ...]:
    return tuple(factors) if len(factors) == 1 else product(*factors, name=name)


def scaled(of: Pattern, factor: str, divisor: str, name: str = "scaled") -> tuple[Op, Op]:
    """A value times a constant, written as a product with `factor` or as a quotient by `divisor`."""
    return op("Mul", of, const(factor), commutative=True, name=name), op("Div", of, const(divisor), name=name)


def scaled_product(a: Pattern, b: Pattern, factor: str, divisor: str) -> tuple[Op, ...]:
    """a · b times a constant, in every order."""
    return (
        *scaled(op("Mul", a, b, commutative=True, name="product"), factor, divisor),
        op("Mul", either(*scaled(a, factor, divisor)), b, commutative=True, name="product"),
        op("Mul", a, either(*scaled(b, factor, divisor)), commutative=True, name="product"),
    )


def factor_of(m: Match, factor: str, divisor: str) -> float:
    """The constant of `scaled`; 1 where the match has neither, ∞ for a division by 0."""
    if m.get(factor) is not None:
        return number(m[factor])
    if m.get(divisor) is not None:
        return 1 / number(m[divisor]) if number(m[divisor]) else inf
    return 1.0


def is_formula(m: Match, **constants: float) -> Iterator[Reject]:
    """Reasons against a function of `x` in the place of a formula. Those of the named constants that are in the
    match must be these numbers.
    """
    yield from only_read_within(m, m.root)
    yield from is_function_of(m["x"], m.root, [value for value in m.values.values() if value and value.tensor])
    for name, expected in constants.items():
        value = m.get(name)
        if value is not None:
            yield from constant_is(value, expected)


def is_function_of(x: Value, root: Node, constants: list[Value]) -> Iterator[Reject]:
    """Reasons against a function of x element by element in the place of the root."""
    if not x.desc.dtype.is_float:
        yield Reject("dtype", root.name, x.desc.dtype.long)
    rank = 0 if x.desc.shape is None else len(x.desc.shape)
    if any(len(value.desc.static_shape) > rank for value in constants):
        yield Reject("broadcast", root.name)


def number(value: Value) -> float:
    """The constant as a number; NaN if it is several."""
    return float(value.array.reshape(())) if value.desc.elements == 1 else float("nan")


def fits_attribute(m: Match, *numbers: float) -> Iterator[Reject]:
    """A reason if a constant that becomes an attribute is not finite, or several numbers, or would be rounded:
    attributes are float32, beside which only float64 has more digits.
    """
    if not all(map(isfinite, numbers)):
        yield Reject("other-constant", m.root.name, "is not one finite number")
    elif m["x"].desc.dtype is DType.FLOAT64 and any(float(np.float32(number)) != number for number in numbers):
        yield Reject("other-constant", m.root.name, "is no float32, as attributes are")


def where_above(x: Pattern, limit: Pattern, above: Pattern, below: Pattern) -> tuple[Op, Op]:
    """Where(x > limit, above, below), for formulas in which either will do where x is the limit."""
    is_above, is_below = (
        either(
            op(("Greater", "GreaterOrEqual"), larger, smaller, name="compare"),
            op(("Less", "LessOrEqual"), smaller, larger, name="compare"),
        )
        for larger, smaller in ((x, limit), (limit, x))
    )
    return op("Where", is_above, above, below), op("Where", is_below, below, above)
