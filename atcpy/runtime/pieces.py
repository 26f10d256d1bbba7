"""Graphs of many results whose size depends on data, run in pieces.

What comes behind such a result is prepared anew once it is there. Where there are many, one behind the
other, each would prepare all that follows; so a piece ends after a few of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from atcpy.ir import Graph, Node, Value
from atcpy.ir.clone import extract
from atcpy.ops import find_opdef
from atcpy.runtime.host import RuntimeValue
from atcpy.runtime.hybrid import HybridGraph, ShapeCache
from atcpy.runtime.plan import ExecutionPlan

MOST_BARRIERS = 16  # of a piece; and as many again before a graph is cut at all


class PieceGraph:
    """A graph that is run piece by piece, values going by their names. Threads may share it."""

    def __init__(self, graph: Graph, cache: ShapeCache) -> None:
        self._inputs = [node.output.name for node in graph.inputs]
        self._outputs = [value.name for value in graph.outputs]
        self._pieces = [
            (HybridGraph(piece, cache), tuple(value.name for value in outputs)) for piece, outputs in _pieces(graph)
        ]

    def run(self, values: Sequence[RuntimeValue]) -> list[RuntimeValue]:
        """The outputs for inputs in order. Raises what a `HybridGraph` does."""
        named = dict(zip(self._inputs, values, strict=True))
        for piece, outputs in self._pieces:
            named.update(zip(outputs, piece.run([named[name] for name in piece.inputs]), strict=True))
        return [named[name] for name in self._outputs]

    def plans(self) -> Iterator[ExecutionPlan]:
        """The plans that are compiled now."""
        for piece, _ in self._pieces:
            yield from piece.plans()

    def eager_nodes(self) -> Iterator[Node]:
        """The nodes that run one by one behind these plans."""
        for piece, _ in self._pieces:
            yield from piece.eager_nodes()


def has_many_barriers(graph: Graph) -> bool:
    """Is it to be run in pieces?"""
    return sum(map(_is_barrier, graph.nodes)) > 2 * MOST_BARRIERS


def _is_barrier(node: Node) -> bool:
    opdef = find_opdef(node)
    return node.has_subgraphs or (opdef is not None and opdef.bound is not None)


def _pieces(graph: Graph) -> Iterator[tuple[Graph, list[Value]]]:
    """The pieces in order and what each makes for others; the last has the constants that are outputs."""
    groups: list[list[Node]] = [[]]
    barriers = 0
    place: dict[Node, int] = {}
    for node in graph.nodes:
        if node.op_type in {"Data", "Const", "NetOutput"}:
            continue
        place[node] = len(groups) - 1
        groups[-1].append(node)
        barriers += _is_barrier(node)
        if barriers == MOST_BARRIERS:
            groups.append([])
            barriers = 0
    for number, nodes in enumerate(groups):
        made = (value for node in nodes for value in node.outputs)
        outputs = [value for value in made if any(place.get(user) != number for user in value.users)]
        if number == len(groups) - 1:
            outputs += dict.fromkeys(value for value in graph.outputs if value.tensor is not None)
        yield extract(graph, nodes, outputs), outputs
