"""The symbols of a trace: open dims of tensors, and elements that decide shapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from atcpy.ir import Dim, Shape, Sym, Symbol, TensorDesc
from atcpy.ir.symbolic import Guard, Terms, Tracer, example, terms_of
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


@dataclass(frozen=True, slots=True)
class Untraceable(Exception):
    """Why a graph cannot be planned ahead. `is_misfit`: it has no results for the examples of its sizes."""

    reason: str
    is_misfit: bool = False


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


@dataclass(slots=True)
class Symbols:
    """The symbols in the order in which plans get them. `sizes` is what the compiler sees for each by name: its symbol,
    a number that is `fixed`, or what it equals by the `equations`.
    """

    fixed: Mapping[str, int]
    equations: Mapping[str, Equation]
    tracer: Tracer
    size_examples: Sequence[int]
    sources: list[Symbol] = field(default_factory=list)
    symbols: list[int] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    # The dims that are not the same as others, with their least and largest sizes.
    open_dims: dict[str, tuple[int, int]] = field(default_factory=dict)
    guards: list[Guard] = field(default_factory=list)
    _new_guards: int = 0  # the first that `take_guards` has not returned
    _batch_examples: Iterator[int] = field(default_factory=lambda: iter(_BATCH_EXAMPLES))
    _size_examples: Iterator[int] = field(init=False)
    _element_examples: Iterator[int] = field(default_factory=lambda: iter(_ELEMENT_EXAMPLES))

    def __post_init__(self) -> None:
        self._size_examples = iter(self.size_examples)

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
        symbol = self._add(source, (low, high), min(max(size, low), high), (0, MAX_DIM))
        if source.name in self.fixed:
            self._define(source.name, symbol, self.fixed[source.name])
        else:
            self.guards += [_is_below(low - 1 - symbol), _is_below(symbol - 1 - high)]

    def _add_twin(self, source: Symbol, name: str) -> None:
        symbol = self._add(source, (0, MAX_DIM), example(self._symbol(name)), (0, MAX_DIM))
        self._define(source.name, symbol, self.sizes[name])

    def add_capacity(self, source: Symbol) -> int:
        """Add the number of rows that states have room for."""
        return self._add(source, (1, MAX_DIM), _CAPACITY_EXAMPLE, (0, MAX_DIM))

    def add_element(self, source: Symbol) -> None:
        """Add the value of an element."""
        size = next(self._element_examples, None)
        if size is None:
            raise Untraceable("too many elements decide shapes")
        self._add(source, (-MAX_NUMBER, MAX_NUMBER), size, (-MAX_NUMBER, MAX_NUMBER))

    def _add(self, source: Symbol, bounds: tuple[int, int], size: int, values: tuple[int, int]) -> int:
        symbol = self.tracer.symbol(source.name, *bounds, size)
        self.sources.append(source)
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
        """Write the dims that depend on others by these."""
        for name, equation in self.equations.items():
            if name in self.sizes and self.sizes[name] is self._symbol(name):
                self._define(name, self.sizes[name], equation.value(self.sizes))

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
        """Do all guards hold for these sizes?"""
        return self.tracer.all_hold(self.guards, sizes)

    def examples(self, fixed: Mapping[str, int]) -> dict[str, int] | None:
        """Sizes of all symbols, those of `fixed` among them; None if they cannot be together."""
        sizes = {source.name: example(symbol) for source, symbol in zip(self.sources, self.symbols, strict=True)}
        sizes.update(fixed)
        for name, size in self.sizes.items():
            value = self.tracer.value(size, sizes)
            if value is None or (name in fixed and value != fixed[name]):
                return None
            sizes[name] = value
        return sizes

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
