"""`CompiledModel` to package: every byte follows from the model and the options, nothing from the run.

MODEL_DEF is the whole graph, so that `om.reader.read_graph` gives it back; TASK_INFO holds the task records that the
executor runs; `_atcpy_…` attributes are what GE has no word for. See docs/om.md.
"""

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from onnx import TypeProto

from atcpy.errors import InternalError, UsageError, Where
from atcpy.ir import (
    CompiledModel,
    DType,
    Engine,
    Graph,
    Node,
    Port,
    Slot,
    Task,
    Tensor,
    TensorDesc,
    Value,
    Weight,
    is_static,
    plans_of,
)
from atcpy.ir.decisions import Precision
from atcpy.ir.gears import branches, one_gear
from atcpy.ir.region import Region
from atcpy.kernels.record import STREAM_ACTIVE
from atcpy.kernels.table import pack_compiled_task
from atcpy.om import attrs, clusters, container, descs, inout, numbers, weights
from atcpy.om.atomic import Buffer, atomic_write, atomic_write_together
from atcpy.om.container import SIGNATURE_BYTES, Partition, Sign, reseal, seal_file
from atcpy.om.gears import gear_info, gears_text
from atcpy.om.ports import ports_text
from atcpy.om.schema.ge_ir_pb2 import GraphDef, ModelDef, OpDef, TensorDescriptor
from atcpy.om.schema.task_pb2 import ModelTaskDef
from atcpy.om.weight_files import FILE_CONSTANT, FOLDER, SPACE_ALIGN, WeightFile
from atcpy.om.weight_files import encode as encode_files
from atcpy.om.weight_placement import Placement, place
from atcpy.ops import find_opdef
from atcpy.ops.collectives import WORLD
from atcpy.ops.custom import custom_ops_in
from atcpy.options import ExternalWeight
from atcpy.wire_format import field_header

__all__ = ["reseal", "to_bytes", "write"]

# GE's kernel libraries by engine.
KERNEL_LIB = {
    Engine.AICORE: "AIcoreEngine",
    Engine.VECTOR: "VectorEngine",
    Engine.AICPU: "aicpu_ascend_kernel",
    Engine.GE_LOCAL: "DNN_VM_GE_LOCAL_OP_STORE",
    Engine.HCCL: "ops_kernel_info_hccl",
    Engine.HOST_CPU: "DNN_VM_HOST_CPU_OP_STORE",
}
# RT_MODEL_TASK_HCCL and RT_MODEL_TASK_STREAM_ACTIVE; the others are RT_MODEL_TASK_KERNEL, 0.
_HCCL_TASK, _STREAM_ACTIVE_TASK = 6, 8
_HOLE = descs.HOLE.SerializeToString(deterministic=True)
FRAMEWORKS = {"onnx": "Onnx", "tensorflow": "TensorFlow"}


def write(
    path: str | os.PathLike[str],
    compiled: CompiledModel,
    *,
    sign: Sign | None = None,
    check: Callable[[], None] = lambda: None,
    external: ExternalWeight = ExternalWeight.INSIDE,
) -> tuple[WeightFile, ...]:
    """Make `path` hold the package; weights are packed one by one while they are written. What `check` raises when all
    is written leaves `path` as it is.

    Returns the files beside it that hold `external` weights.
    """

    def finish(descriptor: int) -> None:
        check()
        seal_file(descriptor, sign)

    target = Path(os.path.realpath(path))
    placement = place(compiled, external, target.stem)
    package = _buffers(compiled, placement, is_signed=sign is not None)
    if not placement.files:
        atomic_write(path, package, finish=finish)
        return ()
    folder = target.parent / FOLDER
    if folder.is_symlink():  # which the loader does not follow
        raise UsageError("E13004", f"{folder} is a link", where=Where(file=str(folder)), hint="make it a folder")
    contents = {folder / content.file.name: content.buffers() for content in placement.files}
    atomic_write_together({**contents, Path(path): package}, finish=finish)
    return tuple(content.file for content in placement.files)


