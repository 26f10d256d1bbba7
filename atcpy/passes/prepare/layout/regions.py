"""Regions: nodes that hang together and could all work on their dims in another way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from atcpy.ir import Graph, Node, Rewriter, Value, erase_dead
from atcpy.ops.core.infer import KnownValues, infer_node
from atcpy.ops.core.opdef import Permuted

SHARED_BYTES = 64 * 1024  # a larger constant that others read, too, is not stored in both ways

Places = Callable[[Node], Sequence[int]]  # the operands whose dims are those of the result


def regions_at(
    graph: Graph, border: Iterable[Node], kind: Callable[[Node], object | None], places: Places
) -> list[list[Node]]:
    """The regions that touch nodes of a border, in the order of their first nodes, each with its nodes in order. Nodes
    of no kind are in none.
    """
    seen: set[Node] = set()
    kind = cache(kind)
    regions = []
    for node in border:
        for start in (node.operand(0).producer, *node.output.users):
            if start.graph is graph and start not in seen and kind(start) is not None:
                regions.append(hanging_together(start, kind, places, seen))
    order = {node: number for number, node in enumerate(graph.nodes)} if regions else {}
    for region in regions:
        region.sort(key=order.__getitem__)
    return sorted(regions, key=lambda region: order[region[0]])


def hanging_together(start: Node, kind: Callable[[Node], object], places: Places, seen: set[Node]) -> list[Node]:
    """The nodes of one kind, the same as that of `start`, that give their dims to each other."""
    found, wanted = [start], kind(start)
    seen.add(start)
    for node in found:  # which grows meanwhile
        data = [value for place in places(node) if (value := node.input(place)) is not None]
        above = [value.producer for value in data]
        below = [use.node for value in node.outputs for use in value.uses if use.place in places(use.node)]
        for other in (*above, *below):
            if other not in seen and other.graph is start.graph and kind(other) == wanted:
                seen.add(other)
                found.append(other)
    return found


def entering(nodes: Sequence[Node], places: Places) -> Iterator[Value]:
    """The values that come from outside and whose dims matter, each once."""
    members, seen = set(nodes), set[Value]()
    for node in nodes:
        for place in places(node):
            value = node.input(place)
            if value is not None and value.producer not in members and value not in seen:
                seen.add(value)
                yield value


@dataclass(frozen=True, slots=True)
class Turn:
    """How a region is made to work in another way.

    change: what is new in a node. enter: a value from outside in the other way. back: what a new value is in the old
    way. going: the nodes below an old value that the new one, the second, takes the place of.
    """

    places: Places
    change: Callable[[Node], Permuted]
    enter: Callable[[Rewriter, Value], Value]
    back: Callable[[Rewriter, Value, Value], Value]
    going: Callable[[Value, Value], list[Node]]

    def carry_out(self, graph: Graph, name: str, nodes: Sequence[Node]) -> None:
        """Makes the nodes anew, on behalf of the pass `name`, and erases the old ones."""
        new: dict[Value, Value] = {}
        for node in nodes:
            rw = Rewriter(graph, node, name, [node])
            inputs: list[Value | None] = list(node.inputs)
            for place in self.places(node):
                value = node.input(place)
                if value is not None:
                    if value not in new:
                        new[value] = self.enter(rw, value)
                    inputs[place] = new[value]
            change = self.change(node)
            for at, array in change.constants.items():
                inputs += [None] * (at + 1 - len(inputs))
                inputs[at] = rw.const(array, name=f"{node.name}_dims")
            attrs = {**node.attrs, **change.attrs}
            results = rw.ops(node.op_type, *inputs, outputs=len(node.outputs), **attrs)
            infer_node(results[0].producer, KnownValues())
            new.update(zip(node.outputs, results, strict=True))
        members = set(nodes)
        for node in nodes:
            for value in node.outputs:
                self._leave(graph, name, value, new[value], members)
        feeders = [value.producer for node in nodes for value in node.operands if value.producer not in members]
        for node in reversed(nodes):
            graph.erase(node)
        erase_dead(graph, feeders, "identity")

    def _leave(self, graph: Graph, name: str, old: Value, new: Value, members: set[Node]) -> None:
        """Gives readers outside what they read."""
        going = self.going(old, new)
        for user in going:
            graph.replace_uses(user.output, new)
        others = [use for use in old.uses if use.node not in members and use.node not in going]
        if others:
            rw = Rewriter(graph, old.producer, name, [old.producer])
            back = self.back(rw, new, old)
            graph.take_name(back, old)
            for node, place in others:
                graph.set_input(node, place, back)
        for user in going:
            for source in user.sources:
                graph.decisions.removed.setdefault(source, "identity")
            graph.erase(user)
