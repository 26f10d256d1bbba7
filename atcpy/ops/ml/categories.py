"""Ops on categories. Numbers are looked up by ops of the standard, texts in dictionaries on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Node, Reject, Rewriter, Tensor, TensorDesc, Value
from atcpy.ir.tensor import Array
from atcpy.ops.core.opdef import Evaluate, Expand, Infer, Known, OpDef, register_operator
from atcpy.ops.ml.record import DOMAIN

_MAX_COMPARED = 1024  # categories that each number is compared with; more are looked up on the host
_KINDS = ("strings", "int64s", "floats")
_DEFAULTS: Mapping[str, Any] = {"strings": "_Unused", "int64s": -1, "floats": -0.0}
_TYPES = {"strings": np.object_, "int64s": np.int64, "floats": np.float32}


# --- LabelEncoder --------------------------------------------------------------------------------


def infer_label_encoder(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The shape of the input, in the type of the values. Raises ModelInvalid if only keys or elements are texts."""
    keys, values, _ = _mapping(node)
    desc = node.operand(0).desc
    if desc.dtype is not DType.UNDEFINED and (desc.dtype is DType.STRING) != (keys.dtype == np.object_):
        kind = DType.from_numpy(keys.dtype).long
        raise ModelInvalid("E13014", f"keys of {kind} for elements of {desc.dtype.long}", where=node)
    return [TensorDesc.plain(DType.from_numpy(values.dtype), desc.shape)]


