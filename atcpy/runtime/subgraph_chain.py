"""Graphs with many results whose sizes depend on data, run as a chain of subgraphs.

The rest of a graph is compiled anew when such a result is known. With many of them, one after the other, each would
compile all that follows; so a subgraph ends after a few of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from atcpy.ir import Graph, Node, Value
from atcpy.ir.clone import extract
from atcpy.ops import find_opdef
from atcpy.runtime.host import RuntimeValue
from atcpy.runtime.hybrid import HybridGraph, ShapeCache
from atcpy.runtime.plan import ExecutionPlan

MAX_DATA_DEPENDENT = 16  # nodes of a subgraph; a graph with up to twice as many is not cut


class SubgraphChain:
    """A graph that is run as several, which exchange values by name. Threads may share it."""

    def __init__(self, graph: Graph, cache: ShapeCache) -> None:
        self._inputs = [node.output.name for node in graph.inputs]
        self._outputs = [value.name for value in graph.outputs]
        self._subgraphs = [
            (HybridGraph(subgraph, cache), tuple(value.name for value in outputs)) for subgraph, outputs in _cut(graph)
        ]

    def run(self, values: Sequence[RuntimeValue]) -> list[RuntimeValue]:
        """The outputs for inputs in order. Raises what a `HybridGraph` does."""
        named = dict(zip(self._inputs, values, strict=True))
        for subgraph, outputs in self._subgraphs:
            named.update(zip(outputs, subgraph.run([named[name] for name in subgraph.inputs]), strict=True))
        return [named[name] for name in self._outputs]

    def plans(self) -> Iterator[ExecutionPlan]:
        """The plans that are compiled so far."""
        for subgraph, _ in self._subgraphs:
            yield from subgraph.plans()

    def eager_nodes(self) -> Iterator[Node]:
        """The nodes that run one by one after these plans."""
        for subgraph, _ in self._subgraphs:
            yield from subgraph.eager_nodes()


def needs_cutting(graph: Graph) -> bool:
    """Whether a graph should run as a chain of subgraphs."""
    return sum(map(_depends_on_data, graph.nodes)) > 2 * MAX_DATA_DEPENDENT


def _depends_on_data(node: Node) -> bool:
    opdef = find_opdef(node)
    return node.has_subgraphs or (opdef is not None and opdef.bound is not None)


def _cut(graph: Graph) -> Iterator[tuple[Graph, list[Value]]]:
    """The subgraphs in order, with the values that others read; the last one has the constants that are outputs."""
    groups: list[list[Node]] = [[]]
    data_dependent = 0
    position: dict[Node, int] = {}
    for node in graph.nodes:
        if node.is_structural:
            continue
        position[node] = len(groups) - 1
        groups[-1].append(node)
        data_dependent += _depends_on_data(node)
        if data_dependent == MAX_DATA_DEPENDENT:
            groups.append([])
            data_dependent = 0
    for index, nodes in enumerate(groups):
        values = (value for node in nodes for value in node.outputs)
        outputs = [value for value in values if any(position.get(user) != index for user in value.users)]
        if index == len(groups) - 1:
            outputs += dict.fromkeys(value for value in graph.outputs if value.tensor is not None)
        yield extract(graph, nodes, outputs), outputs
