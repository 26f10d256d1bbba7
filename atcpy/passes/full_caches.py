"""A decoder whose caches are full: what its states need to be written in place.

GroupQueryAttention reads, as values, how many rows of its caches are in use. Where that is all of them, its results are

    present = Concat(past, new)

A graph that is compiled for that alone has a condition as one output more: by how much each of these lengths differs
from the number of rows afterwards. Its results are right where all of it is 0; who runs it has to look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atcpy.ir import Builder, DType, Graph, Node, Value
from atcpy.ir.clone import clone
from atcpy.ops.contrib.grouped_attention import FULL_CACHE, LENGTHS, PAST, TOTAL_LENGTH
from atcpy.ops.contrib.record import DOMAIN
from atcpy.ops.core.shape_values import UNNAMED


@dataclass(frozen=True, slots=True)
class FullCaches:
    """A graph that assumes that caches are full, whose last output is the condition; which inputs these caches are."""

    graph: Graph
    inputs: frozenset[int]


def assume_full_caches(graph: Graph) -> FullCaches | None:
    """Return a copy of a graph as it came from the parser, which assumes that its caches are full; None if it has no
    caches of GroupQueryAttention from its inputs to its outputs.
    """
    if not any(_extends_caches(node) for node in graph.nodes):
        return None
    copy = clone(graph)
    nodes = [node for node in copy.nodes if _extends_caches(node)]
    for node in nodes:
        node.attrs[FULL_CACHE] = 1
    end = copy.net_output
    names = end.attrs["names"]
    assert isinstance(names, tuple)
    condition = _condition(Builder(copy, end, name=nodes[0].name, sources=nodes[0].sources), nodes)
    end.attrs["names"] = (*names, condition.name)
    copy.set_inputs(end, [*copy.outputs, condition])
    return FullCaches(copy, frozenset(_past(node, index).int_attr("index", 0) for node in nodes for index in PAST))


def _extends_caches(node: Node) -> bool:
    """Whether a node puts new rows into inputs of the model, and the results are outputs."""
    return (
        (node.domain, node.op_type) == (DOMAIN, "GroupQueryAttention")
        and all(node.input(index) is not None and _past(node, index).op_type == "Data" for index in PAST)
        and len(node.outputs) > 2
        and all(any(user.op_type == "NetOutput" for user in value.users) for value in node.outputs[1:3])
    )


def _past(node: Node, index: int) -> Node:
    return node.operand(index).producer


def _condition(b: Builder, nodes: Sequence[Node]) -> Value:
    """By how much lengths differ from the rows that are there after the run: int64, one dim."""
    parts = []
    for node in {_lengths_of(node): node for node in nodes}.values():
        rows = b.dim(node.outputs[1], 2)
        last, total = (b.cast(b.reshape(node.operand(index), (-1,)), DType.INT64) for index in (LENGTHS, TOTAL_LENGTH))
        parts += [b.op("Sub", b.op("Add", last, b.const(1)), rows), b.op("Sub", total, rows)]
    return b.op("Concat", *parts, axis=0)


def _lengths_of(node: Node) -> object:
    """What is the same for nodes whose lengths and rows are equal. Layers mostly share all of it."""
    query, past = (node.operand(index).desc.shape for index in (0, PAST[0]))
    if query is None or past is None or UNNAMED in (query[1], past[2]):
        return node
    return node.operand(LENGTHS), node.operand(TOTAL_LENGTH), query[1], past[2]
