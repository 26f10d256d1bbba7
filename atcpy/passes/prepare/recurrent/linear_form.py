"""What a body computes, column by column: sums of products, however a front end spells them.

Any value of shape [rows…, n] in which no row meets another is, from one column to another, a sum of products of atoms,
each with a factor: one number, or one a column.

    Split(MatMul(Concat(x, h), W) + b)[1]   →   [Concat·W] + b           between the columns of the piece
    (1 − z) · g + z · h                     →   [g] − [z]·[g] + [z]·[h]

An atom is part of a value that the sum takes as it is: an activation, a product with constant weights, or a source,
which is what comes into the body, or is named to be one.
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

MAX_PRODUCTS: Final = 24  # of a sum: brackets multiplied out may become very many
MAX_ATOMS: Final = 4  # of a product: squares of squares, too
MAX_DEPTH: Final = 60  # nodes from a result to what it is made of

# The elements of a value that is the same in every turn, None for all others.
Constant = Callable[[Value], Array | None]
Factor = Array  # float64: one number, or one a column


class NotACell(Exception):
    """What a body computes is no sum of products, or not the one that is asked for: why."""

    def __init__(self, reject: Reject) -> None:
        super().__init__(reject.reason)
        self.reject = reject


class Kind(Enum):
    """What an atom is."""

    SOURCE = "source"
    PRODUCT = "product"  # with constant weights
    ACTIVATION = "activation"


@dataclass(frozen=True, slots=True)
class Atom:
    """The columns of a value from `begin` to `end`."""

    kind: Kind
    value: Value
    begin: int
    end: int


Product = tuple[Atom, ...]  # the atoms met first stand first
Terms = Mapping[Product, Factor]


@dataclass(frozen=True, slots=True)
class Activation:
    """A function of one number, which is multiplied by `scale` before; the result is multiplied by `gain`."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0
    scale: float = 1.0
    gain: float = 1.0


def width(value: Value) -> int:
    """The number of columns."""
    shape = value.desc.shape
    if not shape or not isinstance(shape[-1], int):
        raise NotACell(Reject("shape-unknown", value.name))
    return shape[-1]


def rows(value: Value) -> tuple[Dim, ...]:
    """The dims before the columns, without those that are 1."""
    shape = value.desc.shape
    if not shape or UNNAMED in shape:
        raise NotACell(Reject("shape-unknown", value.name))
    return tuple(dim for dim in shape[:-1] if dim != 1)


@dataclass(frozen=True, slots=True)
class Span:
    """Columns of a value, which come at `at` among those that were asked for."""

    value: Value
    begin: int
    end: int
    at: int = 0


