"""Patterns: a small tree of ops, constants and variables that is matched from its root upwards.

op("Add", op("MatMul", var("x"), const("w"), name="matmul"), const("b"), commutative=True, name="add")
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast

from atcpy.ir.node import Node, Value

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Var:
    """Matches any value; a name that comes twice must be the same value."""

    name: str
    optional: bool = False
    constant: bool = False


@dataclass(frozen=True, slots=True)
class Op:
    """Matches output 0 of a node of one of the given types."""

    types: tuple[str, ...]
    inputs: tuple[Pattern, ...]
    name: str
    commutative: bool = False


@dataclass(frozen=True, slots=True)
class Either:
    """Matches whatever one of its patterns matches: spellings of a part."""

    patterns: tuple[Pattern, ...]


Pattern = Var | Op | Either


def var(name: str, *, optional: bool = False) -> Var:
    """Any value; an optional one may be left out of the node."""
    return Var(name, optional)


def const(name: str, *, optional: bool = False) -> Var:
    """A constant."""
    return Var(name, optional, constant=True)


def op(types: str | tuple[str, ...], *inputs: Pattern, name: str = "", commutative: bool = False) -> Op:
    """A node of the type, or of one of the types. Inputs beyond those given must be absent.
    `commutative` tries its two inputs in both orders.
    """
    kinds = (types,) if isinstance(types, str) else types
    return Op(kinds, inputs, name or kinds[0].lower(), commutative)


def variables(pattern: Op) -> list[str]:
    """The names of a pattern's variables, in order, each once."""
    names: dict[str, None] = {}
    pending: list[Pattern] = [pattern]
    while pending:
        part = pending.pop()
        if isinstance(part, Op):
            pending.extend(reversed(part.inputs))
        elif isinstance(part, Either):
            pending.extend(reversed(part.patterns))
        else:
            names.setdefault(part.name)
    return list(names)


def either(*patterns: Pattern) -> Either:
    """A part that is spelled in one of several ways; a match lacks the names of the others."""
    return Either(patterns)


def required_types(pattern: Pattern) -> Iterator[tuple[str, ...]]:
    """For each op that a match needs, the types that it may have: without a node of each there is none."""
    if isinstance(pattern, Op):
        yield pattern.types
        for part in pattern.inputs:
            yield from required_types(part)
    elif isinstance(pattern, Either):
        shared = [set(required_types(part)) for part in pattern.patterns]
        yield from set.intersection(*shared)


@dataclass(frozen=True, slots=True)
class Match:
    """What a pattern found: values by the names of its variables, nodes by those of its ops."""

    values: Mapping[str, Value | None] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)
    _computed: dict[Callable[[Match], object], object] = field(default_factory=dict, repr=False, compare=False)

    def __getitem__(self, name: str) -> Value:
        value = self.values[name]
        assert value is not None, f"{name} is absent; ask `get`"
        return value

    def once(self, compute: Callable[[Match], T]) -> T:
        """What a function computes of the match: requirements and replacement ask for the same, and get it once."""
        if compute not in self._computed:
            self._computed[compute] = compute(self)
        return cast(T, self._computed[compute])

    def get(self, name: str) -> Value | None:
        """The value of an optional variable, or None where it is left out."""
        return self.values.get(name)

    def node(self, name: str) -> Node:
        """The node that an op of the pattern matched."""
        return self.nodes[name]

    @property
    def root(self) -> Node:
        """The node from which the pattern was matched upwards."""
        return next(iter(self.nodes.values()))


def matches(pattern: Op, node: Node) -> Iterator[Match]:
    """Every way in which a pattern fits with `node` as its root: commutative ops may fit in several."""
    return _match_node(pattern, node, Match())


def could_match(pattern: Pattern, value: Value | None) -> bool:
    """A quick look at the types of ops alone: where it says no, `matches` finds nothing."""
    if isinstance(pattern, Var):
        return _fits(pattern, value)
    if isinstance(pattern, Either):
        for spelling in pattern.patterns:  # noqa: SIM110  asked of nearly every node: `any` would take twice as long
            if could_match(spelling, value):
                return True
        return False
    if value is None or value.producer.op_type not in pattern.types:
        return False
    values = value.producer.inputs
    return _could_read(pattern.inputs, values) or (pattern.commutative and _could_read(pattern.inputs, values[::-1]))


def _could_read(patterns: tuple[Pattern, ...], values: tuple[Value | None, ...]) -> bool:
    for index, pattern in enumerate(patterns):
        if not could_match(pattern, values[index] if index < len(values) else None):
            return False
    return True


def _match_node(pattern: Op, node: Node, found: Match) -> Iterator[Match]:
    if node.op_type not in pattern.types or node.domain or found.nodes.get(pattern.name, node) is not node:
        return
    values = node.inputs
    if any(value is not None for value in values[len(pattern.inputs) :]):
        return
    padded = (*values, *(None,) * (len(pattern.inputs) - len(values)))[: len(pattern.inputs)]
    here = Match(found.values, {**found.nodes, pattern.name: node})
    yield from _match_inputs(pattern.inputs, padded, here)
    if pattern.commutative:
        yield from _match_inputs(pattern.inputs, padded[::-1], here)


def _match_inputs(patterns: tuple[Pattern, ...], values: tuple[Value | None, ...], found: Match) -> Iterator[Match]:
    bound: dict[str, Value | None] | None = None
    for index, pattern in enumerate(patterns):
        value = values[index]
        if not isinstance(pattern, Var):
            here = found if bound is None else Match(bound, found.nodes)
            for first in _match_value(pattern, value, here):
                yield from _match_inputs(patterns[index + 1 :], values[index + 1 :], first)
            return
        # A variable fits in one way or in none: those in a row are bound together.
        if bound is None:
            bound = {**found.values}
        if not _fits(pattern, value) or bound.setdefault(pattern.name, value) is not value:
            return
    yield found if bound is None else Match(bound, found.nodes)


def _match_value(pattern: Pattern, value: Value | None, found: Match) -> Iterator[Match]:
    if isinstance(pattern, Op):
        if value is not None and value.index == 0:
            yield from _match_node(pattern, value.producer, found)
        return
    if isinstance(pattern, Either):
        for spelling in pattern.patterns:
            yield from _match_value(spelling, value, found)
        return
    if _fits(pattern, value) and found.values.get(pattern.name, value) is value:
        yield Match({**found.values, pattern.name: value}, found.nodes)


def _fits(pattern: Var, value: Value | None) -> bool:
    return pattern.optional if value is None else not pattern.constant or value.producer.op_type == "Const"
