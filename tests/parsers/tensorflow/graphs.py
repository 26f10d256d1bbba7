"""Builds TensorFlow graphs for tests, without TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import atcpy
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import (
    AttrValue,
    DataType,
    FunctionDef,
    GraphDef,
    NameAttrList,
    NodeDef,
    TensorProto,
    TensorShapeProto,
)

Array = npt.NDArray[Any]
NUMBERS: dict[str, int] = {
    "float32": DataType.DT_FLOAT,
    "float64": DataType.DT_DOUBLE,
    "float16": DataType.DT_HALF,
    "int64": DataType.DT_INT64,
    "int32": DataType.DT_INT32,
    "int16": DataType.DT_INT16,
    "int8": DataType.DT_INT8,
    "uint8": DataType.DT_UINT8,
    "uint16": DataType.DT_UINT16,
    "uint32": DataType.DT_UINT32,
    "uint64": DataType.DT_UINT64,
    "bool": DataType.DT_BOOL,
    "string": DataType.DT_STRING,
    "complex64": DataType.DT_COMPLEX64,
    "qint8": DataType.DT_QINT8,
    "quint8": DataType.DT_QUINT8,
    "qint32": DataType.DT_QINT32,
    "resource": DataType.DT_RESOURCE,
    "variant": DataType.DT_VARIANT,
}


@dataclass(frozen=True, slots=True)
class Type:
    """An attribute value of kind `type`."""

    name: str


@dataclass(frozen=True, slots=True)
class Function:
    """An attribute value of kind `func`."""

    name: str


def shape_proto(shape: Sequence[int | None] | None) -> TensorShapeProto:
    """Build a shape; None is an unknown size or rank."""
    if shape is None:
        return TensorShapeProto(unknown_rank=True)
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=-1 if size is None else size) for size in shape])


def tensor_proto(array: npt.ArrayLike, dtype: str = "") -> TensorProto:
    """Build a TensorProto."""
    values = np.asarray(array, dtype or None)
    return TensorProto(
        dtype=DataType.ValueType(NUMBERS[str(values.dtype)]),
        tensor_shape=shape_proto(values.shape),
        tensor_content=values.tobytes(),
    )


def attr_value(value: object) -> AttrValue:
    """Convert a bool, int, float, str, Type, Function, a list of these, or a message to an AttrValue."""
    attr = AttrValue()
    match value:
        case bool():
            attr.b = value
        case int():
            attr.i = value
        case float():
            attr.f = value
        case str():
            attr.s = value.encode()
        case Type(name):
            attr.type = DataType.ValueType(NUMBERS[name])
        case Function(name):
            attr.func.CopyFrom(NameAttrList(name=name))
        case TensorProto():
            attr.tensor.CopyFrom(value)
        case TensorShapeProto():
            attr.shape.CopyFrom(value)
        case list() | tuple():
            _fill_list(attr, value)
        case _:
            raise TypeError(value)
    return attr


def _fill_list(attr: AttrValue, items: Sequence[object]) -> None:
    attr.list.SetInParent()
    for item in items:
        single = attr_value(item)
        kind = single.WhichOneof("value")
        assert kind is not None
        field_of_list = getattr(attr.list, kind)
        content = getattr(single, kind)
        if hasattr(field_of_list, "add") and not isinstance(content, int | float | bytes):
            field_of_list.add().CopyFrom(content)
        else:
            field_of_list.append(content)


def node(op: str, name: str, *inputs: str, **attrs: object) -> NodeDef:
    """Build a NodeDef."""
    result = NodeDef(name=name, op=op, input=inputs)
    for key, value in attrs.items():
        result.attr[key].CopyFrom(attr_value(value))
    return result


@dataclass(slots=True)
class TfBuilder:
    """Builds a graph node by node; each method returns the name of the node's output."""

    graph: GraphDef = field(default_factory=GraphDef)
    applied: dict[str, int] = field(default_factory=dict)  # by pass, in the last conversion

    def add(self, op: str, *inputs: str, name: str = "", **attrs: object) -> str:
        """Add a node."""
        result = node(op, name or f"n{len(self.graph.node)}", *inputs, **attrs)
        self.graph.node.append(result)
        return result.name

    def input(self, name: str, dtype: str, shape: Sequence[int | None] | None) -> str:
        """Add a Placeholder."""
        return self.add("Placeholder", name=name, dtype=Type(dtype), shape=shape_proto(shape))

    def const(self, array: npt.ArrayLike, dtype: str = "", name: str = "") -> str:
        """Add a Const."""
        proto = tensor_proto(array, dtype)
        kind = np.asarray(array, dtype or None).dtype
        return self.add("Const", name=name, value=proto, dtype=Type(str(kind)))

    def strings(self, *texts: str, name: str = "", is_scalar: bool = False) -> str:
        """Add a Const of strings; only its value declares the type."""
        proto = TensorProto(dtype=DataType.DT_STRING, tensor_shape=shape_proto(() if is_scalar else (len(texts),)))
        proto.string_val.extend(text.encode() for text in texts)
        return self.add("Const", name=name, value=proto)

    def function(self, name: str, body: TfBuilder, arguments: Mapping[str, str], *results: str) -> Function:
        """Add a function with the nodes of `body` and arguments of these types.

        A node's name as input means its output 0; other outputs are named `node:output_name:index`.
        """
        definition = FunctionDef()
        definition.signature.name = name
        for argument, dtype in arguments.items():
            definition.signature.input_arg.add(name=argument, type=DataType.ValueType(NUMBERS[dtype]))
        names = {item.name for item in body.graph.node}
        for item in body.graph.node:
            copy = definition.node_def.add()
            copy.CopyFrom(item)
            for input_index, text in enumerate(item.input):
                copy.input[input_index] = f"{text}:output:0" if text in names else text
        for index, result in enumerate(results):
            definition.signature.output_arg.add(name=f"r{index}")
            definition.ret[f"r{index}"] = f"{result}:output:0" if result in names else result
        self.graph.library.function.append(definition)
        return Function(name)

    def run(
        self, folder: Path, feeds: Mapping[str, Array], *outputs: str, options: Mapping[str, Any] | None = None
    ) -> list[Array]:
        """Convert the graph, run it and return the outputs."""
        return self.converted(folder, *outputs, options=options)(feeds)

    def converted(
        self, folder: Path, *outputs: str, options: Mapping[str, Any] | None = None
    ) -> Callable[[Mapping[str, Array]], list[Array]]:
        """Convert the graph; return a function that runs it."""
        path = folder / "model.pb"
        path.write_bytes(self.graph.SerializeToString())
        package = folder / "model.om"
        names = {"out_nodes": ";".join(name if ":" in name else f"{name}:0" for name in outputs)}
        report = atcpy.convert(str(path), str(package), **{**names, **(options or {})})
        self.applied = {each.name: each.applied for each in report.passes}
        session = atcpy.InferenceSession(str(package))
        return lambda feeds: [np.asarray(array) for array in session.run(None, dict(feeds))]
