"""Topological orders: of numbered things, and of the nodes of a graph after a rewrite."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import TypeVar

from atcpy.ir.graph import Graph

T = TypeVar("T", bound=Hashable)


def topological_order(predecessors: Sequence[Iterable[int]]) -> list[int]:
    """Return the numbers 0, 1 … in an order in which each one follows its predecessors, the lowest first where several
    can come next.
    """
    missing = [0] * len(predecessors)
    followers: list[list[int]] = [[] for _ in predecessors]
    for number, earlier in enumerate(predecessors):
        for other in earlier:
            missing[number] += 1
            followers[other].append(number)
    ready = [number for number, count in enumerate(missing) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        number = heappop(ready)
        order.append(number)
        for follower in followers[number]:
            missing[follower] -= 1
            if not missing[follower]:
                heappush(ready, follower)
    assert len(order) == len(predecessors), "they form a cycle"
    return order


def depth_first_order(roots: Iterable[T], predecessors: Callable[[T], Iterable[T]]) -> list[T]:
    """Return the roots and all that they depend on, each right behind those of its predecessors that come nowhere
    earlier.
    """
    order: dict[T, None] = {}
    for root in roots:
        pending = [root]
        while pending:
            missing = next((other for other in predecessors(pending[-1]) if other not in order), None)
            if missing is None:
                order[pending.pop()] = None
            else:
                pending.append(missing)
    return list(order)


def sort_nodes(graph: Graph) -> None:
    """Put the nodes of a graph in a topological order in which each one stays as far in front as its operands let it: a
    function of the order before, and the same in every process.
    """
    nodes = list(graph.nodes)
    number = {node: index for index, node in enumerate(nodes)}
    predecessors = ([number[value.producer] for value in node.operands if value.producer in number] for node in nodes)
    graph.reorder([nodes[index] for index in topological_order(list(predecessors))])
