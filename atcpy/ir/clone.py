"""Copies of graphs: a graph is compiled once for each set of shapes that it meets, each time from a copy."""

from __future__ import annotations

from collections.abc import Iterable

from atcpy.ir.graph import Graph, Names
from atcpy.ir.node import Node, Value


def clone(graph: Graph) -> Graph:
    """A copy with nodes and values of its own under the same names; constants share their data. The
    graph's bodies, which must be closed, are copied with it.
    """
    copy = Graph(graph.name, names=Names())
    copy_nodes(graph.nodes, copy, {})
    copy.node_count_before = graph.node_count_before
    return copy


def copy_nodes(nodes: Iterable[Node], target: Graph, values: dict[Value, Value]) -> None:
    """Appends copies of `nodes`, in their order, to `target`. `values` says what stands for the values
    that they read from outside, and is told the copies of those that they make.
    """
    for node in nodes:
        inputs = [None if value is None else values[value] for value in node.inputs]
        copy = target.append(
            node.op_type,
            inputs,
            {name: _copy_attr(attr, target) for name, attr in node.attrs.items()},
            name=node.name,
            outputs=[value.name for value in node.outputs],
            domain=node.domain,
        )
        copy.engine, copy.sources, copy.passes = node.engine, node.sources, node.passes
        for value, twin in zip(node.outputs, copy.outputs, strict=True):
            twin.desc = value.desc
            values[value] = twin


def _copy_attr(attr: object, target: Graph) -> object:
    if isinstance(attr, Graph):
        body = Graph(attr.name, names=target.names)
        copy_nodes(attr.nodes, body, {})
        return body
    if isinstance(attr, tuple) and attr and isinstance(attr[0], Graph):
        return tuple(_copy_attr(item, target) for item in attr)
    return attr
