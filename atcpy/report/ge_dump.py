"""GE's dumps of graphs, for which its users set environment variables.

    DUMP_GE_GRAPH       1: all; 2: without the data of constants; 3: nodes and edges only; others: no dump
    DUMP_GRAPH_LEVEL    1: all stages; 2: those of GE's list, the default; 3: Build; 4: PreRunBegin;
                        or parts of names of stages, "Prepare|Build"
    DUMP_GRAPH_FORMAT   ge_proto|onnx, which is the default, or one of them
    NPU_COLLECT_PATH    folder; dumps are in extra-info/graph/<process>_0 below it
    DUMP_GRAPH_PATH     folder; dumps are in pid_<process>_deviceid_0 below it
    ASCEND_WORK_PATH    the same, if the others are not set; without any, dumps are in the folder of --debug_dir, or in
                        the working directory

Files are `ge_proto_00000000_graph_0_PreRunBegin.txt`, a ModelDef, and `ge_onnx_00000000_graph_0_PreRunBegin.pbtxt`, an
ONNX model whose nodes are of GE's types; both in protobuf's text form. Each form has a counter of its own.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from itertools import count, zip_longest
from pathlib import Path

import onnx
from google.protobuf import text_format
from google.protobuf.message import Message
from onnx import helper

from atcpy.errors import Unsupported, UsageError, did_you_mean
from atcpy.ir import Graph
from atcpy.om.atomic import atomic_write
from atcpy.om.schema.ge_ir_pb2 import AttrDef, DataType, GraphDef, ModelDef, OpDef, TensorDescriptor
from atcpy.om.writer import describe

SWITCH, LEVEL, FORMAT = "DUMP_GE_GRAPH", "DUMP_GRAPH_LEVEL", "DUMP_GRAPH_FORMAT"
_LISTED = frozenset({"PreRunBegin", "PreRunAfterPrepare", "PreRunAfterOptimizeSubgraph", "Build"})
_SINGLE = {"3": "Build", "4": "PreRunBegin"}


class Content(IntEnum):
    """How much of a graph is dumped."""

    ALL = 1
    WITHOUT_DATA = 2
    EDGES = 3


class Form(Enum):
    """The forms of a dump, by their names in the environment."""

    PROTO = "ge_proto"
    ONNX = "onnx"


_FILES = {Form.PROTO: ("ge_proto", "txt"), Form.ONNX: ("ge_onnx", "pbtxt")}
_dumped: Counter[Form] = Counter()  # of this process, as GE counts


@dataclass(frozen=True, slots=True)
class GeDumps:
    """What the environment asks for. `stages` are parts of names, of which one must be in that of a stage."""

    content: Content
    stages: tuple[str, ...]
    forms: tuple[Form, ...]
    folder: Path
    is_exact: bool = False  # the stages are whole names
    number: int = field(default_factory=count().__next__)  # of the conversion in this process

    def write(self, stage: str, graph: Graph) -> None:
        """Write the graph of a stage, if it is dumped."""
        if not (stage in self.stages if self.is_exact else any(part in stage for part in self.stages)):
            return
        model = describe(graph, has_data=self.content is Content.ALL)
        if self.content is Content.EDGES:
            _strip(model)
        for form in self.forms:
            name, suffix = _FILES[form]
            path = self.folder / f"{name}_{_dumped[form]:08}_graph_{self.number}_{stage}.{suffix}"
            _dumped[form] += 1
            message: Message = model if form is Form.PROTO else onnx_model(model)
            atomic_write(path, [text_format.MessageToString(message, as_utf8=True).encode("utf-8", "backslashreplace")])


def ge_dumps(environment: Mapping[str, str], folder: Path = Path()) -> GeDumps | None:
    """What an environment asks for; None is no dump. They are written to `folder` if the environment names none.

    Raises UsageError (E13024) for variables with other values.
    """
    switch = environment.get(SWITCH, "")
    if not switch:
        return None
    if not switch.isdecimal():
        raise UsageError("E13024", f'{SWITCH}="{switch}" is not a number: 1, 2 or 3 dump graphs')
    if int(switch) not in list(Content):
        return None
    stages, is_exact = _stages(environment.get(LEVEL) or "2")
    return GeDumps(
        Content(int(switch)),
        stages,
        _forms(environment.get(FORMAT) or "ge_proto|onnx"),
        _folder(environment, folder),
        is_exact,
    )


def _stages(level: str) -> tuple[tuple[str, ...], bool]:
    """Names of stages, and whether they are whole."""
    if not level.isdecimal():
        return tuple(part for part in level.split("|") if part), False
    if level not in ("1", "2", *_SINGLE):
        raise UsageError("E13024", f"{LEVEL}={level} is not 1, 2, 3, 4 or names of stages")
    if level == "1":
        return ("",), False
    return (tuple(_LISTED), True) if level == "2" else ((_SINGLE[level],), True)


def _forms(text: str) -> tuple[Form, ...]:
    known = {form.value: form for form in Form}
    names = [name.strip().lower() for name in text.split("|")]
    for name in names:
        if name == "readable":
            hint = "atcpy convert --dump_graph DIR writes graphs to read"
            raise Unsupported("E10055", f"{FORMAT}: readable is not supported", hint=hint)
        if name not in known:
            hint = did_you_mean(name, known)
            raise UsageError("E13024", f'{FORMAT}: "{name}" is neither {" nor ".join(known)}', hint=hint)
    return tuple(dict.fromkeys(known[name] for name in names))


def _folder(environment: Mapping[str, str], default: Path) -> Path:
    process = os.getpid()
    if collected := environment.get("NPU_COLLECT_PATH"):
        return Path(collected) / "extra-info" / "graph" / f"{process}_0"
    if folder := environment.get("DUMP_GRAPH_PATH") or environment.get("ASCEND_WORK_PATH"):
        return Path(folder) / f"pid_{process}_deviceid_0"
    return default


def _strip(model: ModelDef) -> None:
    """Leave nothing but nodes and edges."""
    model.ClearField("attr")
    for graph in model.graph:
        for op in graph.op:
            kept = OpDef(name=op.name, type=op.type, input=op.input, id=op.id, subgraph_name=op.subgraph_name)
            kept.src_name.extend(op.src_name)
            kept.src_index.extend(op.src_index)
            kept.dst_name.extend(op.dst_name)
            kept.dst_index.extend(op.dst_index)
            op.CopyFrom(kept)


def onnx_model(model: ModelDef) -> onnx.ModelProto:
    """A model of GE as an ONNX model to look at: nodes of the types `ge:Conv2D`, values named `node:0`. Graphs behind
    the first are those of attributes of nodes of the first, by name.
    """
    graphs = {graph.name: graph for graph in model.graph}
    return helper.make_model(_onnx_graph(model.graph[0], graphs), producer_name="GE")


def _onnx_graph(graph: GraphDef, graphs: Mapping[str, GraphDef]) -> onnx.GraphProto:
    inputs: list[onnx.ValueInfoProto] = []
    outputs: list[onnx.ValueInfoProto] = []
    for op in graph.op:
        if op.type == "Data":
            inputs += _onnx_ports([f"{op.name}:0"], op.output_desc)
        elif op.type == "NetOutput":
            outputs += _onnx_ports(op.input, op.input_desc)
    return helper.make_graph([_onnx_node(op, graphs) for op in graph.op], graph.name, inputs, outputs)


def _onnx_ports(names: Sequence[str], descs: Sequence[TensorDescriptor]) -> Iterator[onnx.ValueInfoProto]:
    """Yield inputs or outputs, without a type where the dump has none."""
    for name, desc in zip_longest(names, descs):
        if desc is None:
            yield onnx.ValueInfoProto(name=name)
            continue
        dtype = _ONNX_TYPES.get(DataType.Name(desc.dtype), onnx.TensorProto.UNDEFINED)
        yield helper.make_tensor_value_info(name, dtype, [dim if dim >= 0 else None for dim in desc.shape.dim])


def _onnx_node(op: OpDef, graphs: Mapping[str, GraphDef]) -> onnx.NodeProto:
    outputs = [f"{op.name}:{index}" for index in range(max(len(op.output_desc), len(op.dst_name)))]
    node = helper.make_node(f"ge:{op.type}", list(op.input), outputs, op.name)
    for side, descs in (("input", op.input_desc), ("output", op.output_desc)):
        for index, desc in enumerate(descs):
            node.attribute.append(helper.make_attribute(f"{side}_desc_dtype:{index}", DataType.Name(desc.dtype)))
            node.attribute.append(
                helper.make_attribute(
                    f"{side}_desc_shape:{index}", list(desc.shape.dim), attr_type=onnx.AttributeProto.INTS
                )
            )
            node.attribute.append(helper.make_attribute(f"{side}_desc_layout:{index}", desc.layout))
    for name in sorted(op.attr):
        node.attribute.append(_onnx_attribute(name, op.attr[name]))
    for number, name in enumerate(op.subgraph_name):
        if name in graphs:
            node.attribute.append(helper.make_attribute(f"subgraph:{number}", _onnx_graph(graphs[name], graphs)))
    return node


def _onnx_attribute(name: str, attr: AttrDef) -> onnx.AttributeProto:
    """Numbers and texts as what they are, all else as protobuf writes it."""
    kind = attr.WhichOneof("value")
    if kind in ("s", "i", "f"):
        return helper.make_attribute(name, getattr(attr, kind))
    if kind == "b":
        return helper.make_attribute(name, int(attr.b))
    return helper.make_attribute(name, text_format.MessageToString(attr, as_one_line=True))


_ONNX_TYPES: Mapping[str, int] = {
    **{"DT_" + name: value for name, value in onnx.TensorProto.DataType.items()},
    "DT_BF16": onnx.TensorProto.BFLOAT16,
}
