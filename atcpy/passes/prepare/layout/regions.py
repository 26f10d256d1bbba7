"""Regions: nodes that hang together and could all see their dims in another way, and the movers at their border.

The movers that go and those that would come are counted; a region changes if more go. So each change leaves fewer of
them, and that comes to an end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from atcpy.ir import Graph, Node, Rewriter, Value, erase_dead
from atcpy.ir.tensor import Array
from atcpy.ops.core.infer import KnownValues, infer_node
from atcpy.ops.core.opdef import Permuted, data_inputs, find_opdef

SHARED_BYTES = 64 * 1024  # a larger constant that others read, too, is not stored in both ways


class Change(ABC):
    """Another way for nodes to see their dims, such as in another order. A mover is a node that leads a value from one
    way to another: a Transpose, or a view.
    """

    @abstractmethod
    def of_node(self, node: Node) -> Permuted | None:
        """Return what is new in a node; None if it cannot work so."""

    @abstractmethod
    def keeps(self, value: Value) -> bool:
        """Whether a value is the same either way."""

    @abstractmethod
    def is_mover(self, node: Node) -> bool:
        """Whether a node is a mover."""

    @abstractmethod
    def leads_in(self, mover: Node) -> bool:
        """Whether a mover reads what its result becomes by the change."""

    @abstractmethod
    def leads_out(self, mover: Node) -> bool:
        """Whether a mover's result is what its operand becomes by the change."""

    @abstractmethod
    def constant(self, value: Value) -> Array:
        """Return the elements of a changed constant."""

    @abstractmethod
    def insert_mover(self, rw: Rewriter, value: Value) -> Value:
        """Change a value."""

    @abstractmethod
    def insert_mover_back(self, rw: Rewriter, new: Value, old: Value) -> Value:
        """Undo the change: what was `old` is `new` now."""

    def is_free(self, value: Value) -> bool:
        """Whether a mover of a value moves no element."""
        return self.keeps(value)

    def is_absorbed(self, node: Node, *, back: bool) -> bool:
        """Whether a node that reads what a mover in front of it gives, in this direction, can do without it."""
        return False


def find_regions(graph: Graph, border: Iterable[Node], kind: Callable[[Node], object | None]) -> list[list[Node]]:
    """Return the regions that touch nodes of a border, in the order of their first nodes, each with its nodes in order.
    Nodes of no kind are in none.
    """
    seen: set[Node] = set()
    kind = cache(kind)
    regions = []
    for node in border:
        for start in (node.operand(0).producer, *node.output.users):
            if start.graph is graph and start not in seen and kind(start) is not None:
                regions.append(find_region(start, kind, seen))
    order = {node: number for number, node in enumerate(graph.nodes)} if regions else {}
    for region in regions:
        region.sort(key=order.__getitem__)
    return sorted(regions, key=lambda region: order[region[0]])


def find_region(start: Node, kind: Callable[[Node], object], seen: set[Node]) -> list[Node]:
    """Return the nodes of the kind of `start` that give their dims to each other."""
    found, own = [start], kind(start)
    seen.add(start)
    for node in found:  # which grows meanwhile
        above = [value.producer for value in data_of(node)]
        below = [user for value in node.outputs for user, index in value.uses if index in data_inputs(user)]
        for other in (*above, *below):
            if other not in seen and other.graph is start.graph and kind(other) == own:
                seen.add(other)
                found.append(other)
    return found


def data_of(node: Node) -> list[Value]:
    """Return the operands that have the dims of the result."""
    opdef = find_opdef(node)
    if opdef is None or opdef.data is None:
        return node.operands
    return [value for index in opdef.data if (value := node.input(index)) is not None]


def entering(nodes: Sequence[Node]) -> Iterator[Value]:
    """Yield the values from outside whose dims matter, each once."""
    members = set(nodes)
    values = dict.fromkeys(value for node in nodes for value in data_of(node))
    return (value for value in values if value.producer not in members)


