"""Joining the pieces of a partition into one graph again.

PlaceHolder and End go; every node comes back to the root in the order in which the model had it,
new nodes in front of the one that they were made for.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from atcpy.ir import Graph, Node, Partition


def merge(partition: Partition) -> Graph:
    """The whole graph. Execution follows the order before the cut as far as dependences allow, so
    that splitting changes no order.
    """
    root = partition.root
    position = {node: index for index, node in enumerate(partition.order)}
    for border in partition.borders:
        inner = border.end.operand(0)
        root.replace_uses(border.placeholder.output, inner)
    for border in partition.borders:
        for node in (border.end, border.placeholder):
            assert node.graph is not None
            node.graph.erase(node)
    net_output = root.net_output
    kept: list[Node] = [node for node in root.nodes if node is not net_output]
    for piece in partition.subgraphs:
        piece.graph.erase(piece.graph.net_output)
        kept.extend(piece.graph.nodes)
    for node in in_order(kept, _places(kept, position)):
        root.adopt(node)
    root.adopt(net_output)
    return root


def _places(nodes: list[Node], position: dict[Node, int]) -> dict[Node, int]:
    """A place for each node: its own, or for a new one that of the next old node of its piece."""
    places: dict[Node, int] = {}
    following = len(position)
    for node in reversed(nodes):
        following = position.get(node, following)
        places[node] = following
    return places


def in_order(nodes: Sequence[Node], places: Mapping[Node, int]) -> list[Node]:
    """Topological order that takes the node with the least place among those that are ready."""
    serial = {node: index for index, node in enumerate(nodes)}
    waiting = {node: len({value for value in node.operands if value.producer in serial}) for node in nodes}
    ready = [(places[node], serial[node], node) for node in nodes if waiting[node] == 0]
    heapq.heapify(ready)
    ordered: list[Node] = []
    while ready:
        _, _, node = heapq.heappop(ready)
        ordered.append(node)
        for value in node.outputs:
            for user in dict.fromkeys(value.users):
                if user in waiting:
                    waiting[user] -= 1
                    if waiting[user] == 0:
                        heapq.heappush(ready, (places[user], serial[user], user))
    assert len(ordered) == len(nodes), "the merged graph has a cycle"
    return ordered