def to_bytes(compiled: CompiledModel, *, sign: Sign | None = None) -> bytes:
    """The package in memory, with its weights."""
    placement = place(compiled, ExternalWeight.INSIDE, "")
    return reseal(b"".join(_buffers(compiled, placement, is_signed=sign is not None)), sign)


def _buffers(compiled: CompiledModel, placement: Placement, *, is_signed: bool) -> Iterator[Buffer]:
    """The file in order, its checksum and its signature still zero."""
    ports = inout.encode(
        [_port_info(port, _ranges(node)) for port, node in zip(compiled.inputs, compiled.graph.inputs, strict=True)],
        [_port_info(port) for port in compiled.outputs],
        gear_info(compiled),
    )
    tasks = _task_info(compiled, placement)
    sizes = {Partition.MODEL_INOUT_INFO: len(ports), Partition.TASK_INFO: len(tasks)}
    if is_signed:
        sizes[Partition.SIGNATURE] = SIGNATURE_BYTES
    sizes[Partition.WEIGHTS_DATA] = weights.partition_bytes(placement.inside)
    model = _model_def(compiled, placement, sizes)
    sizes[Partition.MODEL_DEF] = sum(map(len, model))
    model.append(
        _padding(-container.weights_offset(sizes), SPACE_ALIGN if placement.files else container.WEIGHTS_ALIGN)
    )
    sizes[Partition.MODEL_DEF] += len(model[-1])
    head, order = container.frame(
        sizes,
        name=compiled.graph.name,
        platform_version=_platform(compiled),
        dynamic=not all(is_static(port.desc.shape) for port in compiled.inputs),
    )
    yield head
    parts: dict[Partition, Iterable[Buffer]] = {
        Partition.MODEL_INOUT_INFO: [ports],
        Partition.MODEL_DEF: model,
        Partition.WEIGHTS_DATA: weights.partition_buffers(placement.inside),
        Partition.TASK_INFO: [tasks],
        Partition.SIGNATURE: [bytes(SIGNATURE_BYTES)],
    }
    for partition in order:
        yield from parts[partition]


def _padding(missing: int, alignment: int = container.WEIGHTS_ALIGN) -> bytes:
    """One more entry of ModelDef's attribute map, so long that WEIGHTS_DATA begins where it must."""
    pad = ModelDef()
    pad.attr["_atcpy_pad"].s = b""
    first = (missing - len(pad.SerializeToString())) % alignment
    # The numbers that say how long it is take more bytes where it is longer, so that some lengths cannot be.
    for spaces in (first + more - less for more in (0, alignment) for less in range(min(first + more + 1, 8))):
        pad.attr["_atcpy_pad"].s = b" " * spaces
        entry = pad.SerializeToString()
        if (len(entry) - missing) % alignment == 0:
            return entry
    raise InternalError(f"no padding of {missing} bytes")


def _platform(compiled: CompiledModel) -> str:
    return f"{compiled.version}.0"


def _ranges(data: Node) -> tuple[tuple[int, int], ...]:
    """The lowest and the highest size of each dim of an input, -1 where there is no highest."""
    ends = data.ints_attr("shape_range", ())
    return tuple(zip(ends[::2], ends[1::2], strict=True))


def _port_info(port: Port, ranges: tuple[tuple[int, int], ...] = ()) -> inout.TensorInfo:
    dims = tuple(descs.ge_dims(port.desc.shape))
    nbytes = port.desc.nbytes if is_static(port.desc.shape) else 0
    form = numbers.format_to_number(port.desc.format)
    return inout.TensorInfo(port.name, nbytes, form, numbers.GE_DTYPE[port.desc.dtype], dims, dims, ranges)


