"""Serialises a model without copying large constants.

protobuf builds a whole message before the first byte is written, and accepts no more than 2 GB. Fields of a message may
come in any order, so the constants come last, each message followed by the bytes of its data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import onnx

from atcpy.parsers.onnx.wire import GRAPH, INITIALIZER, RAW_DATA
from atcpy.rewrite.export import Constant, RewrittenModel
from atcpy.wire_format import field_header

MAX_MESSAGE = 2**31 - 1
ALIGNMENT = 4096  # of tensors in a data file: they can be mapped
SMALL_BYTES = 1024  # constants below stay in the model's file


@dataclass(slots=True)
class SerializedModel:
    """The parts of the model's file, and of the data file beside it, if it has one."""

    model: list[bytes | memoryview] = field(default_factory=list)
    data: list[bytes | memoryview] = field(default_factory=list)

    @property
    def model_bytes(self) -> int:
        """The size of the model's file."""
        return sum(map(len, self.model))

    @property
    def nbytes(self) -> int:
        """The size of both files."""
        return self.model_bytes + sum(map(len, self.data))


def serialize(rewritten: RewrittenModel, data_name: str, *, external: bool) -> SerializedModel:
    """Serialise a model. Constants go into the file `data_name` if `external` asks for that, or if the model's file
    would be larger than protobuf reads.
    """
    if not external:
        inline = SerializedModel(list(_model_parts(rewritten.model, rewritten.constants)))
        if inline.model_bytes <= MAX_MESSAGE:
            return inline
    result = SerializedModel()
    offset = 0
    constants: list[Constant] = []
    for constant in rewritten.constants:
        data = constant.data
        if data is None and len(constant.proto.raw_data) >= SMALL_BYTES:
            data = memoryview(constant.proto.raw_data)
        if data is None or len(data) < SMALL_BYTES:
            constants.append(constant)
            continue
        padding = -offset % ALIGNMENT
        result.data += [bytes(padding), data] if padding else [data]
        offset += padding
        constants.append(Constant(_pointing(constant.proto, data_name, offset, len(data))))
        offset += len(data)
    result.model.extend(_model_parts(rewritten.model, constants))
    return result


def _pointing(proto: onnx.TensorProto, location: str, offset: int, length: int) -> onnx.TensorProto:
    external = onnx.TensorProto(name=proto.name, data_type=proto.data_type, dims=proto.dims)
    external.doc_string = proto.doc_string
    external.metadata_props.extend(proto.metadata_props)
    external.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        external.external_data.add(key=key, value=str(value))
    return external


def _model_parts(model: onnx.ModelProto, constants: list[Constant]) -> Iterator[bytes | memoryview]:
    head = onnx.ModelProto()
    for descriptor, value in model.ListFields():
        if descriptor.name == "graph":
            continue
        if isinstance(value, int | str | bytes):
            setattr(head, descriptor.name, value)
        else:
            getattr(head, descriptor.name).extend(value)
    parts: list[bytes | memoryview] = []
    small: list[bytes] = [model.graph.SerializeToString()]  # what is written at once
    for constant in constants:
        message = constant.proto.SerializeToString()
        if constant.data is None:
            small += (field_header(INITIALIZER, len(message)), message)
            continue
        raw = field_header(RAW_DATA, len(constant.data))
        small += (field_header(INITIALIZER, len(message) + len(raw) + len(constant.data)), message, raw)
        parts += (b"".join(small), constant.data)
        small.clear()
    parts.append(b"".join(small))
    yield head.SerializeToString()
    yield field_header(GRAPH, sum(map(len, parts)))
    yield from parts
