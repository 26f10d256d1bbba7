"""Package to what people look at: the graph with its constants, provenance, the passes' decisions.

What runs is read by `om/package.py`.
Every size and offset in a file is checked against the bytes that are there, whatever the checksum.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from atcpy.ir import (
    Decisions,
    DType,
    Engine,
    Graph,
    MemoryPlan,
    Node,
    PassRecord,
    Reject,
    Source,
    Tensor,
    TensorDesc,
    Value,
)
from atcpy.ir.decisions import AllReducePlan, Matched, Precision
from atcpy.ir.gears import branches
from atcpy.ir.graph import Names
from atcpy.ir.verify import violations
from atcpy.om import attrs, descs, weights
from atcpy.om.container import Partition
from atcpy.om.package import Package, malformed, parse_message
from atcpy.om.package import parse_package as parse_package
from atcpy.om.package import read_package as read_package
from atcpy.om.schema.ge_ir_pb2 import AttrDef, GraphDef, ModelDef, OpDef, TensorDef, TensorDescriptor
from atcpy.om.weight_files import FILE_CONSTANT

MAX_NESTING = 64


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """The content of MODEL_DEF: `graph` with its decisions, and `attrs`, the model's attributes by GE's names."""

    graph: Graph
    soc: str
    cmdline: str
    version: str
    source: Source
    memory: MemoryPlan
    task_nodes: tuple[str, ...]
    attrs: Mapping[str, object]


def read_model(package: Package) -> PackagedModel:
    """Read the graph and the record of its conversion."""
    definition = ModelDef()
    parse_message(definition, package.container, Partition.MODEL_DEF)
    try:
        return _Model(definition, package).read()
    # What decoding raises on values that no writer writes; RecursionError is json's on deep nesting.
    except (KeyError, ValueError, TypeError, IndexError, ArithmeticError, RecursionError) as error:
        what = f"the model in it is not one that atcpy wrote: {error or type(error).__name__}"
        raise malformed(package.container, Partition.MODEL_DEF, what) from error


class _Model:
    """Decodes one ModelDef."""

    def __init__(self, definition: ModelDef, package: Package) -> None:
        self._package = package
        self._definition = definition
        self._bodies = {graph.name: graph for graph in definition.graph[1:]}
        self._names = Names()
        self._descs: dict[bytes, TensorDesc] = {}
        self._files = {file.location: at for file, at in package.weight_files.items()}

    def read(self) -> PackagedModel:
        if not self._definition.graph:
            raise ValueError("it has no graph")
        root = self._definition.graph[0]
        graph = self._graph(root, root.name, 0)
        if self._bodies:
            raise ValueError(f"graph {min(self._bodies)} belongs to no node")
        for problem in violations(graph):
            raise ValueError(problem)
        self._check_tasks(graph)
        known = {
            name: attrs.get_attr(attr) for name, attr in sorted(self._definition.attr.items()) if name != "_atcpy_pad"
        }
        source, memory = _record(known, "_atcpy_source"), _record(known, "_atcpy_memory")
        graph.decisions = _decisions(_record(known, "_atcpy_decisions"))
        graph.node_count_before = _int(source["nodes"])
        return PackagedModel(
            graph=graph,
            soc=_str(known["soc_version"]),
            cmdline=_str(known["atc_cmdline"]),
            version=_str(known["atc_version"]),
            source=Source(
                _str(source["sha256"]),
                _str(source["framework"]),
                tuple((_str(domain), _int(version)) for domain, version in source["opsets"]),
                _str(source["producer"]),
            ),
            memory=MemoryPlan(self._package.arena_bytes, _int(memory["lower_bound"]), _int(memory["unshared_bytes"])),
            task_nodes=_strings(known.get("task_index_op_name", ())),
            attrs=known,
        )

    def _check_tasks(self, graph: Graph) -> None:
        package = self._package
        of_graphs = [(graph, package.tasks)]
        if package.gears:
            tasks = (package.tasks_of(number) for number in range(len(package.gears)))
            of_graphs = list(zip(branches(graph), tasks, strict=True))
        for body, records in of_graphs:
            for task in records:
                if task.op_index >= len(body):
                    raise ValueError(f"a task belongs to node {task.op_index} of {len(body)}")

    def _graph(self, definition: GraphDef, name: str, depth: int) -> Graph:
        if depth > MAX_NESTING:
            raise ValueError(f"graphs are nested more than {MAX_NESTING} deep")
        graph = Graph(name, names=self._names)
        nodes: dict[str, Node] = {}
        for op in definition.op:
            if op.name in nodes:
                raise ValueError(f"two nodes are named {op.name}")
            nodes[op.name] = self._node(graph, op, nodes, depth)
        return graph

    def _node(self, graph: Graph, op: OpDef, nodes: Mapping[str, Node], depth: int) -> Node:
        # Each access to a map of protobuf makes an object: a record of two or three attributes is read once.
        stored, own, noted = op.attr, [], {}
        for name in stored:
            if name in _NOTES:
                noted[name] = stored[name]
            elif name not in _UNREAD:
                own.append(name)
        own_name, output_descs = op.name, list(op.output_desc)
        names = [desc.name for desc in output_descs]
        node = graph.append(
            noted["_atcpy_op_type"].s.decode() if "_atcpy_op_type" in noted else op.type,
            [_operand(reference, nodes) for reference in op.input],
            name=own_name,
            outputs=names,
            domain=noted["_atcpy_domain"].s.decode() if "_atcpy_domain" in noted else "",
        )
        if node.name != own_name or [value.name for value in node.outputs] != names:
            raise ValueError(f"a name of {own_name} is taken or empty")
        for value, desc in zip(node.outputs, output_descs, strict=True):
            value.desc = self._desc(desc)
        if "_datadump_original_op_names" in noted:
            node.sources = _texts(noted["_datadump_original_op_names"])
        if "_atcpy_passes" in noted:
            node.passes = _texts(noted["_atcpy_passes"])
        if "_lxfusion_engine_name" in noted:
            name_of_engine = noted["_lxfusion_engine_name"].s
            node.engine = _ENGINES.get(name_of_engine) or Engine(name_of_engine.decode())  # which refuses it
        self._read_attrs(node, op, own, noted, depth)
        return node

    def _desc(self, stored: TensorDescriptor) -> TensorDesc:
        """The type of a value or a constant, whatever its name and where its bytes are; those of one type share it."""
        stored.ClearField("name")
        stored.ClearField("data_offset")
        stored.ClearField("weight_size")
        key = stored.SerializeToString()
        desc = self._descs.get(key)
        if desc is None:
            desc = self._descs[key] = descs.proto_to_desc(stored)
        return desc

    def _read_attrs(self, node: Node, op: OpDef, own: list[str], noted: Mapping[str, AttrDef], depth: int) -> None:
        """Read a node's `own` attributes, as those that are `noted` say."""
        tensors, types, graphs, empty = [_texts(noted[note]) if note in noted else () for note in _NOTES_OF_ATTRS]
        for name in empty:
            node.attrs[name] = ()
        is_const, is_in_file, stored = node.op_type == "Const", op.type == FILE_CONSTANT, op.attr
        # Bodies last and in their own order, which is that of the graphs in the file.
        for name in (*sorted([name for name in own if name not in graphs]), *graphs):
            attr = stored[name]
            if is_const and name == "value":
                node.attrs[name] = self._constant(attr.t)
                continue
            if is_in_file and name in _OF_FILES:
                continue
            value = attrs.get_attr(attr)
            if name in tensors:
                value = _each(value, attrs.text_to_tensor)
            elif name in types:
                value = _each(value, attrs.text_to_type)
            elif name in graphs:
                value = _each(value, lambda text: self._body(text, depth))
            node.attrs[name] = value
        if is_in_file:
            if not is_const:
                raise ValueError(f"{node.name} is a {node.op_type} in a file")
            node.attrs["value"] = self._file_constant(op)
        if is_const:
            value = node.attrs.get("value")
            if len(node.outputs) != 1 or not isinstance(value, Tensor):
                raise ValueError(f"constant {node.name} has no value")
            desc = node.output.desc
            if (desc.dtype, desc.shape) != (value.dtype, value.shape):
                raise ValueError(f"constant {node.name} is {desc}, its value {value}")

    def _body(self, name: str, depth: int) -> Graph:
        definition = self._bodies.pop(name)
        return self._graph(definition, name.partition(".")[2], depth + 1)

    def _constant(self, stored: TensorDef) -> Tensor:
        first, size = stored.desc.data_offset, stored.desc.weight_size
        desc = self._desc(stored.desc)
        if stored.data or size == 0:
            return weights.bytes_to_tensor(memoryview(stored.data), desc)
        return self._weight(desc, first, size)

    def _file_constant(self, op: OpDef) -> Tensor:
        stored = TensorDescriptor()
        try:
            stored.ParseFromString(bytes.fromhex(op.attr["_atcpy_value_desc"].s.decode()))
        except DecodeError as error:
            raise ValueError(f"the type of constant {op.name} is none: {error}") from None
        location, offset = op.attr["location"].s.decode(errors="surrogateescape"), op.attr["offset"].i
        if offset < 0:
            raise ValueError(f"a constant at {offset} of {location}")
        return self._weight(descs.proto_to_desc(stored), self._files[location] + offset, op.attr["length"].i)

    def _weight(self, desc: TensorDesc, first: int, size: int) -> Tensor:
        blob = self._package.weights
        if first < 0 or first > len(blob) or not 0 < size <= len(blob) - first:
            raise ValueError(f"a constant of {size} bytes at {first} is outside the weights")
        return weights.bytes_to_tensor(blob[first : first + size], desc)


