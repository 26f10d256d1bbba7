"""Normalise what the body of a loop computes to a polynomial for each range of columns, whatever the exporter wrote.

A value of shape [rows…, n] in which no row depends on another is, over a range of its columns, a polynomial. Each of
its coefficients is one number, or one number a column.

    Split(MatMul(Concat(x, h), W) + b)[1]   →   [Concat·W] + b           over the columns of the piece
    (1 − z) · g + z · h                     →   [g] − [z]·[g] + [z]·[h]

The variables are the columns of activations, of products with constant weights, and of sources: the inputs of the body,
and values that the caller names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import numpy as np

from atcpy.ir import Node, Reject, Value
from atcpy.ir.shape import Dim
from atcpy.ir.tensor import Array
from atcpy.ops import Trait, coefficients_of, has_trait
from atcpy.ops.core.shape_values import UNNAMED
from atcpy.ops.recurrent import ACTIVATION_PARAMETERS

MAX_MONOMIALS: Final = 24  # of a polynomial: expanded brackets may become very many
MAX_DEGREE: Final = 4  # of a monomial: nodes that square squares make it grow fast
MAX_DEPTH: Final = 60  # nodes from a result to its variables

# The elements of a value that is the same in every iteration, None for all others.
Constant = Callable[[Value], Array | None]
Coefficient = Array  # float64: one number, or one a column


class NotACell(Exception):
    """The body does not compute a polynomial, or not that of a recurrent cell; `reject` is the reason."""

    def __init__(self, reject: Reject) -> None:
        super().__init__(reject.reason)
        self.reject = reject


class Kind(Enum):
    """Kinds of variables."""

    SOURCE = "source"
    PRODUCT = "product"  # with constant weights
    ACTIVATION = "activation"


@dataclass(frozen=True, slots=True)
class Variable:
    """The columns of a value from `begin` to `end`."""

    kind: Kind
    value: Value
    begin: int
    end: int


Monomial = tuple[Variable, ...]  # in the order in which the variables were found
Polynomial = Mapping[Monomial, Coefficient]


@dataclass(frozen=True, slots=True)
class Activation:
    """The elementwise function gain · name(scale · x)."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0
    scale: float = 1.0
    gain: float = 1.0


def width(value: Value) -> int:
    """Return the number of columns."""
    shape = value.desc.shape
    if not shape or not isinstance(shape[-1], int):
        raise NotACell(Reject("shape-unknown", value.name))
    return shape[-1]


def rows(value: Value) -> tuple[Dim, ...]:
    """Return the dims before the columns, without those that are 1."""
    shape = value.desc.shape
    if not shape or UNNAMED in shape:
        raise NotACell(Reject("shape-unknown", value.name))
    return tuple(dim for dim in shape[:-1] if dim != 1)


@dataclass(frozen=True, slots=True)
class Span:
    """Columns of a value. They are those from `at` on of a larger range."""

    value: Value
    begin: int
    end: int
    at: int = 0


