"""Frozen graphs for `atcpy freeze`: variables become constants, whose elements are copied from the checkpoint files.

VarHandleOp → Const, ReadVariableOp → Identity, ResourceGather → GatherV2, in the functions that get handles, too. A
lookup table gets a node that initialises it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any, Final

import numpy as np

from atcpy.errors import AtcError, ResourceLimit, Unsupported, Where, raise_all
from atcpy.ir import DType, Tensor
from atcpy.parsers.tensorflow.functions import CALLS
from atcpy.parsers.tensorflow.graph import Ref, TfNode, output_number
from atcpy.parsers.tensorflow.handles import NO_LONGER_TRUE, Functions, Rewriter, as_type, main_text
from atcpy.parsers.tensorflow.messages import MAX_BYTES
from atcpy.parsers.tensorflow.model import TfModel
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import (
    DataType,
    NodeDef,
    TensorProto,
    TensorShapeProto,
)
from atcpy.parsers.tensorflow.tables import TABLES
from atcpy.parsers.tensorflow.variables import VARIABLES

_NAME: Final = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
Buffer = bytes | memoryview


@dataclass(slots=True)
class FrozenGraph:
    """The pieces of the file in order, their size, and what the graph has."""

    pieces: list[bytes | Tensor] = field(default_factory=list)
    nbytes: int = 0
    node_count: int = 0
    variables: list[str] = field(default_factory=list)
    weight_bytes: int = 0
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    def buffers(self) -> Iterator[Buffer]:
        """Yield the bytes of the file; weights are read only now."""
        for kind, pieces in groupby(self.pieces, type):
            if kind is bytes:
                yield b"".join(pieces)  # type: ignore[arg-type]
            else:
                yield from map(_content, pieces)  # type: ignore[arg-type]

    def put(self, piece: bytes | Tensor) -> None:
        """Append a piece."""
        self.pieces.append(piece)
        self.nbytes += len(piece) if isinstance(piece, bytes) else _size(piece)


def freeze_graph(model: TfModel) -> FrozenGraph:
    """Turn the variables of a model into constants; raise all problems at once."""
    return _Freezer(model).run()


class _Freezer:
    def __init__(self, model: TfModel) -> None:
        self._model = model
        self._problems: list[AtcError] = []
        self._functions = Functions(model.library, self._problems)
        self._graph = FrozenGraph()
        self._names = {node.name: node.name for node in model.graph.nodes.values()}
        self._used = set(self._names)

    def run(self) -> FrozenGraph:
        model = self._model
        for name, node in model.ends.inputs.items():  # by the names that users know
            if self._is_free(name):
                self._names[node.name] = name
                self._used.add(name)
            self._graph.inputs.append(self._names[node.name])
        nodes = model.graph.nodes
        protos = [(node, self._proto(node)) for node in nodes.values()]
        rewriter = Rewriter([proto for _, proto in protos], {}, main_text, self._functions, self._problems)
        for node, proto in protos:
            if node.op in VARIABLES:
                self._variable(node, proto)
            else:
                for rewritten in rewriter.rewrite(proto):
                    self._message(b"\x0a", rewritten.SerializeToString())
                    self._graph.node_count += 1
                if node.op in TABLES:
                    self._table(node, proto)
        for name, ref in model.ends.outputs.items():
            self._output(name, ref)
        library = self._functions.library()
        raise_all(self._problems)
        self._message(b"\x12", library.SerializeToString())
        self._message(b"\x22", model.file.graph.versions.SerializeToString())
        if self._graph.nbytes > MAX_BYTES:
            what = f"the frozen graph would have {self._graph.nbytes / 1e9:.1f} GB, a .pb holds 2 GB at most"
            raise ResourceLimit("E13023", what, hint="convert the model itself: atcpy convert")
        return self._graph

    def _is_free(self, name: str) -> bool:
        return name not in self._used and _NAME.fullmatch(name) is not None

    def _text(self, ref: Ref) -> str:
        name = self._names.get(ref.node, ref.node)
        return main_text(name, "", ref.output)

    def _proto(self, node: TfNode) -> NodeDef:
        """The node under its new names, without devices, and without control edges from nodes that are removed."""
        proto = NodeDef()
        if node.proto is not None:
            proto.CopyFrom(node.proto)
        proto.name, proto.op, proto.device = self._names[node.name], node.op, ""
        del proto.input[:]
        proto.input.extend(self._text(ref) for ref in node.inputs)
        proto.input.extend(f"^{self._names[name]}" for name in node.controls if name in self._names)
        for name in NO_LONGER_TRUE:
            proto.attr.pop(name, None)
        if node.proto is None:  # an input of the signature
            proto.attr["dtype"].type = as_type(node.attrs["dtype"])
            shape = node.attrs.get("shape")
            if isinstance(shape, TensorShapeProto):
                proto.attr["shape"].shape.CopyFrom(shape)
        frame = node.attrs.get("frame_name")
        if isinstance(frame, bytes):
            proto.attr["frame_name"].s = frame
        if any(value.WhichOneof("value") == "placeholder" for value in proto.attr.values()):
            where = Where(node=node.name, op=node.op)
            self._problems.append(Unsupported("E10055", "a function with attributes of its own", where=where))
        return proto

    def _variable(self, node: TfNode, proto: NodeDef) -> None:
        try:
            tensor = self._model.variables.find(node, Where(node=node.name, op=node.op))
        except AtcError as error:
            self._problems.append(error)
            return
        self._graph.variables.append(node.name)
        self._graph.weight_bytes += _size(tensor)
        self._const(proto.name, tensor, as_type(node.attrs["dtype"]))

    def _table(self, node: TfNode, proto: NodeDef) -> None:
        """The node that initialises a table, and its constants: TensorFlow runs it before the graph, by its name."""
        try:
            table = self._model.tables.find(node, Where(node=node.name, op=node.op))
        except AtcError as error:
            self._problems.append(error)
            return
        name = proto.name
        op = "InitializeTableV2" if node.op.endswith("V2") else "InitializeTable"
        initialise = NodeDef(name=f"{name}/initialize", op=op, input=[name, f"{name}/keys", f"{name}/values"])
        for part, kind, tensor in (("keys", "key", table.keys), ("values", "value", table.values)):
            number = node.proto.attr[f"{kind}_dtype"].type if node.proto is not None else as_type(0)
            initialise.attr["Tkey" if kind == "key" else "Tval"].type = number
            self._const(f"{name}/{part}", tensor, number)
        self._message(b"\x0a", initialise.SerializeToString())
        self._graph.node_count += 1

    def _const(self, name: str, tensor: Tensor, number: DataType) -> None:
        """A node whose elements are read when the file is written, but for texts."""
        self._graph.node_count += 1
        value = TensorProto(dtype=number)
        value.tensor_shape.dim.extend(TensorShapeProto.Dim(size=size) for size in tensor.shape)
        const = NodeDef(name=name, op="Const")
        const.attr["dtype"].type = number
        if tensor.dtype is DType.STRING:
            value.string_val.extend(text.encode("utf-8", "surrogateescape") for text in tensor.array.reshape(-1))
            const.attr["value"].tensor.CopyFrom(value)
            self._message(b"\x0a", const.SerializeToString())
        else:
            self._constant(const.SerializeToString(), value.SerializeToString(), tensor)

    def _constant(self, node: bytes, value: bytes, tensor: Tensor) -> None:
        """A node whose attribute `value` ends in the elements: node { attr { key, value { tensor { content }}}}."""
        size = _size(tensor)
        heads = [value + b"\x22" + _varint(size)]
        for head in (b"\x42", b"\x0a\x05value\x12", node + b"\x2a", b"\x0a"):
            inner = sum(map(len, heads)) + size
            heads.insert(0, head + _varint(inner))
        self._graph.put(b"".join(heads))
        self._graph.put(tensor)

    def _message(self, tag: bytes, content: bytes) -> None:
        self._graph.put(tag + _varint(len(content)) + content)

    def _output(self, name: str, ref: Ref) -> None:
        """Give an output its name: where no node has it, an Identity is added that has."""
        text = self._text(ref)
        if name in (text, f"{text}:0"):
            self._graph.outputs.append(text if ":" in text else f"{text}:0")
            return
        requested = name.removesuffix(":0")
        number = self._type_of(name)
        if number is None or not self._is_free(requested.replace(":", "_")):
            self._graph.outputs.append(text if ":" in text else f"{text}:0")
            return
        identity = NodeDef(name=requested.replace(":", "_"), op="Identity", input=[text])
        identity.attr["T"].type = as_type(number)
        self._used.add(identity.name)
        self._message(b"\x0a", identity.SerializeToString())
        self._graph.node_count += 1
        self._graph.outputs.append(f"{identity.name}:0")

    def _type_of(self, name: str) -> int | None:
        """The type of an output, by the signature, or by the call whose result it is."""
        signature = self._model.file.signature
        if signature is not None and name in signature.outputs:
            return int(signature.outputs[name].dtype)
        node, _, index = name.rpartition(":")
        types = self._result_types.get(node, ())
        number = output_number(index)
        return types[number] if number is not None and number < len(types) else None

    @cached_property
    def _result_types(self) -> Mapping[str, Sequence[int]]:
        """The types of the results of each call in the main graph."""
        nodes = self._model.file.graph.node
        return {node.name: list(node.attr["Tout"].list.type) for node in nodes if node.op in CALLS}


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _size(tensor: Tensor) -> int:
    return math.prod(tensor.shape) * tensor.dtype.numpy.itemsize


def _content(tensor: Tensor) -> memoryview:
    array: Any = np.ascontiguousarray(tensor.array).reshape(-1)
    return memoryview(array.view(np.uint8)) if array.size else memoryview(b"")