_OF_FILES = frozenset({"location", "offset", "length", "_atcpy_value_desc"})  # attributes of a FileConstant
# Attributes that say something about a node beside what the op's definition asks for.
_NOTES = frozenset(
    {
        "_atcpy_tensors",
        "_atcpy_types",
        "_atcpy_graphs",
        "_atcpy_empty_lists",
        "_atcpy_op_type",
        "_atcpy_domain",
        "_atcpy_passes",
        "_datadump_original_op_names",
        "_lxfusion_engine_name",
    }
)
# Those that nobody reads: they are for other tools.
_UNREAD = frozenset({"_ge_attr_op_kernel_lib_name", "_lxfusion_op_kernel_lib_name", "_no_task", "_batch_label"})
_NOTES_OF_ATTRS = ("_atcpy_tensors", "_atcpy_types", "_atcpy_graphs", "_atcpy_empty_lists")
_ENGINES = {engine.value.encode(): engine for engine in Engine}


def _operand(reference: str, nodes: Mapping[str, Node]) -> Value | None:
    if not reference:
        return None
    name, _, index = reference.rpartition(":")
    if not index.isascii() or not index.isdigit():
        raise ValueError(f"{reference} names no output")
    return nodes[name].outputs[int(index)]


def _texts(attr: AttrDef) -> tuple[str, ...]:
    return _strings(attrs.get_attr(attr))


