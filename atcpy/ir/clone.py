"""Copies of graphs: a graph is compiled once for each set of shapes that it meets, each time from a copy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    """Append copies of `nodes`, in their order, to `target`. `values` maps each value that they read from outside to
    its replacement; the copies of their outputs are added to it.
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


def extract(graph: Graph, nodes: Sequence[Node], outputs: Sequence[Value]) -> Graph:
    """A graph of copies of `nodes` that makes `outputs`; what they read from outside is an input, or the
    constant that it is.
    """
    part = Graph(graph.name)
    part.node_count_before = len(nodes)
    inside = {value for node in nodes for value in node.outputs}
    outer = dict.fromkeys(value for node in nodes for value in node.operands if value not in inside)
    values: dict[Value, Value] = {}
    index = 0
    for value in (*outer, *(output for output in outputs if output not in inside)):
        if value in values:
            continue
        tensor = value.tensor
        if tensor is not None:
            const = part.append("Const", (), {"value": tensor}, name=value.producer.name, outputs=(value.name,))
            const.sources, const.passes = value.producer.sources, value.producer.passes
            values[value] = const.output
        else:
            data = part.append("Data", (), {"index": index}, name=value.name, outputs=(value.name,))
            values[value] = data.output
            index += 1
        values[value].desc = value.desc
    copy_nodes(nodes, part, values)
    names = tuple(value.name for value in outputs)
    part.append("NetOutput", [values[value] for value in outputs], {"names": names}, name="NetOutput", outputs=())
    return part


def _copy_attr(attr: object, target: Graph) -> object:
    if isinstance(attr, Graph):
        body = Graph(attr.name, names=target.names)
        copy_nodes(attr.nodes, body, {})
        return body
    if isinstance(attr, tuple) and attr and isinstance(attr[0], Graph):
        return tuple(_copy_attr(item, target) for item in attr)
    return attr
