"""The symbols of a trace: open dims of tensors, and elements that decide shapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from atcpy.ir import Dim, DType, Shape, Sym, Symbol, TensorDesc
from atcpy.ir.symbolic import Guard, Op, Question, Terms, Tracer, example, is_symbolic, terms_of
from atcpy.kernels.symbolic_program import MAX_NUMBER
from atcpy.options import MAX_DIM

# Examples decide what is the better of several right ways. Batches are small and odd, so that they equal no constant by
# chance; other dims are multiples of 32, which feature pyramids need.
_BATCH_EXAMPLES: Final = (5, 7, 11, 13, 17, 19, 23)
SIZE_EXAMPLES: Final = (352, 416, 544, 608, 736, 928, 992)
# Tried where a model has no results for those: one that splits its input into frames, say, takes those of one frame.
OTHER_SIZE_EXAMPLES: Final = tuple(tuple(unit * number for number in range(8, 15)) for unit in (64, 32, 16, 8, 128, 2))
_CAPACITY_EXAMPLE: Final = 4096
_ELEMENT_EXAMPLES: Final = (3, 6, 9, 12, 15, 18, 21, 24)
_CASES: Final = (224, 96, 61, 32, 13, 7, 3, 2, 1, 0)  # some equal no constant by chance, some are multiples of 32
_FACTORS: Final = (2, 4, 16, 64)  # sizes that are so many times larger are tried, too
_LARGEST_CASE: Final = 2**16


@dataclass(frozen=True, slots=True)
class Untraceable(Exception):
    """Why a graph cannot be planned ahead. `is_misfit`: it has no results for the examples of its sizes; `breaks_rule`:
    because of the guard that was to be broken. `tracer` has the guards that had answered by then.
    """

    reason: str
    is_misfit: bool = False
    breaks_rule: bool = False
    tracer: Tracer | None = None


@dataclass(frozen=True, slots=True)
class Equation:
    """A symbol that is a polynomial of others, by name: `name = Σ coefficient · names`."""

    name: str
    terms: tuple[tuple[tuple[str, ...], int], ...]

    def value(self, sizes: Mapping[str, int]) -> int:
        """The polynomial of these sizes."""
        total = 0
        for names, coefficient in self.terms:
            for name in names:
                coefficient *= sizes[name]
            total += coefficient
        return total


@dataclass(frozen=True, slots=True)
class Case:
    """What a variant is for, by the names of symbols: sizes and elements that are `fixed` numbers, and the `examples`
    of others, by which is decided what a guard then fixes. `size_examples` are those of further dims that are no
    batches, in their order.
    """

    fixed: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, int] = field(default_factory=dict)
    size_examples: tuple[int, ...] = SIZE_EXAMPLES

    @property
    def sizes(self) -> dict[str, int]:
        """Both."""
        return {**self.examples, **self.fixed}


@dataclass(slots=True)
class Symbols:
    """The symbols in the order in which plans get them. `sizes` is what the compiler sees for each by name: its symbol,
    a number that is fixed by the `case`, or what it equals by the `equations`.
    """

    case: Case
    equations: Mapping[str, Equation]
    tracer: Tracer
    sources: list[Symbol] = field(default_factory=list)
    symbols: list[int] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    # The dims that are not the same as others, with their least and largest sizes.
    open_dims: dict[str, tuple[int, int]] = field(default_factory=dict)
    guards: list[Guard] = field(default_factory=list)
    _stages: dict[str, int] = field(default_factory=dict)  # before which of the plans a symbol is known
    _stage: int = 0
    _new_guards: int = 0  # the first that `take_guards` has not returned
    _batch_examples: Iterator[int] = field(default_factory=lambda: iter(_BATCH_EXAMPLES))
    _size_examples: Iterator[int] = field(init=False)
    _element_examples: Iterator[int] = field(default_factory=lambda: iter(_ELEMENT_EXAMPLES))

    def __post_init__(self) -> None:
        self._size_examples = iter(self.case.size_examples)

    def add_dims(self, variable: int, desc: TensorDesc, bounds: Sequence[int] = (), *, agree: bool = False) -> None:
        """Add a symbol for each open dim of a variable. `bounds` has the least and the largest size of each dim, -1
        where there is no largest. Dims of one name `agree` if somebody else sees to it, else by a guard.
        """
        for axis, dim in enumerate(desc.shape or ()):
            if not isinstance(dim, Sym):
                continue
            low, high = bounds[2 * axis : 2 * axis + 2] if bounds else (0, -1)
            if dim.name not in self.sizes:
                self._add_dim(Symbol(dim.name, variable, axis), low, MAX_DIM if high < 0 else high)
            elif not agree:
                self._add_twin(Symbol(f"{dim.name} of {variable}.{axis}", variable, axis), dim.name)

    def _add_dim(self, source: Symbol, least: int, high: int) -> None:
        low = max(least, 1)
        size = next(self._batch_examples if source.index == 0 else self._size_examples, None)
        if size is None or low > high:
            raise Untraceable("there are too many open dims")
        self.open_dims[source.name] = least, high
        symbol = self._add(source, (low, high), size, (0, MAX_DIM))
        if source.name in self.case.fixed:
            self._define(source.name, symbol, self.case.fixed[source.name])
        else:
            self.guards += [_is_below(low - 1 - symbol), _is_below(symbol - 1 - high)]

    def _add_twin(self, source: Symbol, name: str) -> None:
        symbol = self._add(source, (0, MAX_DIM), example(self._symbol(name)), (0, MAX_DIM))
        self._define(source.name, symbol, self.sizes[name])

    def add_capacity(self, source: Symbol) -> int:
        """Add the number of rows that states have room for."""
        return self._add(source, (1, MAX_DIM), _CAPACITY_EXAMPLE, (0, MAX_DIM))

    def add_element(self, source: Symbol, dtype: DType) -> None:
        """Add the value of an element of an integer type."""
        if source.name in self.sizes:
            raise Untraceable(f'a dim has the name of an element, "{source.name}"')
        size = next(self._element_examples, None)
        if size is None:
            raise Untraceable("too many elements decide shapes")
        low, high = dtype.integer_range()
        symbol = self._add(source, (max(low, -MAX_NUMBER), min(high, MAX_NUMBER)), size, (-MAX_NUMBER, MAX_NUMBER))
        if source.name in self.case.fixed:
            self._define(source.name, symbol, self.case.fixed[source.name])

    def _add(self, source: Symbol, bounds: tuple[int, int], size: int, values: tuple[int, int]) -> int:
        low, high = bounds
        size = min(max(self.case.examples.get(source.name, size), low), high)
        symbol = self.tracer.symbol(source.name, low, high, size)
        self.sources.append(source)
        self._stages[source.name] = self._stage
        self.symbols.append(symbol)
        self.ranges.append(values)
        self.sizes[source.name] = symbol
        return symbol

    def _define(self, name: str, symbol: int, size: int) -> None:
        self.sizes[name] = size
        self.guards.append(_is_zero(symbol - size))

    def _symbol(self, name: str) -> int:
        return next(symbol for source, symbol in zip(self.sources, self.symbols, strict=True) if source.name == name)

    def apply_equations(self) -> None:
        """Write the sizes that depend on others by these. What is added afterwards is known only to a further plan."""
        for name, equation in self.equations.items():
            if name in self.sizes and self.sizes[name] is self._symbol(name):
                self._define(name, self.sizes[name], equation.value(self.sizes))
        self._stage += 1

    def upper_bounds(self, sizes: Iterable[int]) -> list[float]:
        """Return the largest value that each size can have; `inf` if it depends on a dim without a bound."""
        return self.tracer.upper_bounds(sizes, MAX_DIM)

    def shape(self, desc: TensorDesc) -> Shape:
        """The shape with what the compiler is to see for each open dim."""
        dims: list[Dim] = [self.sizes[dim.name] if isinstance(dim, Sym) else dim for dim in desc.shape or ()]
        return tuple(dims)

    def take_guards(self) -> list[Guard]:
        """Return the guards since the last call."""
        traced = [guard for guard in self.tracer.guards.values() if guard not in self.guards]
        self.guards += traced
        taken = self.guards[self._new_guards :]
        self._new_guards = len(self.guards)
        return taken

    def serve(self, sizes: Mapping[str, int]) -> bool:
        """Do all guards hold for these sizes and the examples of other symbols?"""
        whole = self.complete(sizes)
        guards = filter(self.tracer.is_exampled, self.guards)
        return whole is not None and self.tracer.all_hold(guards, whole)

    def complete(self, sizes: Mapping[str, int]) -> dict[str, int] | None:
        """Sizes of all symbols, these among them; None if they cannot be together."""
        whole = {source.name: example(symbol) for source, symbol in zip(self.sources, self.symbols, strict=True)}
        given = {name: size for name, size in sizes.items() if name in whole}
        whole.update(given)
        for name, size in self.sizes.items():
            value = self.tracer.value(size, whole)
            if value is None or value != given.get(name, value):
                return None
            whole[name] = value
        return whole

    def beyond(self) -> Iterator[tuple[Question | None, Case]]:
        """Cases for which a guard answers otherwise: the case of this trace with the size of one symbol changed. An
        element that equals what others do may be 1, which is broadcast.
        """
        whole = self.complete(self.case.sizes)
        if whole is None:
            return
        for source in self.sources:
            if source.is_element and source.name in self.equations and source.name not in self.case.fixed:
                yield None, Case({**self.case.fixed, source.name: 1}, whole)
        free = [source for source in reversed(self.sources) if is_symbolic(self.sizes[source.name])]
        for guard in self.tracer.guards.values():
            names = self.tracer.symbols_of(guard.terms)
            for source in free:
                if source.name in names:
                    for case in self._breaking(guard, source, whole, is_alone=len(names) == 1):
                        yield guard.question, case

    def other_examples(self, broken: Guard) -> Case | None:
        """The case of this trace with other examples, for which all guards answer as they do but for this one."""
        whole = self.complete(self.case.sizes)
        if whole is None:
            return None
        guards = [guard for guard in self.tracer.guards.values() if guard != broken and self.tracer.is_exampled(guard)]
        names = self.tracer.symbols_of(broken.terms)
        for source in reversed(self.sources):
            if source.name in names and is_symbolic(self.sizes[source.name]):
                for case in self._breaking(broken, source, whole, is_alone=False):
                    if self.tracer.all_hold(guards, case.sizes):
                        return Case(self.case.fixed, case.sizes)
        return None

    def _breaking(self, guard: Guard, source: Symbol, whole: Mapping[str, int], *, is_alone: bool) -> Iterator[Case]:
        least, most = self.open_dims.get(source.name, (-_LARGEST_CASE if source.is_element else 0, _LARGEST_CASE))
        for size in self._candidates(guard, source.name, whole):
            sizes = {**whole, source.name: size}
            if not least <= size <= min(most, _LARGEST_CASE) or self.tracer.all_hold([guard], sizes):
                continue
            if size in (0, 1) and (not source.is_element or (is_alone and guard.relation == "==")):
                yield Case({**self.case.fixed, source.name: size}, sizes)
            else:
                yield Case(self.case.fixed, sizes)

    def _candidates(self, guard: Guard, name: str, whole: Mapping[str, int]) -> Sequence[int]:
        """Sizes of a symbol around the one for which a guard is 0, if that is linear in it; else a few."""
        sizes = (0, 1, whole[name])
        values = [self.tracer.evaluate(guard.terms, {**whole, name: size}) for size in sizes]
        zero, one, own = (0 if value is None else value for value in values)
        slope = one - zero
        if None in values or slope == 0 or own != zero + slope * whole[name]:
            return self._borders(guard, name, whole) + _CASES
        if guard.relation == "==":
            return (1, 0) if guard.answer else (-zero // slope,)
        root = -zero // slope
        return root - 2, root + 2, root - 1, root + 1, root

    def _borders(self, guard: Guard, name: str, whole: Mapping[str, int]) -> tuple[int, ...]:
        """The sizes of a symbol next to its own, below and above, for which a guard answers otherwise, if that is so
        for one of a few sizes farther away.
        """

        def breaks(size: int) -> bool:
            return not self.tracer.all_hold([guard], {**whole, name: size})

        own, found = whole[name], list[int]()
        for tried in ([case for case in _CASES if case < own], [own * factor for factor in _FACTORS]):
            broken = next(filter(breaks, tried), None)
            kept = own
            while broken is not None and abs(broken - kept) > 1:
                middle = (broken + kept) // 2
                broken, kept = (middle, kept) if breaks(middle) else (broken, middle)
            found += [] if broken is None else [broken]
        return tuple(found)

    def is_clamped(self, terms: Terms) -> bool:
        """Is there a minimum or a maximum in a polynomial?"""
        ops = {self.tracer.atoms[atom].op for monomial, _ in terms for atom in monomial}
        return not ops.isdisjoint({Op.MIN, Op.MAX})

    def solve(self, difference: Terms) -> Equation | None:
        """Return the symbol that an equation of sizes determines: it occurs once, alone, with a factor of ±1. Best is
        one that is known last, as a sum of others.
        """
        atoms = self.tracer.atoms
        counts = [atom for monomial, _ in difference for atom in monomial]
        variable = {source.name: source.variable for source in self.sources}
        found: list[Equation] = []
        for monomial, coefficient in difference:
            if len(monomial) != 1 or abs(coefficient) != 1 or counts.count(monomial[0]) != 1:
                continue
            rest = [(other, -coefficient * factor) for other, factor in difference if other != monomial]
            computed = any(atoms[inner].op is not None for other, _ in rest for inner in other)
            if atoms[monomial[0]].op is None and not computed:
                stage = self._stages[atoms[monomial[0]].name]
                if any(self._stages[atoms[inner].name] > stage for other, _ in rest for inner in other):
                    continue  # what only a later plan knows
                terms = [(tuple(atoms[inner].name for inner in other), factor) for other, factor in rest]
                found.append(Equation(atoms[monomial[0]].name, tuple(terms)))

        def preference(equation: Equation) -> tuple[bool, bool]:
            last = all(variable[name] <= variable[equation.name] for names, _ in equation.terms for name in names)
            return all(factor > 0 for _, factor in equation.terms), last

        return max(found, key=preference, default=None)


def _is_zero(size: int) -> Guard:
    return Guard(terms_of(size), "==", True, "open dims")


def _is_below(size: int) -> Guard:
    return Guard(terms_of(size), "<", True, "open dims")
