"""Patterns: a small tree of ops, constants and variables that is matched from its root upwards.

op("Add", op("MatMul", var("x"), const("w"), name="matmul"), const("b"), commutative=True, name="add")
"""

from __future__ import annotations

from dataclasses import dataclass

from atcpy.ir.node import Node, Value


@dataclass(frozen=True, slots=True)
class Var:
    """Matches any value; a name that comes twice must be the same value."""

    name: str
    optional: bool = False
    constant: bool = False


@dataclass(frozen=True, slots=True)
class Op:
    """Matches a value made by output 0 of a node of one of the given types."""

    types: tuple[str, ...]
    inputs: tuple[Pattern, ...]
    name: str
    commutative: bool = False


Pattern = Var | Op


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


class Match:
    """What a pattern found: values by the names of its variables, nodes by those of its ops."""

    __slots__ = ("nodes", "values")

    def __init__(self) -> None:
        self.values: dict[str, Value | None] = {}
        self.nodes: dict[str, Node] = {}

    def __getitem__(self, name: str) -> Value:
        value = self.values[name]
        assert value is not None, f"{name} is absent; ask `get`"
        return value

    def get(self, name: str) -> Value | None:
        """The value of an optional variable, or None where it is left out."""
        return self.values.get(name)

    def node(self, name: str) -> Node:
        """The node that an op of the pattern matched."""
        return self.nodes[name]


def match(pattern: Op, node: Node) -> Match | None:
    """Matches a pattern whose root is `node`; None if it does not fit."""
    found = Match()
    return found if _match_node(pattern, node, found) else None


def _match_node(pattern: Op, node: Node, found: Match) -> bool:
    if node.op_type not in pattern.types or node.domain:
        return False
    bound = found.nodes.setdefault(pattern.name, node)
    if bound is not node:
        return False
    orders = [node.inputs]
    if pattern.commutative:
        orders.append(node.inputs[::-1])
    for values in orders:
        trial = Match()
        trial.values.update(found.values)
        trial.nodes.update(found.nodes)
        if _match_inputs(pattern.inputs, values, trial):
            found.values, found.nodes = trial.values, trial.nodes
            return True
    return False


def _match_inputs(patterns: tuple[Pattern, ...], values: tuple[Value | None, ...], found: Match) -> bool:
    if any(value is not None for value in values[len(patterns) :]):
        return False
    padded = [*values, *[None] * (len(patterns) - len(values))]
    return all(_match_value(pattern, value, found) for pattern, value in zip(patterns, padded, strict=False))


def _match_value(pattern: Pattern, value: Value | None, found: Match) -> bool:
    if isinstance(pattern, Op):
        return value is not None and value.index == 0 and _match_node(pattern, value.producer, found)
    if value is None:
        if pattern.optional:
            found.values[pattern.name] = None
        return pattern.optional
    if pattern.constant and value.tensor is None:
        return False
    return found.values.setdefault(pattern.name, value) is value
