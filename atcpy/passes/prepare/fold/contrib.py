"""Write an op that the ONNX standard does not have in ops that it has, by the expansion in its record."""

from __future__ import annotations

from functools import cache

from atcpy.ir import Graph, Node, PassRecord, Reject, Rewriter
from atcpy.ir.closure import close_node
from atcpy.ops import all_opdefs, find_opdef
from atcpy.ops.core.infer import KnownValues, infer_created

NAME = "ContribExpansionPass"


@cache
def _expanded_ops() -> frozenset[str]:
    return frozenset(opdef.name for opdef in all_opdefs() if opdef.is_contrib)


def is_contrib(node: Node) -> bool:
    """Return whether a node is of an op that the standard lacks, and that has an expansion."""
    if node.op_type not in _expanded_ops():
        return False
    opdef = find_opdef(node)
    return opdef is not None and opdef.is_contrib


def expand_contrib(graph: Graph, node: Node, known: KnownValues, record: PassRecord) -> list[Node]:
    """Put the nodes of its expansion in the place of a node whose inputs have their types; return them, inferred."""
    opdef = find_opdef(node)
    assert opdef is not None and opdef.expand is not None
    record.matched += 1
    rw = Rewriter(graph, node, record.name, infer=lambda created: infer_created(created, node, known))
    results = opdef.expand(node, rw)
    assert results is not None and not isinstance(results, Reject)
    for old, new in zip(node.outputs, results, strict=True):
        if new is not None:
            rw.replace(old, new)
    graph.erase(node)
    created = [each for each in rw.created if each.graph is graph]
    for each in created:
        if each.has_subgraphs:
            close_node(each)
    record.applied += 1
    return created