def _task_info(compiled: CompiledModel, placement: Placement) -> bytes:
    info = ModelTaskDef(
        version=compiled.version,
        memory_size=compiled.memory.arena_bytes,
        stream_num=_stream_count(compiled),
        event_num=_event_count(compiled),
        weight_size=weights.partition_bytes(placement.inside),
    )
    info.attr["atcpy_format"] = str(container.FORMAT_VERSION)
    if compiled.has_unknown_shapes:
        info.attr["atcpy_shapes"] = "unknown"
    if compiled.has_unknown_shapes or compiled.gears:
        info.attr["atcpy_ports"] = ports_text(compiled)
    if compiled.gears:
        info.attr["atcpy_gears"] = gears_text(compiled)
    if defaults := [str(index) for index, node in enumerate(compiled.graph.inputs) if "default" in node.attrs]:
        info.attr["atcpy_default_inputs"] = ",".join(defaults)
    if keys := one_gear(compiled.graph).net_output.attrs.get("map_keys"):
        info.attr["atcpy_map_keys"] = _json(keys)
    if compiled.checks_status:
        info.attr["atcpy_status_check"] = "1"
    if custom := custom_ops_in(one_gear(compiled.graph)):
        info.attr["atcpy_custom_ops"] = ",".join(custom)
    moved = None
    if placement.files:
        info.attr["atcpy_weight_files"] = encode_files(content.file for content in placement.files)
        moved = placement.moved
    for task in compiled.tasks:
        _add_task(info, task, moved)
    if compiled.clusters:
        info.attr["atcpy_clusters"] = _json(clusters.encode(compiled.clusters))
    for plan in plans_of(compiled.clusters):
        for task in plan.tasks:
            _add_task(info, task, moved)
        info.task.add(id=len(info.task), private_def=plan.program)
    return info.SerializeToString(deterministic=True)


def _add_task(info: ModelTaskDef, task: Task, moved: Callable[[int], int] | None) -> None:
    record = pack_compiled_task(task, moved)
    definition = info.task.add(id=len(info.task), stream_id=task.stream)
    if task.engine is Engine.HCCL:
        definition.type = _HCCL_TASK
        definition.kernel_hccl.op_index = task.op_index
        definition.kernel_hccl.hccl_type = task.op_type
    elif task.kernel == STREAM_ACTIVE:
        definition.type = _STREAM_ACTIVE_TASK
        definition.stream_active.op_index = task.op_index
    kernel = definition.kernel
    kernel.kernel_name = task.kernel
    kernel.args_size = len(record)
    kernel.args = record
    kernel.context.op_index = task.op_index
    kernel.context.args_count = len(task.src) + len(task.dst)


def _stream_count(compiled: CompiledModel) -> int:
    return 1 + max((task.stream for task in compiled.tasks), default=0)


def _event_count(compiled: CompiledModel) -> int:
    return max((max(task.event_wait, task.event_record) for task in compiled.tasks), default=0)


# ---- the model


def _model_def(compiled: CompiledModel, placement: Placement, sizes: Mapping[Partition, int]) -> list[bytes]:
    """MODEL_DEF in pieces, each the bytes of a ModelDef: protobuf reads them one behind the other as one message."""
    graph = compiled.graph
    model = ModelDef(name=graph.name, version=container.OM_IR_VERSION, custom_version=_platform(compiled))
    pieces = [model.SerializeToString(deterministic=True)]
    pieces += _graph_pieces(graph, _GraphWriter(graph, compiled.weights, compiled.tasks, placement))
    groups = {node.str_attr("group", WORLD) for node in graph.nodes if node.engine is Engine.HCCL}
    values: dict[str, object] = {
        "atc_cmdline": compiled.cmdline,
        "atc_version": compiled.version,
        "soc_version": compiled.soc,
        "framework_type": FRAMEWORKS.get(compiled.source.framework.lower(), compiled.source.framework),
        "om_info_list": (sizes[Partition.WEIGHTS_DATA], 0, 0, sizes[Partition.TASK_INFO], 0),
        "memory_size": compiled.memory.arena_bytes,
        "weight_size": sizes[Partition.WEIGHTS_DATA],
        "zero_copy_memory_size": 0,
        "stream_num": _stream_count(compiled),
        "event_num": _event_count(compiled),
        "label_num": 0,
        "hcom_group_names": ",".join(sorted(groups)) or (),
        "core_type": 0,
        "attr_model_out_nodes_name": tuple(port.name for port in compiled.outputs),
        "task_index_op_name": tuple(task.node for task in compiled.tasks),
        "_atcpy_source": _json(
            {
                "sha256": compiled.source.sha256,
                "framework": compiled.source.framework,
                "opsets": list(compiled.source.opsets),
                "producer": compiled.source.producer,
                "nodes": graph.node_count_before,
            }
        ),
        "_atcpy_memory": _json(
            {"lower_bound": compiled.memory.lower_bound, "unshared_bytes": compiled.memory.unshared_bytes}
        ),
        "_atcpy_decisions": _json(_decisions(graph)),
    }
    model = ModelDef()
    for name, value in values.items():
        if value != ():
            attrs.set_attr(model.attr[name], value)
    return [*pieces, model.SerializeToString(deterministic=True)]


