"""Regions: nodes that hang together and could all work on their dims in another way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from atcpy.ir import Graph, Node, Value

Places = Callable[[Node], Sequence[int]]  # the operands whose dims are those of the result


def regions_at(
    graph: Graph, border: Iterable[Node], kind: Callable[[Node], object | None], places: Places
) -> list[list[Node]]:
    """The regions that touch nodes of a border, in the order of their first nodes, each with its nodes in order. Nodes
    of no kind are in none.
    """
    seen: set[Node] = set()
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
