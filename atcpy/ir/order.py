"""Putting the nodes of a graph in order again, where a rewrite made what comes early wait for what comes late."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from atcpy.ir.graph import Graph
from atcpy.ir.node import Node


def sort_nodes(graph: Graph) -> None:
    """A topological order in which every node stays as far in front as what it reads lets it: a function of the
    order that was, and the same in every process.
    """
    nodes = list(graph.nodes)
    number = {node: place for place, node in enumerate(nodes)}
    missing = [0] * len(nodes)
    readers: list[list[int]] = [[] for _ in nodes]
    for place, node in enumerate(nodes):
        for value in node.operands:
            maker = number.get(value.producer)
            if maker is not None:
                missing[place] += 1
                readers[maker].append(place)
    ready = [place for place, count in enumerate(missing) if not count]
    heapify(ready)
    order: list[Node] = []
    while ready:
        place = heappop(ready)
        order.append(nodes[place])
        for reader in readers[place]:
            missing[reader] -= 1
            if not missing[reader]:
                heappush(ready, reader)
    assert len(order) == len(nodes), "the graph has a cycle"
    graph.reorder(order)
