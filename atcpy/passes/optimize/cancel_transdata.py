"""TransData that the pieces put at their borders, and that the whole does not need.

TransData(TransData(x)) back to x's format        →  x
two TransData of one value to one format          →  one
TransData between NCHW and NC1HWC0 of one pixel   →  ReFormat, a view: nothing moves
"""

from __future__ import annotations

from atcpy.ir import Engine, Format, Graph, Node, PassRecord, Value, erase_dead
from atcpy.ir.symbolic import same
from atcpy.options import OptimizeOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.phase import Phase

NAME = "TransOpWithoutReshapeFusionPass"


def count_transdata(graph: Graph) -> int:
    """How many TransData a graph has."""
    return sum(1 for node in graph.nodes if node.op_type == "TransData")


@graph_pass(NAME, Phase.CANCEL, after=("NetOutputPass",))
def cancel_transdata(graph: Graph, record: PassRecord, options: OptimizeOptions) -> None:
    """Remove TransData that undo or repeat each other, or move nothing."""
    converted: dict[tuple[Value, Format], Value] = {}
    for node in graph.nodes:
        if node.op_type != "TransData":
            continue
        record.matched += 1
        value = _source(node)
        form = node.output.desc.format
        earlier = converted.get((value, form))
        if earlier is None or earlier.producer.graph is None:  # its last reader may have gone since
            earlier = converted[value, form] = node.output
        same = value if value.desc.format == form else earlier
        if same is node.output:
            if value is not node.operand(0):
                graph.set_input(node, 0, value)
            record.applied += _make_view(graph, node)
            continue
        graph.replace_uses(node.output, same)
        erase_dead(graph, [node])
        record.applied += 1


def _source(node: Node) -> Value:
    """The value behind a chain of TransData."""
    value = node.operand(0)
    while value.producer.op_type == "TransData":
        value = value.producer.operand(0)
    return value


def _make_view(graph: Graph, node: Node) -> bool:
    """Turns a TransData into a ReFormat where no element moves."""
    value, result = node.operand(0).desc, node.output.desc
    _, c, *spatial = value.static_shape
    c0 = value.format.c0 or result.format.c0
    if not all(same(size, 1) for size in spatial) or not c0 or c % c0:
        return False
    graph.change_op(node, "ReFormat")
    node.engine = Engine.GE_LOCAL
    node.passes = (*node.passes, NAME)
    return True
