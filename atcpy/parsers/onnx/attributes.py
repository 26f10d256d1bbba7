"""AttributeProto → the value that a node of the IR carries."""

from collections.abc import Callable, Mapping

import onnx

from atcpy.errors import ModelInvalid, Where
from atcpy.parsers.onnx.external import ExternalData
from atcpy.parsers.onnx.tensors import read_sparse, read_tensor

_A = onnx.AttributeProto


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _tensors(attr: onnx.AttributeProto, external: ExternalData, where: Where) -> object:
    return tuple(read_tensor(item, external, where) for item in attr.tensors)


def _sparse_tensors(attr: onnx.AttributeProto, external: ExternalData, where: Where) -> object:
    return tuple(read_sparse(item, external, where) for item in attr.sparse_tensors)


# Plain values come first: nearly every attribute is one of them.
PLAIN: Mapping[int, Callable[[onnx.AttributeProto], object]] = {
    _A.INT: lambda attr: attr.i,
    _A.FLOAT: lambda attr: attr.f,
    _A.INTS: lambda attr: tuple(attr.ints),
    _A.FLOATS: lambda attr: tuple(attr.floats),
    _A.STRING: lambda attr: _text(attr.s),
    _A.STRINGS: lambda attr: tuple(_text(item) for item in attr.strings),
    _A.TYPE_PROTO: lambda attr: attr.tp,
    _A.TYPE_PROTOS: lambda attr: tuple(attr.type_protos),
}
_WITH_DATA: Mapping[int, Callable[[onnx.AttributeProto, ExternalData, Where], object]] = {
    _A.TENSOR: lambda attr, external, where: read_tensor(attr.t, external, where),
    _A.SPARSE_TENSOR: lambda attr, external, where: read_sparse(attr.sparse_tensor, external, where),
    _A.TENSORS: _tensors,
    _A.SPARSE_TENSORS: _sparse_tensors,
}


def read_attribute(attr: onnx.AttributeProto, external: ExternalData, where: Where) -> object:
    """The value of an attribute that is neither plain nor a graph."""
    with_data = _WITH_DATA.get(attr.type)
    if with_data is None:
        raise ModelInvalid("E13014", f"attribute {attr.name} has no type", where=where)
    return with_data(attr, external, where)
