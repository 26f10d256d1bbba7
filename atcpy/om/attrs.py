"""Attributes of nodes and models: Python values and `AttrDef`, back and forth.

Kinds are those that Netron shows: s, i, f, b and lists of them. What has no such kind is kept exactly by a note: an
attribute that holds a tensor is its text (`f32[2] [0.5, 1.0]`) and is named in `_atcpy_tensors`, one that holds the
type of a value is its bytes in hex and is named in `_atcpy_types`, an empty list is left out and named in
`_atcpy_empty_lists`; a graph is a `GraphDef` of the model, named in the node's `subgraph_name`.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from atcpy.errors import Unsupported
from atcpy.ir import DType, Tensor
from atcpy.om.schema.ge_ir_pb2 import AttrDef

if TYPE_CHECKING:
    from onnx import TypeProto

_LIST = AttrDef.ListValue
_SCALARS = frozenset({"i", "f", "b"})
_LIST_STRING = _LIST.VT_LIST_STRING  # each access to a name of an enum of protobuf is a search
_LISTS = {_LIST.VT_LIST_INT: "i", _LIST.VT_LIST_FLOAT: "f", _LIST.VT_LIST_BOOL: "b"}


def set_attr(attr: AttrDef, value: object) -> None:
    """Store a scalar or a non-empty tuple or list of scalars of one kind; TypeError for anything else."""
    match value:
        case bool():
            attr.b = value
        case int():
            attr.i = value
        case float():
            attr.f = value
        case str():
            attr.s = value.encode(errors="surrogateescape")
        case bytes():
            attr.s = value
        case tuple() | list():
            _set_list(attr.list, value)
        case _:
            raise TypeError(f"{type(value).__name__} is no attribute of a package")


def _set_list(target: _LIST, items: Sequence[Any]) -> None:
    target.val_type = kind = _list_kind(frozenset(map(type, items)))
    match kind:
        case _LIST.VT_LIST_STRING:
            texts = [item.encode(errors="surrogateescape") if isinstance(item, str) else item for item in items]
            target.s.extend(texts)
        case _LIST.VT_LIST_BOOL:
            target.b.extend(items)
        case _LIST.VT_LIST_INT:
            target.i.extend(items)
        case _:  # _list_kind knows no other
            target.f.extend(items)


@lru_cache(64)
def _list_kind(kinds: frozenset[type]) -> _LIST.ListValueType:
    """The kind of a list whose items are of these types."""
    expected: tuple[tuple[_LIST.ListValueType, tuple[type, ...]], ...] = (
        (_LIST.VT_LIST_STRING, (str, bytes)),
        (_LIST.VT_LIST_BOOL, (bool,)),
        (_LIST.VT_LIST_INT, (int,)),
        (_LIST.VT_LIST_FLOAT, (int, float)),
    )
    for kind, types in expected:
        if all(issubclass(own, types) for own in kinds):
            return kind
    raise TypeError(f"a list of {sorted(own.__name__ for own in kinds)} is no attribute of a package")


def get_attr(attr: AttrDef) -> object:
    """The value that `set_attr` stored; lists come back as tuples. ValueError for a kind that it does not store."""
    kind = attr.WhichOneof("value")
    if kind == "s":
        return _text(attr.s)
    if kind == "list":
        return _get_list(attr.list)
    if kind in _SCALARS:
        return getattr(attr, kind)
    raise ValueError(f"attribute of kind {kind}")


def _get_list(stored: _LIST) -> tuple[object, ...]:
    kind = stored.val_type
    if kind == _LIST_STRING:
        return tuple([_text(item) for item in stored.s])
    if kind in _LISTS:
        return tuple(getattr(stored, _LISTS[kind]))
    raise ValueError(f"list of kind {kind}")


def _text(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def tensor_to_text(tensor: Tensor) -> str:
    """`f32[2] [0.5, 1.0]`: every element exactly, for attributes, which are small."""
    array = tensor.array.reshape(-1)
    if tensor.dtype is DType.STRING:
        items: list[object] = [i if isinstance(i, str) else bytes(i).decode(errors="surrogateescape") for i in array]
    elif np.issubdtype(array.dtype, np.complexfloating):
        items = [[float(item.real), float(item.imag)] for item in array]
    elif tensor.dtype.is_float:
        items = [float(item) for item in array]
    else:
        items = [bool(item) if tensor.dtype is DType.BOOL else int(item) for item in array]
    return f"{tensor.dtype.short}{json.dumps(list(tensor.shape))} {json.dumps(items)}"


def text_to_type(text: str) -> "TypeProto":
    """The type that was written; ValueError if none was. Raises Unsupported (E10055) if `onnx` is not installed."""
    from google.protobuf.message import DecodeError

    try:
        from onnx import TypeProto
    except ModuleNotFoundError as error:
        what = f"a node has an attribute that is a type of ONNX, which is not installed: {error}"
        raise Unsupported("E10055", what, hint="pip install onnx, or atcpy in place of atcpy-runtime") from error

    try:
        return TypeProto.FromString(bytes.fromhex(text))
    except DecodeError as error:
        raise ValueError(f"not the bytes of a type: {error}") from error


_BY_SHORT = {dtype.short: dtype for dtype in DType}


def text_to_tensor(text: str) -> Tensor:
    """The tensor that `tensor_to_text` wrote; KeyError or ValueError if it did not."""
    short, _, rest = text.partition("[")
    dims, _, elements = rest.partition("] ")
    dtype = _BY_SHORT[short]
    shape = json.loads(f"[{dims}]")
    items = json.loads(elements)
    if not isinstance(items, list) or not all(isinstance(dim, int) and dim >= 0 for dim in shape):
        raise ValueError("not the text of a tensor")
    try:
        if dtype in (DType.COMPLEX64, DType.COMPLEX128):
            items = [complex(*item) for item in items]
        return Tensor.of(np.array(items, dtype.numpy).reshape(shape), dtype)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"not the text of a tensor: {error}") from error
