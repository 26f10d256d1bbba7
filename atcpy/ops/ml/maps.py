"""Ops on maps, which only the host has: a map is a dict, a sequence of maps a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Node, TensorDesc
from atcpy.ir.desc import UNKNOWN
from atcpy.ir.tensor import Array
from atcpy.ops.core.opdef import Known, OpDef, register_operator
from atcpy.ops.ml.record import DOMAIN

_TYPES = {"float": DType.FLOAT32, "double": DType.FLOAT64, "int64": DType.INT64, "string": DType.STRING}


def infer_zip_map(node: Node, known: Known) -> Sequence[TensorDesc]:
    """No tensor."""
    return [UNKNOWN]


def evaluate_zip_map(node: Node, arrays: Sequence[Array | None]) -> Sequence[Any]:
    """Return a list with a dict for each row: its scores by label."""
    labels = node.attrs.get("classlabels_strings") or node.attrs.get("classlabels_int64s") or ()
    assert isinstance(labels, tuple)
    rows = np.atleast_2d(np.asarray(arrays[0]))
    if rows.shape[-1] != len(labels):
        raise ModelInvalid("D0001", f"{rows.shape[-1]} scores for {len(labels)} labels", where=node)
    return [[dict(zip(labels, row, strict=True)) for row in rows.tolist()]]


def infer_dict_vectorizer(node: Node, known: Known) -> Sequence[TensorDesc]:
    """One row with an element for each word of the vocabulary, of the type of the map's values."""
    _, _, value = node.operand(0).producer.str_attr("type", "").rpartition("tensor(")
    dtype = _TYPES.get(value.rstrip(")"), node.output.desc.dtype)
    return [TensorDesc.plain(dtype, (1, len(_vocabulary(node))))]


def evaluate_dict_vectorizer(node: Node, arrays: Sequence[Any]) -> Sequence[Array]:
    """Return the values of the vocabulary's words; of those that the map lacks, zero or an empty text."""
    dtype, words = node.output.desc.dtype, _vocabulary(node)
    empty = "" if dtype is DType.STRING else 0
    return [np.array([[arrays[0].get(word, empty) for word in words]], dtype.numpy)]


def _vocabulary(node: Node) -> tuple[Any, ...]:
    words = node.attrs.get("string_vocabulary") or node.attrs.get("int64_vocabulary") or ()
    assert isinstance(words, tuple)
    return words


register_operator(OpDef(name="ZipMap", domain=DOMAIN, infer=infer_zip_map, evaluate=evaluate_zip_map))
register_operator(
    OpDef(name="DictVectorizer", domain=DOMAIN, infer=infer_dict_vectorizer, evaluate=evaluate_dict_vectorizer)
)
