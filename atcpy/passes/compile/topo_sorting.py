"""The order in which the nodes of a graph run, by --topo_sorting_mode: the orders of GE's topological sort.

    x ─┬→ a → c ─┐        BFS         a b c d     level by level
       └→ b → d ─┴→ out   DFS         b d a c     a branch to its end, the last one first
                          RDFS        a c b d     from the results back, operands of few bytes first
                          StableRDFS  a b c d     the order of the graph

Constants do not count: they are there before anything runs. Collectives stay in the order of the graph, in which the
ranks meet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from atcpy.ir import Engine, Graph, Node
from atcpy.ir.order import depth_first_order
from atcpy.ops.core.plan_loop import flattened_graphs
from atcpy.options import TopoSortingMode


def sort_topologically(graph: Graph, mode: TopoSortingMode) -> None:
    """Order the nodes of a graph, and of the bodies that run with it."""
    if mode is TopoSortingMode.STABLE_RDFS:
        return
    for part in flattened_graphs(graph):
        constants = [node for node in part.nodes if node.op_type == "Const"]
        nodes = [node for node in part.nodes if node.op_type != "Const"]
        edges = _connect(nodes)
        match mode:
            case TopoSortingMode.BFS:
                order = _breadth_first(edges)
            case TopoSortingMode.DFS:
                order = _depth_first(edges)
            case TopoSortingMode.RDFS:
                order = _delay(_reverse_depth_first(edges), edges)
        last = len(nodes) - 1  # NetOutput
        part.reorder([*constants, *(nodes[number] for number in order if number != last), nodes[last]])


@dataclass(frozen=True, slots=True)
class _Edges:
    """The nodes that are no constants by their numbers: those that each one follows, and those that follow it."""

    nodes: Sequence[Node]
    operands: Sequence[Sequence[int]]
    users: Sequence[Sequence[int]]

    @property
    def sources(self) -> list[int]:
        """Those that follow no other, inputs first."""
        found = [number for number, operands in enumerate(self.operands) if not operands]
        return sorted(found, key=lambda number: self.nodes[number].op_type != "Data")


def _connect(nodes: Sequence[Node]) -> _Edges:
    numbers = {node: number for number, node in enumerate(nodes)}
    operands: list[Sequence[int]] = []
    users: list[list[int]] = [[] for _ in nodes]
    collective: int | None = None
    for number, node in enumerate(nodes):
        producers = {numbers[value.producer] for value in node.operands if value.producer in numbers}
        if _has_collective(node):
            producers |= set() if collective is None else {collective}
            collective = number
        operands.append(sorted(producers))
        for producer in producers:
            users[producer].append(number)
    return _Edges(nodes, operands, users)


def _has_collective(node: Node) -> bool:
    return node.engine is Engine.HCCL or any(_has_collective(inner) for body in node.subgraphs for inner in body.nodes)


def _breadth_first(edges: _Edges) -> list[int]:
    """A source comes when nothing else can."""
    missing = [len(operands) for operands in edges.operands]
    sources, ready = deque(edges.sources), deque[int]()
    order: list[int] = []
    while sources or ready:
        number = ready.popleft() if ready else sources.popleft()
        order.append(number)
        ready.extend(_freed(edges.users[number], missing))
    return order


def _depth_first(edges: _Edges) -> list[int]:
    """Of what can come, what could last."""
    missing = [len(operands) for operands in edges.operands]
    ready = edges.sources[::-1]
    order: list[int] = []
    while ready:
        number = ready.pop()
        order.append(number)
        ready += _freed(edges.users[number], missing)
    return order


def _freed(users: Sequence[int], missing: list[int]) -> list[int]:
    """Count one operand less for each user; return those that have them all."""
    for user in users:
        missing[user] -= 1
    return [user for user in users if not missing[user]]


def _reverse_depth_first(edges: _Edges) -> list[int]:
    """Each node behind its operands, those whose results have the fewest bytes first, and then by name."""

    def size_and_name(number: int) -> tuple[int, str]:
        return _result_bytes(edges.nodes[number]), edges.nodes[number].name

    operands = [sorted(numbers, key=size_and_name) for numbers in edges.operands]
    sinks = [number for number, users in enumerate(edges.users) if not users]
    return depth_first_order(sinks, operands.__getitem__)


def _result_bytes(node: Node) -> int:
    return sum(value.desc.nbytes for value in node.outputs if value.desc.is_static)


def _delay(order: Sequence[int], edges: _Edges) -> list[int]:
    """Let a node that reads only inputs and constants come right before its first user: until then its result would
    only take memory.
    """
    position = {number: index for index, number in enumerate(order)}
    groups = [[number] for number in order]  # nodes that were moved before each one, and itself
    for index, number in enumerate(order):
        target = min((position[user] for user in edges.users[number]), default=0)
        if target > index + 1 and len(groups[index]) == 1 and _reads_inputs_only(edges.nodes[number]):
            groups[target].insert(0, number)
            groups[index] = []
    return [number for group in groups for number in group]


def _reads_inputs_only(node: Node) -> bool:
    return bool(node.operands) and all(value.producer.is_source for value in node.operands)
