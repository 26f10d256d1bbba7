"""Exports an ir.Graph as an onnx.ModelProto, for tests and tools.

The model imports the oldest opset from OLDEST_OPSET on at which every node means the same as in the IR: the older it
is, the more programs read it.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from functools import cache

import numpy as np
import onnx
from onnx import helper, numpy_helper

from atcpy.errors import Unsupported
from atcpy.exporters.onnx.types import type_from_text
from atcpy.ir import DType, Graph, Node, Tensor, TensorDesc, Value, walk
from atcpy.ir.closure import captured_value, own_operands
from atcpy.ops.core.reference import canonical_opset, type_name

OLDEST_OPSET = 21  # below, GroupNormalization means something else
_ATTR = onnx.AttributeProto
_NOT_ONNX = frozenset({"TransData", "PlaceHolder", "End", "PartitionedCall", "Case", "HcomAllReduce"})


def export_model(graph: Graph, *, producer: str = "atcpy") -> onnx.ModelProto:
    """Export a graph. Raises Unsupported for ops and formats that ONNX does not have."""
    nodes = list(walk(graph))
    for node in nodes:
        _check_exportable(node)
    opset = _oldest_opset(nodes)
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(domain, _newest(domain, nodes)) for domain in _domains(nodes)]
    model = onnx.ModelProto(ir_version=helper.find_min_ir_version_for(imports, ignore_unknown=True))
    model.producer_name = producer
    model.opset_import.extend(imports)
    pending = deque([(graph, model.graph)])
    names: dict[Value, str] = {}
    name_captured(nodes, names)
    while pending:
        source, target = pending.popleft()
        target.name = source.name
        for node in source.nodes:
            if "captured" in node.attrs:
                continue
            if node.op_type == "Data":
                target.input.append(_value_info(node.output, str(node.attrs.get("type", ""))))
            elif node.op_type == "Const":
                target.initializer.append(tensor_to_proto(_tensor_of(node), node.output.name))
            elif node.op_type == "NetOutput":
                _add_outputs(node, target, names)
            else:
                pending.extend(_add_node(node, target.node.add(), names))
    return model


def name_captured(nodes: Iterable[Node], names: dict[Value, str]) -> None:
    """Name the values that bodies capture as in the graphs around them, where a value has the name that `names` gives
    it, else its own.
    """
    for node in nodes:  # a node comes before those of its bodies
        for body in node.subgraphs:
            for data in body.inputs:
                if "captured" in data.attrs:
                    value = captured_value(node, data)
                    names[data.output] = names.get(value, value.name)


def _add_outputs(net_output: Node, target: onnx.GraphProto, aliases: Mapping[Value, str]) -> None:
    """The outputs under the model's names; a value that goes by another gets an Identity."""
    names = net_output.attrs.get("names")
    for index, value in enumerate(net_output.operands):
        info = _value_info(value, "")
        name = aliases.get(value, value.name)
        output_name = names[index] if isinstance(names, tuple) else f"{name}.out" if value in aliases else name
        if output_name != name:
            info.name = output_name
            target.node.append(helper.make_node("Identity", [name], [info.name]))
        target.output.append(info)


def tensor_to_proto(tensor: Tensor, name: str) -> onnx.TensorProto:
    """Store a constant in ONNX."""
    if tensor.dtype is DType.STRING:
        items = [str(item).encode("utf-8", "surrogateescape") for item in tensor.array.reshape(-1)]
        return onnx.TensorProto(name=name, data_type=DType.STRING.onnx, dims=tensor.shape, string_data=items)
    if tensor.dtype.bits >= 8:
        raw = np.ascontiguousarray(tensor.array).tobytes()
        return onnx.TensorProto(name=name, data_type=tensor.dtype.onnx, dims=tensor.shape, raw_data=raw)
    proto = numpy_helper.from_array(np.ascontiguousarray(tensor.array).reshape(tensor.shape), name)
    proto.data_type = tensor.dtype.onnx
    return proto


def _check_exportable(node: Node) -> None:
    blocked = any(value.desc.storage_shape is not None for value in node.outputs)
    if node.op_type in _NOT_ONNX or blocked:
        what = f"{node.op_type} has no ONNX form" if not blocked else f"{node.op_type} makes a blocked format"
        raise Unsupported("E10055", what, where=node, hint="export the graph as it is after the stage prepare")


def _oldest_opset(nodes: list[Node]) -> int:
    # Nodes of one op that look alike are judged once: a model has thousands of nodes and few ops.
    alike = {
        (node.op_type, tuple(node.attrs), tuple(v and v.desc.dtype for v in node.inputs)): node
        for node in nodes
        if not node.domain and not node.is_structural
    }
    candidates = range(OLDEST_OPSET, canonical_opset())
    return next(
        (opset for opset in candidates if all(_means_the_same(n, opset) for n in alike.values())), canonical_opset()
    )