def _each(value: object, read: Any) -> object:
    """What `read` makes of a text, or of each text of a list."""
    return tuple(map(read, _strings(value))) if isinstance(value, tuple) else read(_str(value))


def _record(known: Mapping[str, object], name: str) -> Mapping[str, Any]:
    record = json.loads(_str(known[name]))
    if not isinstance(record, dict):
        raise ValueError(f"{name} is no record")
    return record


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.80} is no text")
    return value


def _int(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r:.80} is no number")
    return value


def _float(value: object) -> float:
    if not isinstance(value, float):
        raise ValueError(f"{value!r:.80} is no number")
    return value


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, tuple):
        raise ValueError(f"{value!r:.80} is no list")
    return tuple([_str(item) for item in value])


def _matched(nodes: Iterable[Any]) -> Matched:
    return tuple(tuple(map(_str, node)) for node in nodes)


def _decisions(record: Mapping[str, Any]) -> Decisions:
    decisions = Decisions(removed={_str(name): _str(why) for name, why in dict(record["removed"]).items()})
    for saved in record["passes"]:
        entry = PassRecord(_str(saved["name"]), _str(saved["stage"]), _int(saved["matched"]), _int(saved["applied"]))
        entry.rejects = [
            Reject(_str(reason), _str(where), _str(detail), _matched(nodes))
            for reason, where, detail, nodes in saved["rejects"]
        ]
        entry.fired = [_matched(nodes) for nodes in saved["fired"]]
        decisions.passes.append(entry)
    if "allreduce" in record:
        decisions.allreduce = _allreduce(record["allreduce"])
    if "precision" in record:
        decisions.precision = _precision(record["precision"])
    return decisions


def _precision(saved: Mapping[str, Any]) -> Precision:
    outputs = {_str(name): DType[_str(dtype).upper()] for name, dtype in dict(saved["outputs"]).items()}
    if not set(outputs.values()) <= {DType.FLOAT16, DType.BFLOAT16}:  # verify takes its tolerance from here
        raise ValueError("an output is of the precision of a type that no mode lowers to")
    names = {name: tuple(map(_str, part)) for name, part in saved.items() if name not in ("mode", "outputs")}
    return Precision(mode=_str(saved["mode"]), outputs={n: dtype.long for n, dtype in outputs.items()}, **names)


def _allreduce(saved: Mapping[str, Any]) -> AllReducePlan:
    return AllReducePlan(
        allreduces=_int(saved["allreduces"]),
        collectives=_int(saved["collectives"]),
        ranks=_int(saved["ranks"]),
        seconds=_float(saved["seconds"]),
        seconds_alone=_float(saved["seconds_alone"]),
        seconds_default=_float(saved["seconds_default"]),
        algorithms={_str(name): _int(count) for name, count in dict(saved["algorithms"]).items()},
        fused_copies=None if saved["fused_copies"] is None else _int(saved["fused_copies"]),
        port_copies=None if saved["port_copies"] is None else _int(saved["port_copies"]),
    )