def evaluate_label_encoder(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Each element by a dictionary; of equal keys the first counts, and NaN is one."""
    keys, values, default = _mapping(node)
    table = {_key(key): value for key, value in zip(keys.tolist()[::-1], values.tolist()[::-1], strict=True)}
    return [_look_up(arrays[0], table, default, values.dtype)]


def expand_label_encoder(node: Node, rw: Rewriter) -> Sequence[Value] | Reject | None:
    """Compare a number with all keys, and take the value of the first that is equal."""
    keys, values, default = _mapping(node)
    x = node.operand(0)
    if values.dtype == np.object_ or x.desc.dtype is DType.STRING or len(keys) > _MAX_COMPARED:
        return Reject("dtype", node.name, "text" if values.dtype == np.object_ else x.desc.dtype.long)
    equal = _compare(rw, x, keys.astype(x.desc.dtype.numpy))
    found = rw.op("ReduceMax", equal, rw.const([-1], label="axis"), keepdims=0)
    value = rw.op("Gather", rw.const(values, label="values"), rw.op("ArgMax", equal, axis=-1, keepdims=0))
    is_known = rw.op("Greater", found, rw.like(0.0, found))
    return [rw.op("Where", is_known, value, rw.const(np.asarray(default, values.dtype), label="default"))]


def _mapping(node: Node) -> tuple[Array, Array, Any]:
    """Return keys, values and the value of what is no key. Raises ModelInvalid if there are not as many of both."""
    keys, _ = _list(node, "keys")
    values, kind = _list(node, "values")
    default = node.attrs.get(f"default_{kind.removesuffix('s')}", _DEFAULTS.get(kind))
    if isinstance(tensor := node.attrs.get("default_tensor"), Tensor) and tensor.array.size:
        default = tensor.array.reshape(-1).tolist()[0]
    elif default is None:
        default = {"O": "_Unused", "i": -1}.get(values.dtype.kind, -0.0)
    if len(keys) != len(values):
        raise ModelInvalid("E13014", f"{len(keys)} keys and {len(values)} values", where=node)
    return keys, values, default


def _list(node: Node, name: str) -> tuple[Array, str]:
    """Return the keys or values, and the kind that their attribute names."""
    if isinstance(tensor := node.attrs.get(f"{name}_tensor"), Tensor):
        return tensor.array.reshape(-1), "tensor"
    for kind in _KINDS:
        if f"{name}_{kind}" in node.attrs:
            return np.asarray(node.attrs[f"{name}_{kind}"], _TYPES[kind]), kind
    raise ModelInvalid("E13014", f"it has no {name}", where=node)


def _key(element: Any) -> Any:
    """Return an element as it is looked up: NaN equals NaN."""
    return None if element != element else element


def _look_up(x: Array | None, table: Mapping[Any, Any], default: Any, dtype: np.dtype[Any]) -> Array:
    assert x is not None
    elements = [table.get(_key(element), default) for element in x.reshape(-1).tolist()]
    return np.array(elements, dtype).reshape(x.shape)


def _compare(rw: Rewriter, x: Value, categories: Array) -> Value:
    """Return 1 where an element is the category of the new last dim, else 0, in float32."""
    column = rw.unsqueeze(x, -1)
    equal = rw.op("Equal", column, rw.const(categories, label="categories"))
    if categories.dtype.kind == "f" and np.isnan(categories).any():
        equal = rw.op("Or", equal, rw.op("And", rw.op("IsNaN", column), rw.const(np.isnan(categories), label="is_nan")))
    return rw.cast(equal, DType.FLOAT32)


# --- CategoryMapper ------------------------------------------------------------------------------


def infer_category_mapper(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The shape of the input; texts become numbers, numbers texts."""
    x = node.operand(0).desc
    return [TensorDesc.plain(DType.INT64 if x.dtype is DType.STRING else DType.STRING, x.shape)]


def evaluate_category_mapper(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Each text by its number, or each number by its text."""
    x = np.asarray(arrays[0])
    texts, numbers = node.attrs.get("cats_strings", ()), node.ints_attr("cats_int64s")
    assert isinstance(texts, tuple)
    if len(texts) != len(numbers):
        raise ModelInvalid("E13014", f"{len(texts)} texts and {len(numbers)} numbers", where=node)
    if x.dtype.kind in "OU":
        table: dict[Any, Any] = dict(zip(texts, numbers, strict=True))
        return [_look_up(x, table, node.int_attr("default_int64", -1), np.dtype(np.int64))]
    table = dict(zip(numbers, texts, strict=True))
    return [_look_up(x, table, node.str_attr("default_string", "_Unused"), np.dtype(np.object_))]


# --- OneHotEncoder -------------------------------------------------------------------------------


def infer_one_hot_encoder(node: Node, known: Known) -> Sequence[TensorDesc]:
    """A new last dim with one element for each category."""
    shape = node.operand(0).desc.shape
    return [TensorDesc.plain(DType.FLOAT32, None if shape is None else (*shape, len(_categories(node))))]


def evaluate_one_hot_encoder(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Raises ModelInvalid for an unknown category, unless `zeros` allows it."""
    x, categories = np.asarray(arrays[0]), _categories(node)
    if x.dtype.kind == "f":
        x = x.astype(np.int64)
    index = _look_up(x, {each: index for index, each in enumerate(categories)}, -1, np.dtype(np.int64))
    if not node.int_attr("zeros", 1) and (index < 0).any():
        raise ModelInvalid("D0001", "an unknown category, which zeros = 0 forbids", where=node)
    return [(index[..., None] == np.arange(len(categories))).astype(np.float32)]


def expand_one_hot_encoder(node: Node, rw: Rewriter) -> Sequence[Value] | Reject | None:
    """Compare a number with all categories; an unknown one, if it is an error, is found on the host."""
    x, categories = node.operand(0), np.array(_categories(node))
    if x.desc.dtype is DType.STRING or not node.int_attr("zeros", 1) or len(set(categories.tolist())) < len(categories):
        return Reject("dtype", node.name, x.desc.dtype.long)
    if x.desc.dtype.is_float:
        return [_compare(rw, rw.cast(x, DType.INT64), categories)]
    return [_compare(rw, x, categories.astype(x.desc.dtype.numpy))]


def _categories(node: Node) -> tuple[Any, ...]:
    categories = node.attrs.get("cats_int64s") or node.attrs.get("cats_strings") or ()
    assert isinstance(categories, tuple)
    return categories


def _register(name: str, infer: Infer, evaluate: Evaluate, expand: Expand | None = None) -> None:
    register_operator(OpDef(name=name, domain=DOMAIN, infer=infer, evaluate=evaluate, expand=expand))


_register("CategoryMapper", infer_category_mapper, evaluate_category_mapper)
_register("LabelEncoder", infer_label_encoder, evaluate_label_encoder, expand_label_encoder)
_register("OneHotEncoder", infer_one_hot_encoder, evaluate_one_hot_encoder, expand_one_hot_encoder)