def _means_the_same(node: Node, opset: int) -> bool:
    """Whether a node is written at this opset as at the newest."""
    if not onnx.defs.has(node.op_type, opset):
        return False
    old, new = onnx.defs.get_schema(node.op_type, opset), onnx.defs.get_schema(node.op_type)
    if old.since_version == new.since_version:
        return True
    return (
        all(name in old.attributes for name in node.attrs)
        and node.input_count <= old.max_input
        and all(_allows(old, value, index) for index, value in enumerate(node.inputs) if value is not None)
    )


def _allows(schema: onnx.defs.OpSchema, value: Value, index: int) -> bool:
    param = schema.inputs[min(index, len(schema.inputs) - 1)]
    return value.desc.dtype is DType.UNDEFINED or type_name(value.desc.dtype) in param.types


def _domains(nodes: Iterable[Node]) -> list[str]:
    return sorted({node.domain for node in nodes if node.domain})


def _newest(domain: str, nodes: Iterable[Node]) -> int:
    """The version of a domain at which all its ops that are used exist and are not deprecated."""
    versions = [1]
    for node in nodes:
        if node.domain == domain and onnx.defs.has(node.op_type, domain):
            schema = onnx.defs.get_schema(node.op_type, domain=domain)
            versions.append(schema.since_version - 1 if schema.deprecated else schema.since_version)
    return max(versions)


def _tensor_of(node: Node) -> Tensor:
    tensor = node.output.tensor
    assert tensor is not None
    return tensor


def _value_info(value: Value, text: str) -> onnx.ValueInfoProto:
    if text:
        return helper.make_value_info(value.name, type_from_text(text))
    if value.desc.dtype is DType.UNDEFINED:
        return onnx.ValueInfoProto(name=value.name)
    return helper.make_value_info(value.name, _type_proto(value.desc))


def _type_proto(desc: TensorDesc) -> onnx.TypeProto:
    shape = None if desc.shape is None else [dim if isinstance(dim, int) else dim.name for dim in desc.shape]
    return helper.make_tensor_type_proto(desc.dtype.onnx, shape)


def _add_node(node: Node, proto: onnx.NodeProto, aliases: Mapping[Value, str]) -> list[tuple[Graph, onnx.GraphProto]]:
    """Fills `proto`; returns the graphs in its attributes, which are still empty."""
    proto.name, proto.op_type, proto.domain = node.name, node.op_type, node.domain
    operands = node.inputs
    if node.has_subgraphs:
        own = own_operands(node)
        operands = (*operands[:own], *[None] * (own - len(operands)))  # ONNX counts those of a Loop that are left out
    proto.input.extend("" if value is None else aliases.get(value, value.name) for value in operands)
    proto.output.extend(value.name for value in node.outputs)
    return add_attributes(proto, node.attrs, canonical_opset())


def add_attributes(
    proto: onnx.NodeProto, attrs: Mapping[str, object], opset: int
) -> list[tuple[Graph, onnx.GraphProto]]:
    """Gives a node, whose op is set, its attributes; returns the graphs among them, which are still empty."""
    bodies: list[tuple[Graph, onnx.GraphProto]] = []
    for name, value in attrs.items():
        attr = proto.attribute.add(name=name)
        if isinstance(value, Graph):
            attr.type = _ATTR.GRAPH
            bodies.append((value, attr.g))
        elif isinstance(value, tuple) and value and isinstance(value[0], Graph):
            attr.type = _ATTR.GRAPHS
            bodies.extend((body, attr.graphs.add()) for body in value)
        else:
            fill_attr(attr, value, _declared_type(proto.op_type, proto.domain, opset, name))
    return bodies


@cache
def _declared_type(op_type: str, domain: str, opset: int, name: str) -> onnx.AttributeProto.AttributeType:
    """The type that the standard gives an attribute: an empty list does not show it."""
    version = opset if not domain else onnx.defs.onnx_opset_version()
    if not onnx.defs.has(op_type, version, domain):
        return _ATTR.UNDEFINED
    attributes = onnx.defs.get_schema(op_type, version, domain).attributes
    if name not in attributes:
        return _ATTR.UNDEFINED
    return attributes[name].type.value  # type: ignore[attr-defined,no-any-return]


def fill_attr(attr: onnx.AttributeProto, value: object, declared: onnx.AttributeProto.AttributeType) -> None:
    """Sets the value of an attribute that is no graph; `declared` is its type where the value does not show it."""
    if isinstance(value, Tensor):
        attr.type = _ATTR.TENSOR
        attr.t.CopyFrom(tensor_to_proto(value, ""))
    elif isinstance(value, tuple) and value and isinstance(value[0], Tensor):
        attr.type = _ATTR.TENSORS
        attr.tensors.extend(tensor_to_proto(item, "") for item in value)
    elif value == ():
        attr.type = declared or _ATTR.INTS
    elif declared in (_ATTR.FLOAT, _ATTR.FLOATS):
        attr.type = declared
        if isinstance(value, tuple):
            attr.floats.extend(value)
        elif isinstance(value, int | float):
            attr.f = value
    else:
        attr.CopyFrom(helper.make_attribute(attr.name, value))
