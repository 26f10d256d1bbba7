"""LabelEncoder, CategoryMapper and OneHotEncoder against ONNX Runtime: numbers in kernels, strings on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import atcpy
from atcpy.errors import AtcError, ModelInvalid
from atcpy.ir.tensor import Array
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.ops.ml.agreement import SCORES, agree, model_of

NUMBERS = np.array([[3, -1, 7], [0, 3, 12]], np.int64)
FLOATS = np.array([3.5, np.nan, -0.0, 1.0], np.float32)
TEXTS = np.array([["a", "c"], ["", "b"]], np.object_)
TYPES = {"strings": TensorProto.STRING, "int64s": TensorProto.INT64, "floats": TensorProto.FLOAT}


def host_ops(model: Any) -> list[str]:
    return [count.op for count in compile_model(model, convert_options({}))[1].host_cpu_ops]


@pytest.mark.parametrize("values", [{"values_int64s": [5, 6, 7]}, {"values_floats": [0.5, -1, 2]}])
@pytest.mark.parametrize(
    ("x", "keys"), [(NUMBERS, {"keys_int64s": [7, 3, 3]}), (FLOATS, {"keys_floats": [0.0, 3.5, float("nan")]})]
)
def test_numbers_are_looked_up_by_kernels(x: Array, keys: dict[str, Any], values: dict[str, Any]) -> None:
    kind = TYPES[next(iter(values)).removeprefix("values_")]
    for default in ({}, {"default_int64": 9, "default_float": 9.5}):
        agree("LabelEncoder", [x], {**keys, **values, **default}, {"y": kind}, version=4)
    assert host_ops(model_of("LabelEncoder", [x], {**keys, **values}, {"y": kind}, 2)) == []


@pytest.mark.parametrize(
    "values", [{"values_int64s": [5, 6]}, {"values_floats": [0.5, -1]}, {"values_strings": ["x", "y"]}]
)
@pytest.mark.parametrize(("x", "keys"), [(NUMBERS, {"keys_int64s": [7, 3]}), (TEXTS, {"keys_strings": ["b", ""]})])
def test_strings_are_looked_up_on_the_host(x: Array, keys: dict[str, Any], values: dict[str, Any]) -> None:
    kind = TYPES[next(iter(values)).removeprefix("values_")]
    agree("LabelEncoder", [x], {**keys, **values}, {"y": kind}, version=2)


def test_keys_without_values_are_refused() -> None:
    attrs = {"keys_int64s": [1, 2], "values_int64s": [1]}
    with pytest.raises(ModelInvalid, match="2 keys and 1 values"):
        atcpy.backend.run_model(model_of("LabelEncoder", [NUMBERS], attrs, {"y": TensorProto.INT64}, 2), [NUMBERS])


@pytest.mark.parametrize(("keys", "x"), [("keys_strings", NUMBERS), ("keys_int64s", TEXTS)])
def test_texts_and_numbers_are_not_compared(keys: str, x: Array) -> None:
    attrs = {keys: ["a"] if keys == "keys_strings" else [1], "values_int64s": [5]}
    with pytest.raises(ModelInvalid, match="E13014: keys of"):
        atcpy.backend.run_model(model_of("LabelEncoder", [x], attrs, {"y": TensorProto.INT64}, 2), [x])


def test_category_mapper() -> None:
    attrs = {"cats_int64s": [3, 7], "cats_strings": ["a", "b"]}
    agree("CategoryMapper", [NUMBERS], attrs, {"y": TensorProto.STRING})
    agree("CategoryMapper", [TEXTS], {**attrs, "default_int64": 5}, {"y": TensorProto.INT64})


@pytest.mark.parametrize("x", [NUMBERS, FLOATS[[0, 2, 3]], FLOATS[[0, 2, 3]].astype(np.float64)])
def test_one_hot_of_numbers(x: Array) -> None:
    attrs = {"cats_int64s": [0, 3, 7]}
    agree("OneHotEncoder", [x], attrs)
    assert host_ops(model_of("OneHotEncoder", [x], attrs, SCORES)) == []


def test_one_hot_of_strings() -> None:
    agree("OneHotEncoder", [TEXTS], {"cats_strings": ["a", "b"]})


def test_an_unknown_category_may_be_an_error() -> None:
    attrs = {"cats_int64s": [0, 3, 7, -1, 12], "zeros": 0}
    agree("OneHotEncoder", [NUMBERS], attrs)
    with pytest.raises(AtcError, match="an unknown category"):
        model = model_of("OneHotEncoder", [NUMBERS], {**attrs, "cats_int64s": [0]}, SCORES)
        atcpy.backend.run_model(model, [NUMBERS])
