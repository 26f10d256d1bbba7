"""Closed bodies: what If, Loop and Scan bodies read of the graphs around them becomes an operand.

ONNX lets a body read any value of the graphs around it. Ours reads its own nodes only: the node gets
the values as operands behind its own, the body a `Data` for each, marked `captured`; constants are
copied, sharing their data. So a body can be copied, compiled and run on its own.
"""

from __future__ import annotations

from atcpy.ir.graph import Graph, walk
from atcpy.ir.node import Node, Value


def close_bodies(graph: Graph) -> None:
    """Closes every body of a graph, the innermost first."""
    holders = [node for node in walk(graph) if node.has_subgraphs]
    for node in reversed(holders):  # `walk` gives a node before those of its bodies
        close_node(node)


def own_operands(node: Node) -> int:
    """How many operands the op itself has, before those that its bodies capture."""
    return 1 if node.op_type == "If" else max(len(formal_inputs(body)) for body in node.subgraphs)


def formal_inputs(body: Graph) -> list[Node]:
    """The `Data` nodes of a body that the op itself feeds, in order."""
    return [data for data in body.inputs if "captured" not in data.attrs]


def captured_value(node: Node, data: Node) -> Value:
    """The operand of `node` that a `Data` of one of its bodies stands for, itself captured or not."""
    return node.operand(data.int_attr("index", 0) + (1 if node.op_type == "If" else 0))


def close_node(node: Node) -> None:
    """Closes the bodies of a node, in which all bodies are closed."""
    graph = node.graph
    assert graph is not None
    first = max(own_operands(node), node.input_count)  # FlexAttention feeds its bodies what it computes itself
    captured: dict[Value, int] = {}
    for body in node.subgraphs:
        _close_body(body, captured, first if node.op_type != "If" else 0)
    if captured:
        operands = [*node.inputs, *[None] * (first - node.input_count)]
        graph.set_inputs(node, [*operands, *captured])


def _close_body(body: Graph, captured: dict[Value, int], first: int) -> None:
    inside: dict[Value, Value] = {}
    for node in list(body.nodes):
        for index, value in enumerate(node.inputs):
            if value is None or value.producer.graph is body:
                continue
            if value not in inside:
                inside[value] = _bring_in(body, value, captured, first)
            body.set_input(node, index, inside[value])


def _bring_in(body: Graph, value: Value, captured: dict[Value, int], first: int) -> Value:
    tensor = value.tensor
    if tensor is not None:
        const = body.add_const(tensor, value.name)
        const.producer.sources, const.desc = value.producer.sources, value.desc
        return const
    index = captured.setdefault(value, len(captured))
    attrs = {"index": first + index, "captured": 1}
    data = body.append("Data", (), attrs, name=value.name, outputs=(value.name,), before=next(body.nodes))
    data.output.desc = value.desc
    return data.output
