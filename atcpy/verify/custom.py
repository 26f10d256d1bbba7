"""Custom operators in the ONNX reference evaluator: it runs `forward` for their nodes."""

from typing import Any

import numpy as np
import onnx
from onnx import helper, inliner
from onnx.reference.op_run import OpRun

from atcpy.ir import Graph, Tensor
from atcpy.ops.custom import CustomOp, CustomOps
from atcpy.parsers.onnx.order import bodies_of


def with_custom_ops(model: onnx.ModelProto, custom: CustomOps) -> tuple[onnx.ModelProto, list[type[OpRun]]]:
    """A model that the evaluator can run, and a class of the evaluator for each kind of node that an operator stands
    for; the model's functions are put in where they are called.
    """
    lists = [model.graph.node, *(function.node for function in model.functions)]
    kinds = {(node.domain, node.op_type) for nodes in lists for node in _nodes(nodes)}
    found = {kind: operator for kind in sorted(kinds) if (operator := custom.find(*kind)) is not None}
    if not found:
        return model, []
    for domain in {domain for domain, _ in found} - {entry.domain for entry in model.opset_import}:
        model.opset_import.add(domain=domain, version=1)
    return inliner.inline_local_functions(model), [
        _reference_op(domain, name, operator) for (domain, name), operator in found.items()
    ]


def _nodes(nodes: Any) -> list[onnx.NodeProto]:
    found = list(nodes)
    for node in found:  # grows while it is walked: the bodies' nodes come behind
        found.extend(inner for body in bodies_of(node) for inner in body.node)
    return found


def _reference_op(domain: str, name: str, operator: CustomOp) -> type[OpRun]:
    def run(self: Any, *inputs: Any, **bound: Any) -> tuple[Any, ...]:
        proto: onnx.NodeProto = self.onnx_node
        graph = Graph(name)
        values = [None if item is None else graph.append("Data", name="x").output for item in inputs]
        attrs = {attr.name: _attribute(attr) for attr in proto.attribute if not attr.ref_attr_name}
        attrs.update({key: _frozen(value) for key, value in bound.items() if key != "bindings"})
        node = graph.append(operator.name, values, attrs, name=proto.name or name, outputs=("",) * len(proto.output))
        return tuple(operator.evaluate(node, inputs))

    return type(name, (OpRun,), {"op_domain": domain, "_run": run})


def _attribute(attr: onnx.AttributeProto) -> object:
    return _frozen(helper.get_attribute_value(attr))


def _frozen(value: Any) -> object:
    """An attribute as a node of ours carries it."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, onnx.TensorProto):
        return Tensor.of(onnx.numpy_helper.to_array(value))
    if isinstance(value, np.ndarray):
        return Tensor.of(value)
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value