def gain(nodes: Sequence[Node], change: Change) -> int:
    """Return how many movers go, less those that come, if a region changes."""
    members = set(nodes)
    total = sum(_gain_entering(value, members, change) for value in entering(nodes))
    return total + sum(_gain_leaving(value, members, change) for node in nodes for value in node.outputs)


def _gain_entering(value: Value, members: set[Node], change: Change) -> int:
    if change.is_free(value):
        return 0
    alone = value.user_beyond(members) is None
    if value.tensor is not None:
        return 0 if alone or value.tensor.nbytes <= SHARED_BYTES else -1
    if change.is_mover(value.producer) and change.leads_in(value.producer):
        return int(alone)
    return 0 if alone and change.is_mover(value.producer) else -1


def _gain_leaving(value: Value, members: set[Node], change: Change) -> int:
    """All movers that lead out go, and one comes for other readers; one before nodes that absorb it does not count."""
    if value.user_beyond(members) is None or change.is_free(value):  # no member is a mover
        return 0
    movers = _movers_of(value, change)
    gone = [mover for mover in movers if change.leads_out(mover)]
    counted = sum(not all(change.is_absorbed(user, back=False) for user in mover.output.users) for mover in gone)
    others = [user for user in value.users if user not in members and user not in movers]
    return counted - int(not all(change.is_absorbed(user, back=True) for user in others))


def _movers_of(value: Value, change: Change) -> list[Node]:
    return [user for user, index in value.uses if index == 0 and change.is_mover(user)]


def carry_out(graph: Graph, name: str, nodes: Sequence[Node], change: Change) -> None:
    """Replace the nodes of a region by changed ones, on behalf of the pass `name`."""
    new: dict[Value, Value] = {}
    for node in nodes:
        rw = Rewriter(graph, node, name, [node])
        inputs: list[Value | None] = list(node.inputs)
        for index in data_inputs(node):
            value = node.input(index)
            if value is not None:
                if value not in new:
                    new[value] = _enter(rw, value, change)
                inputs[index] = new[value]
        changed = change.of_node(node)
        assert changed is not None
        for index, array in changed.constants.items():
            inputs += [None] * (index + 1 - len(inputs))
            inputs[index] = rw.const(array, name=f"{node.name}_dims")
        results = rw.ops(node.op_type, *inputs, outputs=len(node.outputs), **{**node.attrs, **changed.attrs})
        infer_node(results[0].producer, KnownValues())
        new.update(zip(node.outputs, results, strict=True))
    members = set(nodes)
    for node in nodes:
        for value in node.outputs:
            _leave(graph, name, value, new[value], members, change)
    feeders = [value.producer for node in nodes for value in node.operands if value.producer not in members]
    for node in reversed(nodes):
        graph.erase(node)
    erase_dead(graph, feeders, "identity")


def _enter(rw: Rewriter, value: Value, change: Change) -> Value:
    """Return a value from outside as it is after the change."""
    if change.keeps(value):
        return value
    if value.tensor is not None:
        return rw.const(change.constant(value), like=value)
    above = value.producer
    if change.is_mover(above) and change.leads_in(above):
        return above.operand(0)
    return change.insert_mover(rw, value)


def _leave(graph: Graph, name: str, old: Value, new: Value, members: set[Node], change: Change) -> None:
    """Give readers outside what they read."""
    gone = [mover for mover in _movers_of(old, change) if change.leads_out(mover)]
    for mover in gone:
        graph.replace_uses(mover.output, new)
    others = [use for use in old.uses if use.node not in members and use.node not in gone]
    if others:
        rw = Rewriter(graph, old.producer, name, [old.producer])
        back = change.insert_mover_back(rw, new, old)
        graph.take_name(back, old)
        for user, index in others:
            graph.set_input(user, index, back)
    for mover in gone:
        for source in mover.sources:
            graph.decisions.removed.setdefault(source, "identity")
        graph.erase(mover)
