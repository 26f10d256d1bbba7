"""atcpy.backend is the adapter that test suites of ONNX call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import atcpy
from atcpy.errors import UsageError
from tests.models_in_text import model

ADD_MUL = "g (float[2] a, float[2] b) => (float[2] sum, float[2] product) { sum = Add(a, b) product = Mul(a, b) }"
A, B = np.array([1, 2], np.float32), np.array([3, 5], np.float32)


def test_a_model_runs_on_inputs_in_order_and_by_name() -> None:
    for inputs in ([A, B], (A, B), {"b": B, "a": A}):
        outputs: Any = atcpy.backend.run_model(model(ADD_MUL), inputs)
        assert outputs.sum.tolist() == outputs[0].tolist() == [4, 7]
        assert outputs["product"].tolist() == outputs[1].tolist() == [3, 10]


def test_a_model_with_one_input_takes_it_alone() -> None:
    assert atcpy.backend.run_model(model("g (float[2] x) => (float[2] y) { y = Neg(x) }"), A)[0].tolist() == [-1, -2]


def test_options_reach_the_compiler() -> None:
    open_model = model("g (float[n] x) => (float[n] y) { y = Neg(x) }")
    prepared = atcpy.backend.prepare(open_model, "CPU", input_shape={"x": [2]}, threads=1)
    assert prepared.session.threads == 1
    assert prepared.run([A])[0].tolist() == [-1, -2]


def test_too_few_inputs_are_refused() -> None:
    with pytest.raises(UsageError, match="1 inputs are given, the model has 2"):
        atcpy.backend.prepare(model(ADD_MUL)).run([A])


def test_only_the_cpu_is_there() -> None:
    assert atcpy.backend.supports_device("CPU")
    assert atcpy.backend.supports_device("CPU:0")
    assert not atcpy.backend.supports_device("CUDA")
    with pytest.raises(UsageError, match="CUDA"):
        atcpy.backend.prepare(model(ADD_MUL), "CUDA")


def test_what_cannot_be_converted_is_not_compatible() -> None:
    assert atcpy.backend.is_compatible(model(ADD_MUL))
    assert not atcpy.backend.is_compatible(model(ADD_MUL), "CUDA")
    assert not atcpy.backend.is_compatible(model("g (float[2] x) => (float[2] y) { y = Nonesuch(x) }"))


def test_a_node_runs_alone() -> None:
    assert atcpy.backend.run_node(helper.make_node("Add", ["a", "a"], ["y"]), [A])[0].tolist() == [2, 4]
    clip = helper.make_node("Clip", ["x", "", "high"], ["y"])
    assert atcpy.backend.run_node(clip, [A, np.float32(1.5)])[0].tolist() == [1, 1.5]


def test_a_node_has_the_meaning_of_the_opset_that_is_asked() -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    node = helper.make_node("Softmax", ["x"], ["y"], axis=1)
    old = atcpy.backend.run_node(node, [x], opset_version=12)[0]
    new = atcpy.backend.run_node(node, [x], opset_version=13)[0]
    np.testing.assert_allclose(old.sum((1, 2)), 1, rtol=1e-6)
    np.testing.assert_allclose(new.sum(1), 1, rtol=1e-6)
