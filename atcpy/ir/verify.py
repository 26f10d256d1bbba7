"""Checks the invariants of the IR; the pipeline runs it after each pass in tests and under --debug."""

from collections import Counter
from collections.abc import Iterator, Mapping

from atcpy.errors import InternalError
from atcpy.ir.graph import Graph, walk
from atcpy.ir.node import Value


def verify(graph: Graph, after: str) -> None:
    """Raises InternalError, naming the pass `after` which it ran, if an invariant is broken."""
    for problem in violations(graph):
        raise InternalError(f"pass {after} broke the graph: {problem}", code="E20007")


def violations(graph: Graph) -> Iterator[str]:
    """What is wrong with the links, names and order of a graph and its subgraphs."""
    # Asked after each pass: tuples, which are found as the uses that they equal, take a third of the time.
    seen_values: set[Value] = set()
    names: set[str] = set()
    for node in walk(graph):
        if node.graph is None:
            yield f"{node.name} is listed but erased"
        for index, value in enumerate(node._inputs):
            if value is None:
                continue
            maker = value.producer.graph
            if maker is None:
                yield f"{node.name} reads {value.name}, whose producer is erased"
            elif maker is not node.graph and node.graph is not graph:  # a piece of a cut graph reads the root's inputs
                yield f"{node.name} reads {value.name} of the graph around it"
            elif value not in seen_values and maker is node.graph:
                yield f"{node.name} reads {value.name} before it is computed"
            if (node, index) not in value._uses:
                yield f"{value.name} does not know its reader {node.name}"
        for index, value in enumerate(node.outputs):
            if value.producer is not node or value.index != index:
                yield f"{value.name} does not know its producer {node.name}"
            for user, input_index in value._uses:
                if user.graph is None:
                    yield f"{value.name} is read by {user.name}, which is erased"
                elif user.input(input_index) is not value:
                    yield f"{value.name} believes that {user.name} reads it"
            if value.name in names:
                yield f"two values are named {value.name}"
            names.add(value.name)
            seen_values.add(value)
    if Counter([node.op_type for node in graph.nodes]) != _nonzero(graph._count_by_op):
        yield "the numbers of nodes by op are wrong"
    if graph._last is None or graph._last.op_type != "NetOutput":
        yield "the last node is not NetOutput"


def _nonzero(counts: Mapping[str, int]) -> dict[str, int]:
    return {op_type: count for op_type, count in counts.items() if count}
