"""Gelu as TensorFlow writes it.

½ · x · Erfc(−x · √½)     becomes     _Gelu(x)

Erfc alone must be exact where it is tiny, which costs much and is not seen in the product.
"""

from __future__ import annotations

from math import isclose, sqrt

from atcpy.parsers.tensorflow.graph import Ref, TfGraph, TfNode, constant_of
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import DataType

GELU = "_Gelu"  # the op that it becomes
_NARROW = frozenset({DataType.DT_HALF, DataType.DT_BFLOAT16})


def with_gelu(graph: TfGraph) -> TfGraph:
    """Return the graph with one node for each Gelu; the nodes that it replaces are still in it."""
    nodes = dict(graph.nodes)
    for node in graph.nodes.values():
        if node.op == "Mul" and len(node.inputs) == 2:
            x = _find(graph.nodes, node)
            if x is not None:
                nodes[node.name] = TfNode(node.name, GELU, (x,), {}, called=node.called)
    return TfGraph(nodes, graph.inputs, graph.outputs)


def _find(nodes: dict[str, TfNode], product: TfNode) -> Ref | None:
    """The x of a product that is Gelu(x)."""
    dtype = product.attrs.get("T")
    tolerance = 4e-3 if isinstance(dtype, int) and dtype in _NARROW else 1e-6
    for half, tail in (product.inputs, product.inputs[::-1]):
        erfc = nodes.get(tail.node)
        if erfc is None or erfc.op != "Erfc" or not erfc.inputs:
            continue
        x = _factor(nodes, half, 0.5, tolerance)
        negated = _factor(nodes, erfc.inputs[0], sqrt(0.5), tolerance)
        minus = nodes.get(negated.node) if negated is not None else None
        if minus is not None and minus.op == "Neg" and x is not None and (x,) == minus.inputs:
            return x
    return None


def _factor(nodes: dict[str, TfNode], product: Ref, number: float, tolerance: float) -> Ref | None:
    """What is multiplied by this number."""
    node = nodes.get(product.node)
    if node is None or node.op != "Mul" or len(node.inputs) != 2:
        return None
    for ref, other in (node.inputs, node.inputs[::-1]):
        constant, cast = ref, nodes.get(ref.node)
        if cast is not None and cast.op == "Cast" and cast.inputs:
            constant = cast.inputs[0]
        array = constant_of(nodes, constant)
        if (
            array is not None
            and array.shape == ()
            and array.dtype.kind in "fV"
            and isclose(float(array), number, rel_tol=tolerance)
        ):
            return other
    return None
