"""A decoder whose caches are full: what its states need to be written in place.

GroupQueryAttention reads, as values, how many rows of its caches are in use. Where that is all of them, its results are

    present = Concat(past, new)

A graph that is compiled for that alone gives all these lengths as one output more. Its results are right if they equal
the number of rows after the run; who runs it has to look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atcpy.ir import Builder, DType, Graph, Node, Value
from atcpy.ir.clone import clone
from atcpy.ops.contrib.grouped_attention import FULL_CACHE, LENGTHS, PAST, TOTAL_LENGTH
from atcpy.ops.contrib.record import DOMAIN


@dataclass(frozen=True, slots=True)
class FullCaches:
    """A graph that assumes that caches are full, whose last output has the lengths; which inputs these caches are."""

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
    lengths = _lengths(Builder(copy, end, name=nodes[0].name, sources=nodes[0].sources), nodes)
    end.attrs["names"] = (*names, lengths.name)
    copy.set_inputs(end, [*copy.outputs, lengths])
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


def _lengths(b: Builder, nodes: Sequence[Node]) -> Value:
    """How many rows each sequence has after the run, by all that is said of it: int64, one dim."""
    ends = dict.fromkeys(node.operand(LENGTHS) for node in nodes)
    totals = dict.fromkeys(node.operand(TOTAL_LENGTH) for node in nodes)
    flat = [b.cast(b.reshape(value, (-1,)), DType.INT64) for value in (*ends, *totals)]
    after = [b.op("Add", value, b.const(1)) for value in flat[: len(ends)]]
    return b.op("Concat", *after, *flat[len(ends) :], axis=0)
