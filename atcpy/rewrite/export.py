"""Writes a rewritten graph as the ONNX model that it was read from, with what passes changed.

What no pass touched is copied from the source model: nodes, constants, inputs and outputs with their docs. A node that
is new or changed is downgraded to the model's opset; where it has no form there, the opset is raised as little as
possible.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import onnx
from onnx import helper

from atcpy.exporters.onnx.exporter import add_attributes, fill_attr, name_captured, tensor_to_proto
from atcpy.exporters.onnx.types import type_from_text
from atcpy.ir import DType, Graph, Node, Tensor, Value, walk
from atcpy.ir.barrier import is_barrier
from atcpy.parsers.onnx.opsets.downgrade import form_at, means_the_same, oldest_opset
from atcpy.parsers.onnx.opsets.form import CannotDowngrade, OpsetForm
from atcpy.parsers.onnx.reader import standard_opset
from atcpy.rewrite.source_model import Origin, SourceModel

_ATTR = onnx.AttributeProto
_SHAPE_OF_A_RANGE = 15  # the opset from which on Shape can return some of the dims
LARGE_BYTES = 16 << 10  # constants from here on stay outside of the message
_INT64_MAX = 2**63 - 1


class CannotExport(Exception):
    """The graph cannot be written as ONNX; says why."""


@dataclass(frozen=True, slots=True)
class Constant:
    """An initializer of the main graph; `data` are its bytes if they are not in the message."""

    proto: onnx.TensorProto
    data: memoryview | None = None


@dataclass(slots=True)
class RewrittenModel:
    """A model without the constants of its main graph, and those constants. `ops` counts the nodes of the model and its
    bodies by op, without Constant. `raised` names the node that needs a newer opset than the model's, and why;
    `raised_by` are the passes that created such nodes. `sources` are the nodes of the source model that each node
    of the main graph stands for, by its name.
    """

    model: onnx.ModelProto
    constants: list[Constant] = field(default_factory=list)
    ops: Counter[str] = field(default_factory=Counter)
    raised: str = ""
    raised_by: set[str] = field(default_factory=set)
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)


def export_rewritten(
    graph: Graph, source: SourceModel, *, retyped: bool = False, lowest_opset: int = 0
) -> RewrittenModel:
    """Write the graph as a model of at least `lowest_opset`. `retyped`: inputs have other shapes than the source model
    declares.
    """
    return _Exporter(graph, source, retyped=retyped, lowest_opset=lowest_opset).run()


@dataclass(slots=True)
class _Range:
    """A Slice of a Shape, or one element of it, that is written as Shape(start, end)."""

    source: Value
    start: int
    end: int


class _Exporter:
    def __init__(self, graph: Graph, source: SourceModel, *, retyped: bool, lowest_opset: int) -> None:
        self._result = RewrittenModel(onnx.ModelProto())
        self._graph = graph
        self._source = source
        self._retyped = retyped
        self._nodes = [node for node in walk(graph) if not node.is_structural]
        self._own_opset = standard_opset(source.model)
        self._lowest_opset = lowest_opset
        self._names: dict[Value, str] = {}
        self._written: dict[Tensor, str] = {}
        self._ranges: dict[Node, _Range] = {}
        self._dropped: set[Node] = set()
        self._copied: set[Node] = set()  # nodes that are written as in the source model
        self._inputs = {info.name: info for info in source.model.graph.input}

    @cached_property
    def _protos(self) -> Mapping[str, onnx.NodeProto]:
        """The nodes of the source model by the names that they have in the IR."""
        return {node.name: origin.proto for node, origin in self._source.origins.items()}

    def run(self) -> RewrittenModel:
        """Write the whole model."""
        self._opset, self._result.raised = self._choose_opset()
        self._find_ranges()
        self._copy_header(self._result.model)
        self._name_outputs()
        name_captured(self._nodes, self._names)
        pending = deque([(self._graph, self._result.model.graph)])
        while pending:
            graph, proto = pending.popleft()
            pending.extend(self._fill_graph(graph, proto))
        return self._result

    # --- the opset ---------------------------------------------------------------------------

    def _choose_opset(self) -> tuple[int, str]:
        """Choose the model's own opset or the lowest allowed one, or the oldest newer one at which every new or changed
        node can be written.
        """
        opset, why = max(self._own_opset, self._lowest_opset), ""
        while True:
            needed = opset
            self._copied.clear()
            for node in self._nodes:
                origin = self._source.origins.get(node)
                if is_barrier(node):
                    self._check_barrier(node, origin, opset)
                    continue
                if self._is_copied(node, opset):
                    self._copied.add(node)
                    continue
                own, reason = oldest_opset(node, opset) if opset else (1, "")
                if own > opset:
                    self._result.raised_by.update(node.passes)
                if own > needed:
                    needed, why = own, f"{node.op_type} {node.name}: {reason}"
            if needed == opset:
                return opset, why
            opset = needed

    def _check_barrier(self, node: Node, origin: Origin | None, opset: int) -> None:
        assert origin is not None
        proto = origin.proto
        if proto.domain not in ("", "ai.onnx") or not onnx.defs.has(proto.op_type):
            return  # an op outside the standard means the same everywhere
        if not means_the_same(proto.op_type, origin.opset, opset):
            raise CannotExport(f"{proto.op_type} {proto.name} cannot be brought from opset {origin.opset} to {opset}")

    def _is_copied(self, node: Node, opset: int) -> bool:
        origin = self._source.origins.get(node)
        if origin is None:
            return False
        same = origin.opset == opset or means_the_same(origin.proto.op_type, origin.opset, opset)
        return same and origin.matches(node)

    # --- Shape(start, end) -------------------------------------------------------------------

    def _find_ranges(self) -> None:
        """Write slices and elements of a Shape as one Shape, from opset 15 on, if nothing else reads the Shape."""
        if self._opset < _SHAPE_OF_A_RANGE:
            return
        for node in self._nodes:
            if node.op_type != "Shape" or node.domain or node.attrs:
                continue
            readers = [use.node for use in node.output.uses]
            found = {reader: _range_of(reader, node) for reader in readers}
            other_readers = [reader for reader in readers if found[reader] is None or reader.graph is not node.graph]
            if other_readers and any(self._source.origins.get(reader) for reader in readers):
                continue
            self._ranges.update(
                (reader, target) for reader, target in found.items() if target and reader not in other_readers
            )
            if not other_readers:
                self._dropped.add(node)

    # --- the model ---------------------------------------------------------------------------

    def _copy_header(self, model: onnx.ModelProto) -> None:
        source = self._source.model
        model.ir_version = max(source.ir_version, 4)  # from IR 4 on constants are not inputs as well
        for name in ("producer_name", "producer_version", "domain", "model_version", "doc_string"):
            if source.HasField(name):
                setattr(model, name, getattr(source, name))
        model.metadata_props.extend(source.metadata_props)
        has_standard = False
        for entry in source.opset_import:
            is_standard = entry.domain in ("", "ai.onnx")
            if not (is_standard and has_standard):
                model.opset_import.append(entry)
            if is_standard:
                has_standard = True
                model.opset_import[-1].version = self._opset
        if self._opset and not source.opset_import:
            model.opset_import.add(version=self._opset)
        self._import_more(model)
        if self._opset != self._own_opset:
            oldest = helper.find_min_ir_version_for(list(model.opset_import), ignore_unknown=True)
            model.ir_version = max(model.ir_version, oldest)
        graph = source.graph
        model.graph.name = graph.name
        _copy_docs(graph, model.graph)

    def _import_more(self, model: onnx.ModelProto) -> None:
        """Import the domains that only functions of the model imported."""
        known = {"" if entry.domain == "ai.onnx" else entry.domain for entry in model.opset_import}
        for function in self._source.model.functions:
            for entry in function.opset_import:
                if entry.domain not in known | {"ai.onnx"}:
                    known.add(entry.domain)
                    model.opset_import.append(entry)

    def _name_outputs(self) -> None:
        """Give a value the name of the output that it is, if that name is free."""
        graph, names = self._graph, self._graph.net_output.attrs.get("names")
        assert isinstance(names, tuple)
        taken = {value.name for value in graph.outputs} & set(names)
        for value, name in zip(graph.outputs, names, strict=True):
            is_free = value.name not in names and value not in self._names and name not in taken
            if value.name != name and is_free and not value.producer.is_source:
                self._names[value] = name

    def _name(self, value: Value) -> str:
        return self._names.get(value, value.name)

    # --- one graph ---------------------------------------------------------------------------

    def _fill_graph(self, graph: Graph, proto: onnx.GraphProto) -> list[tuple[Graph, onnx.GraphProto]]:
        is_main = graph is self._graph
        proto.name = proto.name or graph.name
        bodies: list[tuple[Graph, onnx.GraphProto]] = []
        returned = set(graph.outputs)
        nodes = list(graph.nodes)
        for node in nodes:
            if node.op_type == "Const" and node.output.use_count and (tensor := node.output.tensor) is not None:
                if node.output in returned:
                    target = proto.node.add(op_type="Constant", name=node.name, output=[self._name(node.output)])
                    fill_attr(target.attribute.add(name="value"), tensor, _ATTR.TENSOR)
                else:
                    self._add_constant(node.output, tensor, proto, is_main=is_main)
        for node in nodes:
            if node.op_type == "Const" or "captured" in node.attrs:
                continue
            if node.op_type == "Data":
                self._add_input(node, proto, is_main=is_main)
                if isinstance(default := node.attrs.get("default"), Tensor):
                    self._result.constants.append(self._constant(default, node.output.name))
            elif node.op_type == "NetOutput":
                self._add_outputs(node, proto, is_main=is_main)
            elif node not in self._dropped:
                target = proto.node.add()
                bodies.extend(self._add_node(node, target, None if is_main else proto))
                self._result.ops[target.op_type] += 1
                if is_main:
                    self._result.sources[target.name] = node.sources
        if is_main:
            self._add_value_infos(proto)
        return bodies

    def _add_constant(self, value: Value, tensor: Tensor, proto: onnx.GraphProto, *, is_main: bool) -> None:
        name = self._name(value)
        if is_main:
            self._written.setdefault(tensor, name)
            self._result.constants.append(self._constant(tensor, name))
        elif tensor in self._written or tensor.nbytes >= LARGE_BYTES:
            # Bodies have copies of the constants around them; the model has one.
            if tensor not in self._written:
                self._written[tensor] = name
                self._result.constants.append(self._constant(tensor, name))
            self._names[value] = self._written[tensor]
        else:
            proto.initializer.append(self._constant(tensor, name).proto)

    def _constant(self, tensor: Tensor, name: str) -> Constant:
        stored = self._source.tensors.get(tensor)
        if stored is not None and stored.proto.data_location != onnx.TensorProto.EXTERNAL:
            if stored.proto.name == name:
                return Constant(stored.proto, stored.data)
            target = onnx.TensorProto()
            target.CopyFrom(stored.proto)
            target.name = name
            return Constant(target, stored.data)
        if tensor.nbytes >= LARGE_BYTES and tensor.dtype.bits >= 8 and tensor.dtype is not DType.STRING:
            target = onnx.TensorProto(name=name, data_type=tensor.dtype.onnx, dims=tensor.shape)
            return Constant(target, np.ascontiguousarray(tensor.array).reshape(-1).view(np.uint8).data)
        return Constant(tensor_to_proto(tensor, name))

    # --- inputs and outputs ------------------------------------------------------------------

    def _add_input(self, node: Node, proto: onnx.GraphProto, *, is_main: bool) -> None:
        declared = self._inputs.get(node.output.name) if is_main else None
        target = proto.input.add(name=node.output.name)
        if declared is not None:
            target.CopyFrom(declared)
            _set_sizes(target, node.output)
        elif text := node.attrs.get("type"):
            target.type.CopyFrom(type_from_text(str(text)))
        elif node.output.desc.dtype is not DType.UNDEFINED:
            target.type.tensor_type.elem_type = node.output.desc.dtype.onnx
            if node.output.desc.shape == ():  # ONNX Runtime asks it of the number of an iteration
                target.type.tensor_type.shape.SetInParent()

    def _add_outputs(self, node: Node, proto: onnx.GraphProto, *, is_main: bool) -> None:
        names = node.attrs.get("names")
        declared = {info.name: info for info in self._source.model.graph.output} if is_main else {}
        used: set[str] = set()
        for index, value in enumerate(node.operands):
            name = self._name(value)
            output_name = names[index] if isinstance(names, tuple) and is_main else name
            is_foreign = not is_main and (value in self._names or value.producer.op_type == "Data")
            if output_name in used or is_foreign:
                output_name = f"{node.graph.name if node.graph else ''}/{name}.out{index}"
            if output_name != name:
                proto.node.append(helper.make_node("Identity", [name], [output_name]))
                self._result.ops["Identity"] += 1
            used.add(output_name)
            info = proto.output.add(name=output_name)
            if output_name in declared:
                info.CopyFrom(declared[output_name])
                if self._retyped:
                    _set_sizes(info, value)
            elif value.desc.dtype is not DType.UNDEFINED:
                info.type.tensor_type.elem_type = value.desc.dtype.onnx

    def _add_value_infos(self, proto: onnx.GraphProto) -> None:
        """Copy what the model declares about values that still exist."""
        source = self._source.model.graph
        if not source.value_info and not source.quantization_annotation:
            return
        target = {name for node in proto.node for name in node.output}
        known = target | {constant.proto.name for constant in self._result.constants}
        own = {info.name for info in proto.output}
        if not self._retyped:
            proto.value_info.extend(i for i in source.value_info if i.name in target and i.name not in own)
        proto.quantization_annotation.extend(a for a in source.quantization_annotation if a.tensor_name in known)

    # --- nodes -------------------------------------------------------------------------------

    def _add_node(
        self, node: Node, target: onnx.NodeProto, body: onnx.GraphProto | None
    ) -> list[tuple[Graph, onnx.GraphProto]]:
        origin = self._source.origins.get(node)
        if node in self._ranges:
            self._write_range(node, target)
            return []
        if origin is not None and (is_barrier(node) or node in self._copied):
            return self._copy_node(node, origin, target)
        try:
            form = form_at(node, self._opset)
        except CannotDowngrade as why:
            raise CannotExport(f"{node.op_type} {node.name} has no form at opset {self._opset}: {why}") from why
        return self._write_form(node, form, target, body)

    def _copy_node(self, node: Node, origin: Origin, target: onnx.NodeProto) -> list[tuple[Graph, onnx.GraphProto]]:
        bodies: list[tuple[Graph, onnx.GraphProto]] = []
        source = origin.proto
        if node.has_subgraphs:
            target.name, target.op_type, target.domain = source.name, source.op_type, source.domain
            _copy_docs(source, target)
            for attr in source.attribute:
                bodies += self._copy_attr(node.attrs.get(attr.name), attr, target.attribute.add())
        else:
            target.CopyFrom(source)
        read, left_out = node.inputs, {index for index, name in enumerate(source.output) if not name}
        inputs = [
            "" if index is None or (value := read[index]) is None else self._name(value)
            for index in origin.input_indices
        ]
        inputs += [""] * (len(source.input) - len(inputs))  # ONNX counts those of a Loop that are left out
        outputs = [
            "" if index in left_out and not value.use_count else self._name(value)
            for index, value in enumerate(node.outputs)
        ]
        target.ClearField("input")
        target.ClearField("output")
        target.input.extend(inputs)
        target.output.extend(outputs)
        return bodies

    def _copy_attr(
        self, value: object, source: onnx.AttributeProto, target: onnx.AttributeProto
    ) -> list[tuple[Graph, onnx.GraphProto]]:
        if isinstance(value, Graph):
            target.name, target.type = source.name, _ATTR.GRAPH
            target.g.name = source.g.name
            return [(value, target.g)]
        if isinstance(value, tuple) and value and isinstance(value[0], Graph):
            target.name, target.type = source.name, _ATTR.GRAPHS
            for each in source.graphs:
                target.graphs.add(name=each.name)
            return list(zip(value, target.graphs, strict=True))
        target.CopyFrom(source)
        return []

    def _write_range(self, node: Node, target: onnx.NodeProto) -> None:
        found = self._ranges[node]
        target.name, target.op_type = node.name, "Shape"
        target.input.append(self._name(found.source))
        target.output.append(self._name(node.output))
        if found.start:
            target.attribute.append(helper.make_attribute("start", found.start))
        if found.end != _INT64_MAX:
            target.attribute.append(helper.make_attribute("end", found.end))
        _copy_docs(self._protos.get(node.name), target)

    def _write_form(
        self, node: Node, form: OpsetForm, target: onnx.NodeProto, body: onnx.GraphProto | None
    ) -> list[tuple[Graph, onnx.GraphProto]]:
        target.name, target.op_type, target.domain = node.name, form.op_type, node.domain
        for index, operand in enumerate(form.inputs):
            if isinstance(operand, Tensor):
                name = f"{node.name}/{form.op_type}.{index}"
                if body is None:
                    self._result.constants.append(Constant(tensor_to_proto(operand, name)))
                else:
                    body.initializer.append(tensor_to_proto(operand, name))
                target.input.append(name)
            else:
                target.input.append("" if operand is None else self._name(operand))
        target.output.extend(self._name(value) for value in node.outputs)
        _copy_docs(self._protos.get(node.name), target)
        return add_attributes(target, form.attrs, self._opset)


def _copy_docs(source: onnx.NodeProto | onnx.GraphProto | None, target: onnx.NodeProto | onnx.GraphProto) -> None:
    if source is None:
        return
    if source.HasField("doc_string"):
        target.doc_string = source.doc_string
    target.metadata_props.extend(source.metadata_props)


def _set_sizes(info: onnx.ValueInfoProto, value: Value) -> None:
    """Set dims that are open in the model and known now."""
    shape, tensor = value.desc.shape, info.type.tensor_type
    if shape is None or info.type.WhichOneof("value") != "tensor_type":
        return
    if not tensor.HasField("shape"):
        if any(isinstance(dim, int) for dim in shape):
            for dim in shape:
                tensor.shape.dim.add(**({"dim_value": dim} if isinstance(dim, int) else {}))
        return
    for proto, dim in zip(tensor.shape.dim, shape, strict=False):
        if isinstance(dim, int) and not proto.HasField("dim_value"):
            proto.dim_value = dim


def _range_of(node: Node, shape: Node) -> _Range | None:
    """The range of a Shape that a node reads, if it reads a range."""
    if node.domain or node.input(0) is not shape.output:
        return None
    source = shape.operand(0)
    if node.op_type == "Slice":
        bounds = [None if value is None else _ints(value) for value in node.inputs[1:]]
        present = [value is not None for value in node.inputs[1:]]
        if len(bounds) < 2 or any(has and bound is None for has, bound in zip(present, bounds, strict=True)):
            return None
        starts, ends, axes, steps = (*bounds, None, None)[:4]
        if starts is None or ends is None or len(starts) != 1 or axes not in (None, (0,), (-1,)):
            return None
        return _Range(source, starts[0], min(ends[0], _INT64_MAX)) if steps in (None, (1,)) else None
    if node.op_type == "Gather" and node.int_attr("axis", 0) in (0, -1):
        indices = _ints(node.operand(1))
        if indices is not None and node.operand(1).desc.shape == (1,):
            index = indices[0]
            rank = None if source.desc.shape is None else len(source.desc.shape)
            if rank is None or not -rank <= index < rank:
                return None  # Gather refuses what is out of range, Shape does not
            return _Range(source, index, index + 1 if index != -1 else _INT64_MAX)
    return None


def _ints(value: Value) -> tuple[int, ...] | None:
    tensor = value.tensor
    if tensor is None or not tensor.dtype.is_int:
        return None
    return tuple(int(item) for item in tensor.array.reshape(-1))