def describe(graph: Graph, *, has_data: bool = False) -> ModelDef:
    """A graph in GE's form, with the data of constants if it `has_data`."""
    model = ModelDef(name=graph.name, version=container.OM_IR_VERSION)
    for piece in _graph_pieces(graph, _GraphWriter(graph, has_data=has_data)):
        model.MergeFromString(piece)
    return model


def _graph_pieces(graph: Graph, writer: "_GraphWriter") -> Iterator[bytes]:
    """The bytes of a ModelDef for each graph, with nothing else in it."""
    pending = [graph]
    for number, block in enumerate(pending):  # grows while it is walked: subgraphs queue up behind
        definition = writer.write(block, _graph_name(block, number), pending)
        yield field_header(ModelDef.GRAPH_FIELD_NUMBER, len(definition)) + definition


def _graph_name(graph: Graph, number: int) -> str:
    """Unique in the package, also where two bodies have one name."""
    return graph.name if number == 0 else f"{number}.{graph.name}"


def _json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    # What a model has that is no UTF-8 is half of a surrogate pair here: JSON writes it as this does.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _decisions(graph: Graph) -> dict[str, object]:
    """What the passes did and why not, without the times, which differ from run to run."""
    allreduce, precision = graph.decisions.allreduce, graph.decisions.precision
    return {
        **({} if precision == Precision() else {"precision": asdict(precision)}),
        **({} if allreduce is None else {"allreduce": asdict(allreduce)}),
        "passes": [
            {
                "name": record.name,
                "stage": record.stage,
                "matched": record.matched,
                "applied": record.applied,
                "rejects": [[r.reason, r.where, r.detail, r.nodes] for r in record.rejects],
                "fired": record.fired,
            }
            for record in graph.decisions.passes
        ],
        "removed": graph.decisions.removed,
    }


