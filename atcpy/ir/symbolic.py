"""Sizes that depend on the dims of a model's inputs, for a compiler that is written for numbers.

A `SymInt` is a polynomial over symbols, and over quotients, remainders, minima and maxima of such. It stands where an
`int` would: arithmetic gives further ones. A comparison has to give True or False; it is decided for all values of the
symbols where their ranges allow that. Else the answer is the one for the symbols' example values, and becomes a
*guard*: what is compiled serves the values of the symbols for which all guards answer the same. Where a number is
needed, as an index or by numpy, the guard is that the size is its example: nothing is fixed in silence.

The same method, on Python frames: PyTorch's `torch.fx.experimental.symbolic_shapes`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from math import gcd, inf, prod
from typing import Final, cast

import numpy as np

Monomial = tuple[int, ...]  # the atoms of a product, in ascending order
Terms = tuple[tuple[Monomial, int], ...]  # a polynomial: monomials in ascending order, with coefficients other than 0
Question = tuple[Terms, str]  # how a polynomial compares with 0: "==" or "<"


class Op(Enum):
    """What a computed atom is, of two operands."""

    FDIV = "//"
    MOD = "%"
    MIN = "min"
    MAX = "max"
    SCALE = "scaled"  # the second operand is the bits of a float32


@dataclass(frozen=True, slots=True)
class Atom:
    """A symbol (`op` is None), or an operation on polynomials. `example` is its value for those of the symbols."""

    name: str
    low: float
    high: float
    example: int
    op: Op | None = None
    operands: tuple[Terms, ...] = ()


@dataclass(frozen=True, slots=True)
class Guard:
    """A comparison of a polynomial with 0 that the ranges of the symbols leave open: its answer for the examples, and
    where the compiler asked.
    """

    terms: Terms
    relation: str  # "==" or "<"
    answer: bool
    site: str = field(compare=False)

    @property
    def question(self) -> Question:
        """What was asked."""
        return self.terms, self.relation


class Tracer:
    """The symbols of one compilation, what was computed of them, and the guards."""

    def __init__(self, assumed: Iterable[Terms] = (), stated: Mapping[Question, bool] | None = None) -> None:
        """`assumed` are polynomials that are 0 wherever the plan serves, though not for the examples; `stated` are
        answers that hold there, though not for the examples.
        """
        self.assumed = frozenset(assumed)
        self.stated = {} if stated is None else stated
        self.atoms: list[Atom] = []
        self.guards: dict[Question, Guard] = {}
        self.last: Guard | None = None  # the guard that answered last
        self._equals: dict[int, Terms] = {}  # what computed atoms are by guards, free of such atoms when it was noted
        self._numbers: dict[tuple[Op, tuple[Terms, ...]], int] = {}

    def symbol(self, name: str, low: int, high: int, example: int) -> int:
        """Add a symbol with its range and an example of its value."""
        self.atoms.append(Atom(name, low, high, example))
        return self._size((((len(self.atoms) - 1,), 1),))

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Forget afterwards what is added within: symbols, what is computed of them, and guards."""
        kept = self.atoms.copy(), self.guards.copy(), self._numbers.copy(), self.last, self._equals.copy()
        try:
            yield
        finally:
            self.atoms, self.guards, self._numbers, self.last, self._equals = kept

    def _size(self, terms: Terms) -> int:
        terms = self.rewritten(terms)
        if not terms:
            return 0
        if len(terms) == 1 and terms[0][0] == ():
            return terms[0][1]
        return cast(int, SymInt(self, terms))

    def apply(self, op: Op, a: int, b: int) -> int:
        """An operation whose result is an atom, unless it is simpler than that."""
        operands = self.rewritten(terms_of(a)), self.rewritten(terms_of(b))
        number = self._numbers.get((op, operands))
        if number is None:
            low, high = self._result_range(op, *operands)
            examples = [self.example(terms) for terms in operands]
            if op in (Op.FDIV, Op.MOD) and examples[1] == 0:
                raise NoSizesLeft(f"{self.text(operands[1])} divides, and is 0 for the examples")
            example = _APPLY[op](*examples)
            number = self._numbers[op, operands] = len(self.atoms)
            self.atoms.append(Atom(f"%{number}", low, high, example, op, operands))
        return self._size((((number,), 1),))

    def _result_range(self, op: Op, a: Terms, b: Terms) -> tuple[float, float]:
        (low, high), (low_b, high_b) = self.range(a), self.range(b)
        match op:
            case Op.MIN:
                return min(low, low_b), min(high, high_b)
            case Op.MAX:
                return max(low, low_b), max(high, high_b)
            case Op.MOD:
                return 0, min(high_b - 1, high if low >= 0 else inf)
            case Op.SCALE:
                return _rescaled(low, low_b), _rescaled(high, low_b)
            case _ if low_b > 0:
                return _quotient(low, high_b if low >= 0 else low_b), _quotient(high, low_b if high >= 0 else high_b)
            case _:
                return -inf, inf

    def example(self, terms: Terms) -> int:
        """The value of a polynomial for the examples."""
        return _value(terms, {atom: self.atoms[atom].example for monomial, _ in terms for atom in monomial})

    def value(self, size: int, symbols: Mapping[str, int]) -> int | None:
        """A size for these values of the symbols; None if that divides by 0."""
        return self.evaluate(terms_of(size), symbols)

    def evaluate(self, terms: Terms, symbols: Mapping[str, int]) -> int | None:
        """A polynomial for these values of the symbols; None if that divides by 0."""
        values = self._values((terms,), symbols)
        return None if values is None else _value(terms, values)

    def symbols_of(self, terms: Terms) -> set[str]:
        """The names of the symbols that a polynomial depends on."""
        return {atom.name for number in self._atoms_of((terms,)) if (atom := self.atoms[number]).op is None}

    def is_exampled(self, guard: Guard) -> bool:
        """Does a guard hold for the examples? What is assumed or stated need not."""
        return guard.terms not in self.assumed and guard.question not in self.stated

    def all_hold(self, guards: Iterable[Guard], symbols: Mapping[str, int]) -> bool:
        """Do the guards hold for these values of the symbols?"""
        asked = list(guards)
        values = self._values([guard.terms for guard in asked], symbols)
        if values is None:
            return False
        return all(_answer(_value(guard.terms, values), guard.relation) == guard.answer for guard in asked)

    def _atoms_of(self, polynomials: Iterable[Terms]) -> list[int]:
        """The numbers of the atoms that polynomials depend on, each behind those that it is computed of."""
        pending, seen = list(polynomials), set[int]()
        while pending:
            for number in {atom for monomial, _ in pending.pop() for atom in monomial} - seen:
                seen.add(number)
                pending += self.atoms[number].operands
        return sorted(seen)

    def _values(self, polynomials: Iterable[Terms], symbols: Mapping[str, int]) -> dict[int, int] | None:
        """The values of the atoms that polynomials depend on. None if one divides by 0."""
        values: dict[int, int] = {}
        for number in self._atoms_of(polynomials):
            atom = self.atoms[number]
            if atom.op is None:
                values[number] = symbols[atom.name]
                continue
            a, b = (_value(terms, values) for terms in atom.operands)
            if b == 0 and atom.op in (Op.FDIV, Op.MOD):
                return None
            values[number] = _APPLY[atom.op](a, b)
        return values

    def range(self, terms: Terms) -> tuple[float, float]:
        """Bounds of a polynomial. Each atom is written as its least value and a rest, so that `s·t − s` is seen not to
        be negative for s, t ≥ 1.
        """
        shifted: dict[Monomial, int] = {}
        for monomial, coefficient in terms:
            _add_shifted(shifted, monomial, coefficient, self.atoms)
        low: float = 0
        high: float = 0
        for monomial, coefficient in shifted.items():
            if coefficient == 0:  # shares that cancel; times an infinite reach they would be no number
                continue
            if any(self.atoms[atom].low == -inf for atom in monomial):
                return -inf, inf
            spans = [self.atoms[atom].high - self.atoms[atom].low for atom in monomial]
            reach = 0 if 0 in spans else prod(spans)  # none of a product with one value, however large the others
            if monomial == ():
                low, high = low + coefficient, high + coefficient
            elif coefficient > 0:
                high += coefficient * reach
            else:
                low += coefficient * reach
        return low, high

    def upper_bounds(self, sizes: Iterable[int], open_from: int) -> list[float]:
        """Return the largest value that each size can have, or `inf`. A symbol whose range reaches `open_from` has no
        largest value. Bounds may be larger than necessary where a symbol occurs more than once.
        """
        bounded = Tracer()
        for atom in self.atoms:  # with what guards have taught about symbols since the atom was added
            low, high = atom.low, atom.high if atom.high < open_from else inf
            if atom.op is not None:
                low, high = bounded._result_range(atom.op, *atom.operands)
            bounded.atoms.append(replace(atom, low=low, high=high))
        return [bounded.range(terms_of(size))[1] for size in sizes]

    def compare(self, terms: Terms, relation: str) -> bool:
        """Answer `polynomial relation 0`, by a guard if the ranges do not decide it."""
        if relation == "==":
            terms = self.simplified(terms)
        low, high = self.range(terms)
        if relation == "==":
            if low > 0 or high < 0:
                return False
            if low == high == 0:
                return True
            example = self.example(terms) == 0
        else:
            if high < 0:
                return True
            if low >= 0:
                return False
            example = self.example(terms) < 0
        key = (terms, relation)
        if key not in self.guards:
            answer = self.stated.get(key, example)
            self.guards[key] = Guard(terms, relation, answer, _caller())
            self._learn(terms, relation, answer)
            if relation == "==" and answer:
                self.equate(terms)
        self.last = self.guards[key]
        return self.last.answer

    def equate(self, terms: Terms) -> None:
        """Write a computed atom from now on as what it has to be for a polynomial to be 0, as a guard says, if it is
        there alone: `q` as `2·(q // 2)`, for instance, so that strides of one are seen to be those of the other.
        """
        counts = Counter(atom for monomial, _ in terms for atom in monomial)
        alone = [
            (monomial[0], coefficient)
            for monomial, coefficient in terms
            if len(monomial) == 1 and abs(coefficient) == 1 and counts[monomial[0]] == 1
        ]
        computed = [(atom, coefficient) for atom, coefficient in alone if self.atoms[atom].op is not None]
        if computed:
            atom, coefficient = max(computed)
            rest = [(monomial, -coefficient * factor) for monomial, factor in terms if monomial != (atom,)]
            self._equals[atom] = tuple(rest)

    def rewritten(self, terms: Terms) -> Terms:
        """A polynomial without the atoms that guards say what they are."""
        equals = self._equals
        while equals and (found := next((m for m, _ in terms if not equals.keys().isdisjoint(m)), None)) is not None:
            atom = next(atom for atom in found if atom in equals)
            factor = dict(terms)[found]
            others = tuple(term for term in terms if term[0] != found)
            product = _multiply(((_without(found, atom), factor),), equals[atom])
            terms = _combine(others, product, 1)
        return terms

    def _learn(self, terms: Terms, relation: str, answer: bool) -> None:
        """Narrow the range of an atom by a guard on it alone: what is compiled is run only where that holds."""
        *constant, (monomial, coefficient) = sorted(terms, key=lambda term: len(term[0]))
        if len(monomial) != 1 or abs(coefficient) != 1 or len(constant) > 1 or any(other for other, _ in constant):
            return
        number = monomial[0]
        bound = -coefficient * sum(factor for _, factor in constant)  # where the polynomial is 0
        atom = self.atoms[number]
        low, high = atom.low, atom.high
        if relation == "==":
            if answer:
                low = high = bound
            elif bound == low:
                low += 1
        elif answer == (coefficient > 0):  # atom < bound, or atom <= bound
            high = min(high, bound - answer)
        else:
            low = max(low, bound + answer)
        self.atoms[number] = replace(atom, low=low, high=high)

    def simplified(self, terms: Terms) -> Terms:
        """A polynomial that is 0 where this one is: without factors that are never 0, and of one sign."""
        terms = self.rewritten(terms)
        if not terms:
            return terms
        factors = [atom for atom in set(terms[0][0]) if self.atoms[atom].low > 0]
        for atom in factors:
            while all(atom in monomial for monomial, _ in terms):
                terms = tuple((_without(monomial, atom), coefficient) for monomial, coefficient in terms)
        divisor = gcd(*(coefficient for _, coefficient in terms)) * (1 if terms[0][1] > 0 else -1)
        return tuple(sorted((monomial, coefficient // divisor) for monomial, coefficient in terms))

    def text(self, terms: Terms) -> str:
        """The polynomial as a formula."""
        if not terms:
            return "0"
        parts = []
        for monomial, coefficient in terms:
            factors = [self.atoms[atom].name for atom in monomial]
            if coefficient != 1 or not factors:
                factors.insert(0, str(coefficient))
            parts.append("·".join(factors))
        return "+".join(parts)


def _without(monomial: Monomial, atom: int) -> Monomial:
    index = monomial.index(atom)
    return monomial[:index] + monomial[index + 1 :]


def _add_shifted(total: dict[Monomial, int], monomial: Monomial, coefficient: int, atoms: Sequence[Atom]) -> None:
    """Add `coefficient` times the product of `low + rest` of the atoms, multiplied out."""
    products: dict[Monomial, int] = {(): coefficient}
    for atom in monomial:
        low = atoms[atom].low
        grown: dict[Monomial, int] = {}
        for product, factor in products.items():
            grown[(*product, atom)] = grown.get((*product, atom), 0) + factor
            if low != -inf and low != 0:
                grown[product] = grown.get(product, 0) + factor * int(low)
        products = grown
    for product, factor in products.items():
        total[product] = total.get(product, 0) + factor


def _value(terms: Terms, values: Mapping[int, int]) -> int:
    total = 0
    for monomial, coefficient in terms:
        for atom in monomial:
            coefficient *= values[atom]
        total += coefficient
    return total


def _answer(value: int, relation: str) -> bool:
    return value == 0 if relation == "==" else value < 0


def _quotient(a: float, b: float) -> float:
    """⌊a / b⌋ for b > 0, also where one of them is infinite."""
    if abs(a) == inf:
        return a
    return (-1 if a < 0 else 0) if b == inf else a // b


def _rescaled(bound: float, bits: float) -> float:
    return bound if abs(bound) == inf else _APPLY[Op.SCALE](int(bound), int(bits))


_APPLY: Final[dict[Op, Callable[[int, int], int]]] = {
    Op.FDIV: lambda a, b: a // b,
    Op.MOD: lambda a, b: a % b,
    Op.MIN: min,
    Op.MAX: max,
    Op.SCALE: lambda a, b: int(np.floor(np.float32(a) * np.uint32(b).view(np.float32))),
}


def terms_of(size: int) -> Terms:
    """Return a size as a polynomial."""
    symbolic = _as_symbolic(size)
    if symbolic is not None:
        return symbolic.terms
    return (((), int(size)),) if size else ()


def is_symbolic(size: object) -> bool:
    """Return whether a size depends on symbols."""
    return type(size) is SymInt


def _as_symbolic(size: object) -> SymInt | None:
    return size if type(size) is SymInt else None


def _either(a: int, b: int) -> SymInt | None:
    left = _as_symbolic(a)
    return _as_symbolic(b) if left is None else left


def same(a: object, b: object) -> bool:
    """Return whether sizes are equal whatever the symbols are; no guard. What holds for some values is not the same."""
    if type(a) is SymInt:
        rewritten = a.tracer.rewritten
        return type(b) is SymInt and (a.terms == b.terms or rewritten(a.terms) == rewritten(b.terms))
    return type(b) is not SymInt and a == b


def same_shape(a: Sequence[object] | None, b: Sequence[object] | None) -> bool:
    """Return whether shapes have the same dims whatever the symbols are."""
    if a is None or b is None:
        return a is b
    return len(a) == len(b) and all(map(same, a, b))


def always_below(a: int, b: int) -> bool:
    """Return whether a < b whatever the symbols are; no guard. What holds for some values does not always."""
    symbolic = _either(a, b)
    if symbolic is None:
        return a < b
    return symbolic.tracer.range(_combine(terms_of(a), terms_of(b), -1))[1] < 0


def below(a: int, b: int) -> bool:
    """Return a < b, where the answer for equal sizes does not matter: the dims between them are 1 then."""
    symbolic = _either(a, b)
    if symbolic is not None:
        low, high = symbolic.tracer.range(_combine(terms_of(b), terms_of(a), -1))
        if low >= 0 and high > 0:
            return True
        if high <= 0:
            return False
    return a < b


def example(size: int) -> int:
    """Return a number to decide by where each decision is right, such as the order in which a copy walks its dims."""
    symbolic = _as_symbolic(size)
    return size if symbolic is None else symbolic.tracer.example(symbolic.terms)


def minimum(a: int, b: int) -> int:
    """Return the smaller size. Which one that is need not be known of two that depend on symbols."""
    return _chosen(Op.MIN, a, b)


def maximum(a: int, b: int) -> int:
    """Return the larger size. Which one that is need not be known where one depends on symbols."""
    return _chosen(Op.MAX, a, b)


def _chosen(op: Op, a: int, b: int) -> int:
    symbolic = _either(a, b)
    if symbolic is None:
        return _APPLY[op](a, b)
    low, high = symbolic.tracer.range(_combine(terms_of(a), terms_of(b), -1))
    if low >= 0 or high <= 0:
        return a if (low >= 0) is (op is Op.MAX) else b
    return symbolic.tracer.apply(op, a, b)


def scaled(size: int, scale: float) -> int:
    """Return ⌊size · scale⌋ for a scale above 0, computed in float32."""
    bits = int(np.float32(scale).view(np.uint32))
    symbolic = _as_symbolic(size)
    return _APPLY[Op.SCALE](size, bits) if symbolic is None else symbolic.tracer.apply(Op.SCALE, size, bits)


class SizesMustAgree(Exception):
    """Two sizes that the model needs to be equal."""

    def __init__(self, tracer: Tracer, difference: Terms) -> None:
        super().__init__(f"{tracer.text(difference)} must be 0")
        self.difference = difference


class NoSizesLeft(Exception):
    """The guards of a plan contradict each other, or a size divides by 0: it would serve no sizes."""


def agree(a: int, b: int) -> bool:
    """Are two sizes that an op needs to be equal so? If that depends on symbols, it becomes a guard where it holds for
    the examples or is assumed; else SizesMustAgree is raised, unless they cannot be equal.

    Raises NoSizesLeft if what is assumed cannot be.
    """
    if example(a) == example(b):
        return a == b
    symbolic = _either(a, b)
    if symbolic is None:
        return False
    difference = symbolic.tracer.simplified(_combine(terms_of(a), terms_of(b), -1))
    if not difference:
        return True
    low, high = symbolic.tracer.range(difference)
    if low > 0 or high < 0:
        if difference in symbolic.tracer.assumed:
            raise NoSizesLeft(f"{symbolic.tracer.text(difference)} is assumed to be 0, and guards exclude it")
        return False
    if difference not in symbolic.tracer.assumed:
        raise SizesMustAgree(symbolic.tracer, difference)
    symbolic.tracer.guards[difference, "=="] = Guard(difference, "==", True, _caller())
    symbolic.tracer.equate(difference)
    return True


def _combine(a: Terms, b: Terms, sign: int) -> Terms:
    total = dict(a)
    for monomial, coefficient in b:
        total[monomial] = total.get(monomial, 0) + sign * coefficient
    return tuple(sorted((monomial, coefficient) for monomial, coefficient in total.items() if coefficient))


def _multiply(a: Terms, b: Terms) -> Terms:
    total: dict[Monomial, int] = {}
    for left, x in a:
        for right, y in b:
            monomial = tuple(sorted(left + right))
            total[monomial] = total.get(monomial, 0) + x * y
    return tuple(sorted((monomial, coefficient) for monomial, coefficient in total.items() if coefficient))


def _caller() -> str:
    """Where the compiler asks: the first frame outside of this file."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    return f"{frame.f_code.co_filename.rpartition('atcpy/')[2]}:{frame.f_lineno} {frame.f_code.co_name}"


class SymInt:
    """A size that is a polynomial with at least one symbol."""

    __slots__ = ("_hash", "terms", "tracer")

    def __init__(self, tracer: Tracer, terms: Terms) -> None:
        self.tracer = tracer
        self.terms = terms
        self._hash = hash(terms)

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # what is written for numbers asks isinstance(size, int)
        return int

    @property
    def _as_int(self) -> int:
        return cast(int, self)

    def _new(self, terms: Terms) -> int:
        return self.tracer._size(terms)

    def __add__(self, other: int) -> int:
        return self._new(_combine(self.terms, terms_of(other), 1)) if _is_size(other) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: int) -> int:
        return self._new(_combine(self.terms, terms_of(other), -1)) if _is_size(other) else NotImplemented

    def __rsub__(self, other: int) -> int:
        return self._new(_combine(terms_of(other), self.terms, -1)) if _is_size(other) else NotImplemented

    def __mul__(self, other: int) -> int:
        return self._new(_multiply(self.terms, terms_of(other))) if _is_size(other) else NotImplemented

    __rmul__ = __mul__

    def __neg__(self) -> int:
        return self._new(tuple((monomial, -coefficient) for monomial, coefficient in self.terms))

    def __abs__(self) -> int:
        return -self if self < 0 else self._as_int

    def __floordiv__(self, other: int) -> int:
        return _divide(self.tracer, self._as_int, other) if _is_size(other) else NotImplemented

    def __rfloordiv__(self, other: int) -> int:
        return _divide(self.tracer, other, self._as_int) if _is_size(other) else NotImplemented

    def __mod__(self, other: int) -> int:
        return _remainder(self.tracer, self._as_int, other) if _is_size(other) else NotImplemented

    def __rmod__(self, other: int) -> int:
        return _remainder(self.tracer, other, self._as_int) if _is_size(other) else NotImplemented

    def __divmod__(self, other: int) -> tuple[int, int]:
        return self // other, self % other

    def __rdivmod__(self, other: int) -> tuple[int, int]:
        return other // self._as_int, other % self._as_int

    def __truediv__(self, other: float) -> float:
        quotient = _exact_quotient(self.tracer, self._as_int, cast(int, other)) if _is_size(other) else None
        return float(quotient) if type(quotient) is int else int(self) / other

    def __rtruediv__(self, other: float) -> float:
        return other / int(self)

    def __eq__(self, other: object) -> bool:
        symbolic = _as_symbolic(other)
        if symbolic is not None and symbolic.tracer is not self.tracer:
            return False  # in a cache of results, from an earlier compilation
        if not _is_size(other):
            return False
        difference = _combine(self.terms, terms_of(cast(int, other)), -1)
        return not difference or self.tracer.compare(difference, "==")

    def __lt__(self, other: int) -> bool:
        return self.tracer.compare(_combine(self.terms, terms_of(other), -1), "<")

    def __ge__(self, other: int) -> bool:
        return not self < other

    def __gt__(self, other: int) -> bool:
        return self.tracer.compare(_combine(terms_of(other), self.terms, -1), "<")

    def __le__(self, other: int) -> bool:
        return not self > other

    def __bool__(self) -> bool:
        return self != 0

    def __hash__(self) -> int:
        return self._hash

    def __index__(self) -> int:
        """A number: the guard is that it is this one."""
        example = self.tracer.example(self.terms)
        self.tracer.compare(_combine(self.terms, terms_of(example), -1), "==")
        return example

    __int__ = __index__

    def __float__(self) -> float:
        return float(int(self))

    def __str__(self) -> str:
        return self.tracer.text(self.terms)

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return str(self)


def _is_size(other: object) -> bool:
    return type(other) is int or type(other) is SymInt or (isinstance(other, int) and not isinstance(other, bool))


def _divide(tracer: Tracer, a: int, b: int) -> int:
    """a // b, rounded down."""
    if type(b) is int and b < 0:
        a, b = -a, -b
    if type(b) is int and b > 0:
        outside: list[tuple[Monomial, int]] = []
        inside: list[tuple[Monomial, int]] = []
        for monomial, coefficient in tracer.rewritten(terms_of(a)):
            out, left = divmod(coefficient, b)
            if left and monomial != ():
                out, left = 0, coefficient
            outside += [(monomial, out)] if out else []
            inside += [(monomial, left)] if left else []
        whole, rest = tuple(outside), tuple(inside)
        low, high = tracer.range(rest)
        if low >= 0 and high < b:
            return tracer._size(whole)
        # Multiples come out, those of numbers too: (2·s + 4) // 2 is s + 2, and (s - 1) // 2 + 1 is (s + 1) // 2.
        return tracer._size(whole) + tracer.apply(Op.FDIV, tracer._size(rest), b)
    quotient = _exact_quotient(tracer, a, b)
    return tracer.apply(Op.FDIV, a, b) if quotient is None else quotient


def _exact_quotient(tracer: Tracer, a: int, b: int) -> int | None:
    """The quotient by a single product that divides every term of `a` and is not 0."""
    divisor = tracer.rewritten(terms_of(b))
    if len(divisor) != 1 or tracer.range(divisor)[0] <= 0:
        return None
    (below, number), result = divisor[0], []
    for monomial, coefficient in tracer.rewritten(terms_of(a)):
        rest = list(monomial)
        for atom in below:
            if atom not in rest:
                return None
            rest.remove(atom)
        if coefficient % number:
            return None
        result.append((tuple(rest), coefficient // number))
    return tracer._size(tuple(sorted(result)))


def _remainder(tracer: Tracer, a: int, b: int) -> int:
    """a % b, of the sign of b."""
    if type(b) is int and b < 0:
        return -_remainder(tracer, -a, -b)
    if type(b) is int and b > 0:
        rest = tuple(
            (monomial, coefficient % b) for monomial, coefficient in tracer.rewritten(terms_of(a)) if coefficient % b
        )
        low, high = tracer.range(rest)
        return tracer._size(rest) if low >= 0 and high < b else tracer.apply(Op.MOD, tracer._size(rest), b)
    if _exact_quotient(tracer, a, b) is not None:
        return 0
    return tracer.apply(Op.MOD, a, b)
