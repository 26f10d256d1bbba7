"""Leave it to an elementwise op to repeat an operand: it does so anyway.

Add(x, Expand(y, s))                  →  Add(x, y),        where x has all of the result's dims that y has not
Mul(x, ConstantOfShape(s, value))     →  Mul(x, value)
"""

from __future__ import annotations

from atcpy.ir import Graph, Node, PassRecord, Reject, Rewriter, Tensor, Value, erase_dead
from atcpy.ir.shape import Shape
from atcpy.ops import Trait, has_trait, op_types
from atcpy.ops.core.opdef import data_inputs
from atcpy.ops.core.shape_values import UNNAMED
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.phase import Phase

_REPEATING = op_types(Trait.BROADCAST) | {"ConstantOfShape"}


@graph_pass("ExpandEliminationPass", Phase.MOVE, after=("ShapeSubgraphPass",), repeats=True)
def drop_expand(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Drop Expand and ConstantOfShape in front of ops that broadcast."""
    if not graph.has_any(_REPEATING):
        return
    for node in graph.nodes:
        if not has_trait(node, Trait.ELEMENTWISE) or node.input_count < 2:
            continue
        for index in data_inputs(node):
            value = node.input(index)
            if value is None or value.producer.op_type not in _REPEATING:
                continue
            if node.op_type == "PRelu" and index == 0:  # which has the shape of the result
                continue
            expand = value.producer
            rejects = [] if _covers(node, index, _small_shape(value)) else [Reject("broadcast", node.name)]
            if not record.accept([node, expand], *rejects):
                continue
            graph.set_input(node, index, _small(graph, node, value, record.name))
            node.passes = (*node.passes, record.name)
            erase_dead(graph, [expand])


def _small_shape(value: Value) -> Shape | None:
    return () if value.producer.op_type == "ConstantOfShape" else value.producer.operand(0).desc.shape


def _small(graph: Graph, node: Node, value: Value, name: str) -> Value:
    """What is repeated."""
    maker = value.producer
    if maker.op_type == "Expand":
        return maker.operand(0)
    fill = maker.attrs.get("value")
    array = fill.array.reshape(()) if isinstance(fill, Tensor) else 0.0
    return Rewriter(graph, node, name, [maker]).const(array, dtype=value.desc.dtype, name=f"{maker.name}_value")


def _covers(node: Node, index: int, shape: Shape | None) -> bool:
    """Is the result as large with an operand of this shape?"""
    result = node.output.desc.shape
    shapes = [value.desc.shape for at, value in enumerate(node.inputs) if value is not None and at != index]
    if result is None or shape is None or None in shapes or UNNAMED in result or len(shape) > len(result):
        return False
    others = [*(other for other in shapes if other is not None), shape]
    if max(map(len, others)) < len(result):
        return False  # a leading dim of 1 comes from nobody else
    return all(any(_dim(other, axis) == dim for other in others) for axis, dim in enumerate(reversed(result)))


def _dim(shape: Shape, back: int) -> object:
    """The dim so many before the last; 1 where there is none."""
    return shape[-1 - back] if back < len(shape) else 1