@dataclass(slots=True)
class Polynomials:
    """The polynomials of the values of one body, all of which have the same rows. `sources` are variables."""

    constant: Constant
    rows: tuple[Dim, ...]
    sources: frozenset[Value]
    _found: dict[Span, Polynomial] = field(default_factory=dict)
    _numbers: dict[Variable, int] = field(default_factory=dict)

    def of(self, value: Value, begin: int, end: int, depth: int = 0) -> Polynomial:
        """Return the polynomial of a range of columns. Raises NotACell if there is none."""
        key = Span(value, begin, end)
        if key not in self._found:
            is_source = value in self.sources or value.producer.op_type == "Data"
            if is_source and self.constant(value) is None:
                self._check_rows(value)
                self._found[key] = self._variable(Variable(Kind.SOURCE, value, begin, end))
            else:
                self._found[key] = self.expand(value, begin, end, depth)
        return self._found[key]

    def expand(self, value: Value, begin: int, end: int, depth: int = 0) -> Polynomial:
        """Return the polynomial that the producer of a value computes, even if the value is a source."""
        node = value.producer
        if depth > MAX_DEPTH:
            raise NotACell(Reject("other-formula", node.name, "too long"))
        elements = self.constant(value)
        if elements is not None:
            return _constant_polynomial(value, elements, begin, end)
        self._check_rows(value)
        if node.domain or (value.index and node.op_type != "Split"):
            raise NotACell(Reject("other-formula", node.name, node.op_type))
        coefficients = coefficients_of(node)
        if node.op_type == "Clip" or node.op_type in ACTIVATION_PARAMETERS:
            return self._variable(Variable(Kind.ACTIVATION, value, begin, end), self.activation(value).gain)
        if has_trait(node, Trait.MATRIX_PRODUCT):
            return self._product(node, begin, end, depth)
        if coefficients:
            return self._sum(node, coefficients, begin, end, depth)
        if node.op_type == "Mul":
            a, b = (self._operand(node, operand, begin, end, depth) for operand in node.operands)
            return self._multiply(node, a, b)
        if node.op_type == "Div":
            return self._divide(node, begin, end, depth)
        first, *others = self.spans(value, begin, end)
        if others or first.value is value:
            raise NotACell(Reject("other-formula", node.name, node.op_type))
        return self.of(first.value, first.begin, first.end, depth + 1)

    def activation(self, value: Value) -> Activation:
        """Return the function of the activation that produces a value. Raises NotACell if recurrent ops lack it."""
        node = value.producer
        if node.op_type != "Clip":
            alpha, beta = (default or 0.0 for default in ACTIVATION_PARAMETERS[node.op_type])
            return Activation(node.op_type, node.float_attr("alpha", alpha), node.float_attr("beta", beta))
        low, high = (None if (bound := node.input(index)) is None else self.constant(bound) for index in (1, 2))
        if low is None or high is None or low.size != 1 or high.size != 1 or low.item() != 0 or not high.item() > 0:
            raise NotACell(Reject("other-formula", node.name, "Clip between other numbers"))
        top = float(high.item())
        return Activation("HardSigmoid", 1.0, 0.0, 1 / top, top)

    def weights(self, variable: Variable) -> tuple[Value, Array]:
        """Return the input of a product and its weights [inputs, columns]."""
        node = variable.value.producer
        elements = self.constant(node.operand(1))
        if elements is None:
            raise NotACell(Reject("weights-not-constant", node.name))
        is_gemm = node.op_type == "Gemm"
        if elements.ndim != 2 or (is_gemm and node.int_attr("transA", 0)):
            raise NotACell(Reject("other-formula", node.name, "no rows times a matrix"))
        matrix = elements.T if is_gemm and node.int_attr("transB", 0) else elements
        part = matrix[:, variable.begin : variable.end].astype(np.float64)
        return node.operand(0), part * (node.float_attr("alpha", 1.0) if is_gemm else 1.0)

    def spans(self, value: Value, begin: int, end: int) -> Iterator[Span]:
        """Yield the columns that a range of columns consists of, before nodes that only move them."""
        pending = [Span(value, begin, end)]
        steps = 0
        while pending:
            span = pending.pop()
            moved = list(self._moved(span)) if span.value not in self.sources else [span]
            steps += 1
            if moved == [span] or steps > MAX_DEPTH:
                yield span
            else:
                pending.extend(reversed(moved))

    def _moved(self, span: Span) -> Iterator[Span]:
        """Yield the same columns one node earlier, or the span itself."""
        value, node = span.value, span.value.producer
        if has_trait(node, Trait.VIEW) and value.index == 0 and not self._drops(node):
            source = node.operand(0)
            if width(source) == width(value) and rows(source) == rows(value):
                yield Span(source, span.begin, span.end, span.at)
                return
        if node.op_type == "Concat" and self._is_along_columns(node):
            at = 0
            for piece in node.operands:
                first, last = max(span.begin, at), min(span.end, at + width(piece))
                if first < last:
                    yield Span(piece, first - at, last - at, span.at + first - span.begin)
                at += width(piece)
        elif node.op_type == "Split" and self._is_along_columns(node):
            before = sum(width(piece) for piece in node.outputs[: value.index])
            yield Span(node.operand(0), span.begin + before, span.end + before, span.at)
        elif node.op_type == "Slice" and self._slices_columns(node):
            before = self._first_column(node)
            yield Span(node.operand(0), span.begin + before, span.end + before, span.at)
        else:
            yield span

    def _drops(self, node: Node) -> bool:
        """Return whether a node is a Dropout in training mode."""
        training = node.input(2) if node.op_type == "Dropout" else None
        if training is None:
            return False
        elements = self.constant(training)
        return elements is None or bool(np.any(elements))

    def _is_along_columns(self, node: Node) -> bool:
        """Return whether a Concat or Split leaves the rows as they are."""
        source = node.operand(0).desc.shape
        return source is not None and node.int_attr("axis", 0) in (-1, len(source) - 1)

    def _slices_columns(self, node: Node) -> bool:
        """Return whether a Slice leaves the rows as they are, and takes columns one after the other."""
        shape, result, steps = node.operand(0).desc.shape, node.output.desc.shape, node.input(4)
        if shape is None or result is None or result[:-1] != shape[:-1] or UNNAMED in result:
            return False
        if self.constant(node.operand(1)) is None:
            return False
        if any(value is not None and self.constant(value) is None for value in (node.input(3), steps)):
            return False
        return steps is None or bool(np.all(self.constant(steps) == 1))

    def _first_column(self, node: Node) -> int:
        source = node.operand(0)
        starts, axes = self.constant(node.operand(1)), node.input(3)
        named = None if axes is None else self.constant(axes)
        assert starts is not None
        rank = len(source.desc.shape or ())
        moved_axes = range(starts.size) if named is None else [int(axis) % rank for axis in named.reshape(-1)]
        begin = dict(zip(moved_axes, starts.reshape(-1).tolist(), strict=True)).get(rank - 1, 0)
        return int(min(max(begin + (width(source) if begin < 0 else 0), 0), width(source)))

    # --- arithmetic ----------------------------------------------------------------------------------

    def _check_rows(self, value: Value) -> None:
        if rows(value) != self.rows:
            raise NotACell(Reject("sizes-differ", value.name, "other rows"))

    def _variable(self, variable: Variable, gain: float = 1.0) -> Polynomial:
        self._numbers.setdefault(variable, len(self._numbers))
        return {(variable,): np.array(gain)}

    def _operand(self, node: Node, value: Value, begin: int, end: int, depth: int) -> Polynomial:
        """Return the polynomial of an operand of an elementwise op. Only constants may broadcast along the columns."""
        if self.constant(value) is None and width(value) != width(node.output):
            raise NotACell(Reject("other-formula", node.name, "one column for all"))
        return self.of(value, begin, end, depth + 1)

    def _sum(self, node: Node, coefficients: tuple[int, ...], begin: int, end: int, depth: int) -> Polynomial:
        total: dict[Monomial, Coefficient] = {}
        for coefficient, value in zip(coefficients, node.operands, strict=True):
            _add(total, self._operand(node, value, begin, end, depth), coefficient)
        return total

    def _product(self, node: Node, begin: int, end: int, depth: int) -> Polynomial:
        total = dict(self._variable(Variable(Kind.PRODUCT, node.output, begin, end)))
        bias = node.input(2) if node.op_type == "Gemm" else None
        if bias is not None:
            _add(total, self._operand(node, bias, begin, end, depth), node.float_attr("beta", 1.0))
        return total

    def _multiply(self, node: Node, a: Polynomial, b: Polynomial) -> Polynomial:
        total: dict[Monomial, Coefficient] = {}
        for left, factor in a.items():
            for right, gain in b.items():
                if len(left) + len(right) > MAX_DEGREE:
                    raise NotACell(Reject("other-formula", node.name, "a power"))
                monomial = tuple(sorted((*left, *right), key=self._numbers.__getitem__))
                _add(total, {monomial: gain}, factor)
        return total

    def _divide(self, node: Node, begin: int, end: int, depth: int) -> Polynomial:
        dividend, divisor = (self._operand(node, value, begin, end, depth) for value in node.operands)
        if set(divisor) != {()} or not np.all(divisor[()]):
            raise NotACell(Reject("other-formula", node.name, "divided by what is computed"))
        return self._multiply(node, dividend, {(): 1 / divisor[()]})


def _add(total: dict[Monomial, Coefficient], terms: Polynomial, factor: float | Coefficient) -> None:
    """Add a polynomial times a factor to `total`."""
    if len(total) + len(terms) > MAX_MONOMIALS:
        raise NotACell(Reject("other-formula", next(iter(terms))[0].value.name, "too many products"))
    for monomial, gain in terms.items():
        total[monomial] = np.asarray(total.get(monomial, 0.0) + gain * factor)
        if not np.any(total[monomial]):
            del total[monomial]


def _constant_polynomial(value: Value, array: Array, begin: int, end: int) -> Polynomial:
    """Return the polynomial of a constant. Raises NotACell if its rows differ."""
    flat = array.reshape(-1).astype(np.float64)
    if flat.size and np.all(flat == flat[0]):
        factor = np.array(flat[0])
    elif flat.size == array.shape[-1]:
        factor = flat[begin:end]
    else:
        raise NotACell(Reject("other-formula", value.name, "another number in each row"))
    return {(): factor} if np.any(factor) else {}