@dataclass(slots=True)
class Columns:
    """The terms of values of one body. All of them have the same rows; `sources` are not looked into."""

    constant: Constant
    rows: tuple[Dim, ...]
    sources: frozenset[Value]
    _found: dict[Span, Terms] = field(default_factory=dict)
    _numbers: dict[Atom, int] = field(default_factory=dict)

    def terms(self, value: Value, begin: int, end: int, depth: int = 0) -> Terms:
        """The sum that these columns are."""
        key = Span(value, begin, end)
        if key not in self._found:
            is_source = value in self.sources or value.producer.op_type == "Data"
            if is_source and self.constant(value) is None:
                self._check_rows(value)
                self._found[key] = self._alone(Atom(Kind.SOURCE, value, begin, end))
            else:
                self._found[key] = self.made(value, begin, end, depth)
        return self._found[key]

    def made(self, value: Value, begin: int, end: int, depth: int = 0) -> Terms:
        """The same of what makes the value, which may be a source."""
        node = value.producer
        if depth > MAX_DEPTH:
            raise NotACell(Reject("other-formula", node.name, "too long"))
        known = self.constant(value)
        if known is not None:
            return _constant_terms(value, known, begin, end)
        self._check_rows(value)
        if node.domain or (value.index and node.op_type != "Split"):
            raise NotACell(Reject("other-formula", node.name, node.op_type))
        coefficients = coefficients_of(node)
        if node.op_type == "Clip" or node.op_type in ACTIVATION_PARAMETERS:
            return self._alone(Atom(Kind.ACTIVATION, value, begin, end), self.activation(value).gain)
        if has_trait(node, Trait.MATRIX_PRODUCT):
            return self._product(node, begin, end, depth)
        if coefficients:
            return self._sum(node, coefficients, begin, end, depth)
        if node.op_type == "Mul":
            a, b = (self._operand(node, operand, begin, end, depth) for operand in node.operands)
            return self._multiplied(node, a, b)
        if node.op_type == "Div":
            return self._divided(node, begin, end, depth)
        first, *others = self.spans(value, begin, end)
        if others or first.value is value:
            raise NotACell(Reject("other-formula", node.name, node.op_type))
        return self.terms(first.value, first.begin, first.end, depth + 1)

    def activation(self, value: Value) -> Activation:
        """What an atom of that kind makes of its node's operand."""
        node = value.producer
        if node.op_type != "Clip":
            alpha, beta = (default or 0.0 for default in ACTIVATION_PARAMETERS[node.op_type])
            return Activation(node.op_type, node.float_attr("alpha", alpha), node.float_attr("beta", beta))
        low, high = (None if (bound := node.input(place)) is None else self.constant(bound) for place in (1, 2))
        if low is None or high is None or low.size != 1 or high.size != 1 or low.item() != 0 or not high.item() > 0:
            raise NotACell(Reject("other-formula", node.name, "Clip between other numbers"))
        top = float(high.item())
        return Activation("HardSigmoid", 1.0, 0.0, 1 / top, top)

    def weights(self, atom: Atom) -> tuple[Value, Array]:
        """The operand of an atom that is a product, and the weights [inputs, columns]."""
        node = atom.value.producer
        held = self.constant(node.operand(1))
        if held is None:
            raise NotACell(Reject("weights-not-constant", node.name))
        is_gemm = node.op_type == "Gemm"
        if held.ndim != 2 or (is_gemm and node.int_attr("transA", 0)):
            raise NotACell(Reject("other-formula", node.name, "no rows times a matrix"))
        matrix = held.T if is_gemm and node.int_attr("transB", 0) else held
        part = matrix[:, atom.begin : atom.end].astype(np.float64)
        return node.operand(0), part * (node.float_attr("alpha", 1.0) if is_gemm else 1.0)

    def spans(self, value: Value, begin: int, end: int) -> Iterator[Span]:
        """Where columns come from that nodes only move."""
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
        """Where they are one node earlier."""
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
        """Is it a Dropout that may leave out elements?"""
        training = node.input(2) if node.op_type == "Dropout" else None
        if training is None:
            return False
        held = self.constant(training)
        return held is None or bool(np.any(held))

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
        places = range(starts.size) if named is None else [int(axis) % rank for axis in named.reshape(-1)]
        begin = dict(zip(places, starts.reshape(-1).tolist(), strict=True)).get(rank - 1, 0)
        return int(min(max(begin + (width(source) if begin < 0 else 0), 0), width(source)))

    # --- sums and products ---------------------------------------------------------------------------

    def _check_rows(self, value: Value) -> None:
        if rows(value) != self.rows:
            raise NotACell(Reject("sizes-differ", value.name, "other rows"))

    def _alone(self, atom: Atom, gain: float = 1.0) -> Terms:
        self._numbers.setdefault(atom, len(self._numbers))
        return {(atom,): np.array(gain)}

    def _operand(self, node: Node, value: Value, begin: int, end: int, depth: int) -> Terms:
        """The terms of an operand of an op element by element; one that is not constant has all columns."""
        if self.constant(value) is None and width(value) != width(node.output):
            raise NotACell(Reject("other-formula", node.name, "one column for all"))
        return self.terms(value, begin, end, depth + 1)

    def _sum(self, node: Node, coefficients: tuple[int, ...], begin: int, end: int, depth: int) -> Terms:
        total: dict[Product, Factor] = {}
        for coefficient, value in zip(coefficients, node.operands, strict=True):
            _add(total, self._operand(node, value, begin, end, depth), coefficient)
        return total

    def _product(self, node: Node, begin: int, end: int, depth: int) -> Terms:
        total = dict(self._alone(Atom(Kind.PRODUCT, node.output, begin, end)))
        bias = node.input(2) if node.op_type == "Gemm" else None
        if bias is not None:
            _add(total, self._operand(node, bias, begin, end, depth), node.float_attr("beta", 1.0))
        return total

    def _multiplied(self, node: Node, a: Terms, b: Terms) -> Terms:
        total: dict[Product, Factor] = {}
        for left, factor in a.items():
            for right, gain in b.items():
                if len(left) + len(right) > MAX_ATOMS:
                    raise NotACell(Reject("other-formula", node.name, "a power"))
                atoms = tuple(sorted((*left, *right), key=self._numbers.__getitem__))
                _add(total, {atoms: gain}, factor)
        return total

    def _divided(self, node: Node, begin: int, end: int, depth: int) -> Terms:
        dividend, divisor = (self._operand(node, value, begin, end, depth) for value in node.operands)
        if set(divisor) != {()} or not np.all(divisor[()]):
            raise NotACell(Reject("other-formula", node.name, "divided by what is computed"))
        total: dict[Product, Factor] = {}
        _add(total, dividend, 1 / divisor[()])
        return total


def _add(total: dict[Product, Factor], terms: Terms, factor: float | Factor) -> None:
    """Adds terms, each times the factor."""
    if len(total) + len(terms) > MAX_PRODUCTS:
        raise NotACell(Reject("other-formula", next(iter(terms))[0].value.name, "too many products"))
    for atoms, gain in terms.items():
        total[atoms] = np.asarray(total.get(atoms, 0.0) + gain * factor)
        if not np.any(total[atoms]):
            del total[atoms]


def _constant_terms(value: Value, array: Array, begin: int, end: int) -> Terms:
    """A constant that is the same in all rows."""
    flat = array.reshape(-1).astype(np.float64)
    if flat.size and np.all(flat == flat[0]):
        factor = np.array(flat[0])
    elif flat.size == array.shape[-1]:
        factor = flat[begin:end]
    else:
        raise NotACell(Reject("other-formula", value.name, "another number in each row"))
    return {(): factor} if np.any(factor) else {}