class _GraphWriter:
    """Writes graphs as the bytes of `GraphDef`s; types and weights are looked up once.

    Only one node is a message at a time, since messages take several times their bytes, and without the descs of its
    operands: these are the bytes of their types, which many share, behind a name. Fields have to come in the order of
    their numbers, so that the bytes are those that protobuf would write.
    """

    def __init__(
        self,
        root: Graph,
        weights: Sequence[Weight] = (),
        tasks: Sequence[Task] = (),
        placement: Placement | None = None,
        *,
        has_data: bool = True,
    ) -> None:
        """`has_data`: constants that are no `weights` hold their data."""
        self._placement = Placement(()) if placement is None else placement
        self._weights = {weight.name: weight for weight in weights}
        self._has_data = has_data
        self._tasks: dict[str, list[Task]] = defaultdict(list)
        for task in tasks:
            self._tasks[task.node].append(task)
        self._descs: dict[TensorDesc, bytes] = {}
        self._written: dict[Value, bytes] = {}  # the descs of values of the graph that is being written
        self._shared: dict[tuple[object, ...], OpDef] = {}  # what many nodes have in common
        self._gears = frozenset(branches(root))

    def write(self, graph: Graph, name: str, graphs: list[Graph]) -> bytes:
        """The definition of a graph; the graphs in attributes of nodes are appended to `graphs`, the model's list."""
        self._written.clear()
        definition = GraphDef(name=name)
        ops: list[bytes] = []
        for number, node in enumerate(graph.nodes):
            op = OpDef(name=node.name, id=number, type=self._type_of(node))
            self._write_operands(node, op)
            self._write_attrs(node, op, graphs)
            op.MergeFrom(self._shared_part(node, op.type))
            self._write_tasks(node, op)
            if graph in self._gears:
                op.attr["_batch_label"].s = graph.name.encode()
            if node.op_type == "Data":
                definition.input.append(f"{node.name}:0")
            elif node.op_type == "NetOutput":
                definition.output.extend(op.input)
            parts = self._with_descs(node, op)
            ops += (field_header(GraphDef.OP_FIELD_NUMBER, sum(map(len, parts))), *parts)
        return b"".join((definition.SerializeToString(deterministic=True), *ops))

    def _with_descs(self, node: Node, op: OpDef) -> list[bytes]:
        """The bytes of a node's message and of the descs of its operands, in order."""
        behind = OpDef(subgraph_name=op.subgraph_name) if op.subgraph_name else None
        op.ClearField("subgraph_name")
        parts = [op.SerializeToString(deterministic=True)]
        for operand in node.inputs:
            desc = _HOLE if operand is None else self._desc_of(operand)
            parts += (field_header(OpDef.INPUT_DESC_FIELD_NUMBER, len(desc)), desc)
        for value in node.outputs:
            desc = self._desc_of(value)
            parts += (field_header(OpDef.OUTPUT_DESC_FIELD_NUMBER, len(desc)), desc)
        if behind is not None:
            parts.append(behind.SerializeToString(deterministic=True))
        return parts

    def _shared_part(self, node: Node, ge_type: str) -> OpDef:
        """What a node has in common with many others: to copy a message is several times faster than to set its
        attributes.
        """
        key = (ge_type, node.op_type, node.domain, node.engine, node.passes, node.name in self._tasks)
        op = self._shared.get(key)
        if op is not None:
            return op
        op = self._shared[key] = OpDef(type=ge_type)
        if node.passes:
            attrs.set_attr(op.attr["_atcpy_passes"], node.passes)
        if ge_type != node.op_type:
            op.attr["_atcpy_op_type"].s = node.op_type.encode()
        if node.domain:
            op.attr["_atcpy_domain"].s = node.domain.encode()
        if node.engine is not None:
            op.attr["_lxfusion_engine_name"].s = node.engine.value.encode()
            op.attr["_ge_attr_op_kernel_lib_name"].s = KERNEL_LIB[node.engine].encode()
            op.attr["_lxfusion_op_kernel_lib_name"].s = KERNEL_LIB[node.engine].encode()
        if node.name not in self._tasks:
            op.attr["_no_task"].b = True
        return op

    def _type_of(self, node: Node) -> str:
        if node.op_type == "Const" and self._placement.in_files:
            weight = self._weights.get(node.output.name)
            if weight is not None and weight.offset in self._placement.in_files and weight.nbytes:
                return FILE_CONSTANT
        return _ge_type(node)

    def _desc_of(self, value: Value) -> bytes:
        """The desc of a value, which is the same on both ends."""
        found = self._written.get(value)
        if found is None:
            if value.desc.dtype is DType.STRING and value.tensor is not None:
                text = weights.tensor_to_bytes(value.tensor, value.desc)
                unnamed = descs.desc_to_proto(value.desc, text_bytes=len(text)).SerializeToString(deterministic=True)
            else:
                unnamed = self._unnamed(value.desc)
            found = self._written[value] = _named(value.name) + unnamed
        return found

    def _unnamed(self, desc: TensorDesc) -> bytes:
        found = self._descs.get(desc)
        if found is None:
            found = self._descs[desc] = descs.desc_to_proto(desc).SerializeToString(deterministic=True)
        return found

    def _write_operands(self, node: Node, op: OpDef) -> None:
        for value in node.outputs:
            readers = value.uses
            op.dst_name.append(":".join([use.node.name for use in readers]))
            op.dst_index.extend([use.input_index for use in readers])
        for operand in node.inputs:
            if operand is None:
                op.input.append("")
                op.is_input_const.append(False)
                continue
            producer, index = operand.producer, operand.index
            op.input.append(f"{producer.name}:{index}")
            op.is_input_const.append(producer.op_type == "Const")
            op.src_name.append(producer.name)
            op.src_index.append(index)

    def _write_attrs(self, node: Node, op: OpDef, graphs: list[Graph]) -> None:
        notes: dict[str, list[str]] = defaultdict(list)
        for name, value in node.attrs.items():
            if isinstance(value, Tensor):
                if node.op_type == "Const" and name == "value":
                    self._write_constant(node.output, value, op)
                    continue
                notes["_atcpy_tensors"].append(name)
                value = attrs.tensor_to_text(value)
            elif isinstance(value, tuple) and value and isinstance(value[0], Tensor):
                notes["_atcpy_tensors"].append(name)
                value = tuple(attrs.tensor_to_text(item) for item in value if isinstance(item, Tensor))
            elif isinstance(value, Graph):
                notes["_atcpy_graphs"].append(name)
                value = _enlist(value, op, graphs)
            elif isinstance(value, tuple) and value and isinstance(value[0], Graph):
                notes["_atcpy_graphs"].append(name)
                value = tuple(_enlist(item, op, graphs) for item in value if isinstance(item, Graph))
            elif isinstance(value, TypeProto):
                notes["_atcpy_types"].append(name)
                value = value.SerializeToString(deterministic=True).hex()
            elif value == ():
                notes["_atcpy_empty_lists"].append(name)
                continue
            attrs.set_attr(op.attr[name], value)
        if node.sources:
            attrs.set_attr(op.attr["_datadump_original_op_names"], node.sources)
        for name, names in notes.items():
            attrs.set_attr(op.attr[name], names)

    def _write_constant(self, value: Value, tensor: Tensor, op: OpDef) -> None:
        weight = self._weights.get(value.name)
        if op.type == FILE_CONSTANT and weight is not None:
            file, offset = self._placement.in_files[weight.offset]
            op.attr["location"].s = file.location.encode(errors="surrogateescape")
            op.attr["offset"].i = offset
            op.attr["length"].i = weight.nbytes
            # Not `value`: Netron shows that a tensor without bytes lacks them.
            op.attr["_atcpy_value_desc"].s = self._unnamed(weight.desc).hex().encode()
            return
        stored = op.attr["value"].t
        if weight is None:  # read by nobody at run time: shapes, axes and the like
            stored.desc.MergeFromString(self._desc_of(value))
            if self._has_data:
                stored.data = bytes(weights.tensor_to_bytes(tensor, value.desc))
                stored.desc.weight_size = len(stored.data)
        else:
            stored.desc.MergeFromString(_named(value.name) + self._unnamed(weight.desc))
            stored.desc.data_offset = self._placement.moved(weight.offset)
            stored.desc.weight_size = weight.nbytes

    def _write_tasks(self, node: Node, op: OpDef) -> None:
        """Where its operands lie, as far as its tasks' operands are its own, in order."""
        tasks = self._tasks.get(node.name)
        if tasks is None:
            return
        op.stream_id = tasks[0].stream
        if len(tasks[0].src) == node.input_count:
            op.input_i.extend(map(self._offset_of, tasks[0].src))
        if len(tasks[-1].dst) == len(node.outputs):
            op.output_i.extend(slot.offset for slot in tasks[-1].dst)

    def _offset_of(self, slot: Slot | None) -> int:
        if slot is None:
            return 0
        return self._placement.moved(slot.offset) if slot.region is Region.WEIGHTS else slot.offset


def _named(name: str) -> bytes:
    """What the desc of a value begins with."""
    text = name.encode()
    return field_header(TensorDescriptor.NAME_FIELD_NUMBER, len(text)) + text if text else b""


def _enlist(graph: Graph, op: OpDef, graphs: list[Graph]) -> str:
    """Queue a body for writing; the name under which it will be found."""
    name = _graph_name(graph, len(graphs))
    graphs.append(graph)
    op.subgraph_name.append(name)
    return name


def _ge_type(node: Node) -> str:
    opdef = find_opdef(node)
    return node.op_type if opdef is None else opdef.type_in_ge(node)
