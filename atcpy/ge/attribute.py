"""Attributes of operators: Python values to and from ONNX's messages."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

from atcpy.ir.dtype import DType


def attribute_type(kind: int) -> str:
    """The name of a type of attributes."""
    return AttributeProto.AttributeType.Name(kind)


def write_attribute(name: str, kind: int, value: object) -> AttributeProto:
    """The message that holds a value. Raises TypeError, ValueError or OverflowError if it is not of that type."""
    return helper.make_attribute(name, _READERS[kind](value), attr_type=kind)


def read_attribute(proto: AttributeProto) -> Any:
    """The value in a message."""
    value = helper.get_attribute_value(proto)
    match proto.type:
        case AttributeProto.TENSOR:
            return numpy_helper.to_array(value)
        case AttributeProto.STRING:
            return value.decode()
        case AttributeProto.STRINGS:
            return [item.decode() for item in value]
        case AttributeProto.INTS | AttributeProto.FLOATS:
            return list(value)
        case _:
            return value


def _integer(value: object) -> int:
    return value.onnx if isinstance(value, DType) else operator.index(value)  # type: ignore[arg-type]


def _real(value: object) -> float:
    if isinstance(value, str | bytes):
        raise TypeError("a text is no number")
    return float(value)  # type: ignore[arg-type]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _list_of(read: Callable[[object], object]) -> Callable[[object], object]:
    def read_list(value: object) -> object:
        if isinstance(value, str):
            raise TypeError("a text is no list")
        return [read(item) for item in value]  # type: ignore[attr-defined]

    return read_list


def _tensor(value: object) -> onnx.TensorProto:
    array = np.asarray(value)
    if array.dtype == np.object_ and not all(isinstance(item, str | bytes) for item in array.flat):
        raise TypeError("not an array of numbers or texts")
    return numpy_helper.from_array(array)


def _message(value: object) -> object:
    if not isinstance(value, onnx.TypeProto | onnx.SparseTensorProto):
        raise TypeError("not a message of ONNX")
    return value


_READERS: dict[int, Callable[[object], Any]] = {
    AttributeProto.INT: _integer,
    AttributeProto.INTS: _list_of(_integer),
    AttributeProto.FLOAT: _real,
    AttributeProto.FLOATS: _list_of(_real),
    AttributeProto.STRING: _text,
    AttributeProto.STRINGS: _list_of(_text),
    AttributeProto.TENSOR: _tensor,
    AttributeProto.TYPE_PROTO: _message,
    AttributeProto.SPARSE_TENSOR: _message,
}
