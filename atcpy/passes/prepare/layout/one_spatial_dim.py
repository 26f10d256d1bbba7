"""Windows over one spatial dim become windows over two, the first of size 1, which the kernels know.

Conv([N, C, L], [M, C, K])  →  Squeeze(Conv([N, C, 1, L], [M, C, 1, K]), 2)

What follows and works on channels or single elements follows in four dims, so that no format is
lost between two such convolutions: f(Squeeze(x))  →  Squeeze(f(x)).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from atcpy.ir import Graph, Node, PassRecord, Reject, Rewriter, Value, erase_dead
from atcpy.ops import Trait, find_opdef, has_trait
from atcpy.ops.core.axes import normal_axis
from atcpy.ops.core.infer import KnownValues, infer_node
from atcpy.ops.core.opdef import data_inputs
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.phase import Phase

NAME = "OneSpatialDimPass"
# What a window over a dim of size 1 has in each attribute.
ALONG_ONE = {"kernel_shape": 1, "strides": 1, "dilations": 1, "output_padding": 0, "output_shape": 1}
NEW_DIM = 2


@graph_pass(NAME, Phase.FINISH, is_neutral=False)
def add_spatial_dim(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Give convolutions and pools over one spatial dim a second one, and what follows them."""
    lifted: dict[Value, Value] = {}  # three dims → the same elements in four
    for node in graph.nodes:
        if not _is_candidate(node, lifted):
            continue
        if not record.accept([node], *_requirements(node)):
            continue
        rw = Rewriter(graph, node, NAME, [node])
        result = _insert(rw, node.op_type, _operands(rw, node, lifted), _attrs(node))
        squeezed = _insert(rw, "Squeeze", [result, rw.const(np.array([NEW_DIM]), name="axes")], {})
        rw.replace(node.output, squeezed)
        lifted[squeezed] = result
        erase_dead(graph, [node])
    erase_dead(graph, [value.producer for value in lifted if value.producer.graph is not None])


def _is_candidate(node: Node, lifted: Mapping[Value, Value]) -> bool:
    if not node.operands or not node.outputs or _rank(node.output) != 3:
        return False
    if has_trait(node, Trait.WINDOW):
        return _rank(node.operand(0)) == 3
    if has_trait(node, Trait.CHANNELWISE):
        return node.operand(0) in lifted and len(node.outputs) == 1
    follows = node.op_type == "Concat" or has_trait(node, Trait.ELEMENTWISE)
    return follows and any(value in lifted for value in node.operands)


def _weights(node: Node) -> int | None:
    opdef = find_opdef(node)
    return None if opdef is None else opdef.weights


def _requirements(node: Node) -> Iterator[Reject]:
    weights = _weights(node)
    if weights is not None and node.operand(weights).tensor is None:
        yield Reject("weights-not-constant", node.name)
    if has_trait(node, Trait.WINDOW) and any(value.use_count for value in node.outputs[1:]):
        yield Reject("indices-used", node.name)


def _operands(rw: Rewriter, node: Node, lifted: Mapping[Value, Value]) -> list[Value | None]:
    """The operands in four dims; what has one number a channel stays."""
    wide = {*data_inputs(node), _weights(node)}
    return [_in_four_dims(rw, value, lifted) if index in wide else value for index, value in enumerate(node.inputs)]


def _in_four_dims(rw: Rewriter, value: Value | None, lifted: Mapping[Value, Value]) -> Value | None:
    """The value with a dim of size 1 before its last one. Vectors are aligned with that."""
    if value is None or _rank(value) < 2:
        return value
    if value in lifted:
        return lifted[value]
    if value.tensor is not None:
        return rw.const(np.expand_dims(value.array, -2), like=value)
    return _insert(rw, "Unsqueeze", [value, rw.const(np.array([_rank(value) - 1]), name="axes")], {})


def _attrs(node: Node) -> dict[str, object]:
    """The node's attributes for four dims."""
    attrs = dict(node.attrs)
    for name, one in ALONG_ONE.items():
        values = node.ints_attr(name)
        if values:
            attrs[name] = (one, values[-1])
    pads = node.ints_attr("pads")
    if pads:
        attrs["pads"] = (0, pads[0], 0, pads[1])
    if node.op_type == "Concat":
        axis = normal_axis(node, node.int_attr("axis", 0), 3)
        attrs["axis"] = axis + (axis >= NEW_DIM)
    return attrs


def _insert(rw: Rewriter, op_type: str, inputs: Sequence[Value | None], attrs: Mapping[str, object]) -> Value:
    value = rw.op(op_type, *inputs, **attrs)
    infer_node(value.producer, KnownValues())
    return value


def _rank(value: Value) -> int:
    shape = value.desc.shape
    return -1 if shape is None else len(shape)
