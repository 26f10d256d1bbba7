"""A float64 evaluation decides whether the package or the oracle is inaccurate."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from atcpy.verify.compare import Tolerance, compare_all
from atcpy.verify.float64 import evaluate_in_float64, is_as_accurate, recheck
from tests.models_in_text import model


def test_the_model_is_evaluated_in_float64() -> None:
    proto = model("m (float[2] x) => (float[2] y) { t = Sigmoid(x) y = Cast <to = 1> (t) }")
    found = evaluate_in_float64(proto, {"x": np.array([-20.0, 3.0], np.float32)})
    assert found is not None
    assert found["y"].dtype == np.float64
    np.testing.assert_allclose(found["y"], 1 / (1 + np.exp([20.0, -3.0])), rtol=1e-14)


def test_models_that_cannot_be_evaluated_in_float64_give_none() -> None:
    proto = model("m () => (float[2] y) { y = RandomNormal <shape = [2]> () }")
    assert evaluate_in_float64(proto, {}) is None


def test_inputs_that_are_left_out_have_their_default() -> None:
    proto = model("m (float[2] x) => (float[2] y) <float[2] w = {0.1, 3}> { y = Mul(x, w) }")
    proto.graph.input.append(onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, [2]))
    found = evaluate_in_float64(proto, {"x": np.array([2, 5], np.float32)})
    assert found is not None
    assert found["y"].tolist() == [2 * float(np.float32(0.1)), 15]
    found = evaluate_in_float64(proto, {"x": np.array([2, 5], np.float32), "w": np.array([1, 2], np.float32)})
    assert found is not None and found["y"].tolist() == [2, 10]


def test_sizes_that_float64_changes_give_none() -> None:
    """In float32, 10 times 0.1 rounds to 1; in float64 it is a little more, as 0.1 in float32 is."""
    proto = model(
        "m (float[2] x) => (float[n] y) <float[1] tenth = {-0.1}, float[1] ten = {10}> "
        "{ a = Mul(tenth, ten) b = Floor(a) c = Abs(b) d = Cast <to = 7> (c) e = Add(d, d) y = Reshape(x, e) }"
    )
    assert evaluate_in_float64(proto, {"x": np.array([2, 5], np.float32)}) is None


def test_outputs_nearer_to_float64_than_the_oracle_pass() -> None:
    exact = np.array([1.0, 2.0])
    oracle = np.array([1.0, 2.01], np.float32)
    assert is_as_accurate(np.array([1.0, 1.99], np.float32), [oracle], exact, atol=1e-4)
    assert not is_as_accurate(np.array([1.0, 1.9], np.float32), [oracle], exact, atol=1e-4)
    assert is_as_accurate(np.array([1.00005, 2.0], np.float32), [np.array([1.0, 2.0], np.float32)], exact, atol=1e-4)


@pytest.mark.parametrize(("dtype", "passed"), [(np.float32, True), (np.float64, False)])
def test_only_float32_outputs_are_rechecked(dtype: type, passed: bool) -> None:
    """Where float64 is more exact, an inaccurate oracle does not prove an output wrong."""
    exact, oracle, actual = (np.array([1.0, value]).astype(dtype) for value in (2.0, 2.1, 2.01))
    pairs = [("x", np.array([1], np.float32), np.array([3], np.float32)), ("y", actual, oracle)]
    outputs = compare_all(pairs, Tolerance())
    assert not any(output.passed for output in outputs)
    x, y = recheck(outputs, pairs, lambda: {"x": np.array([3.0]), "y": exact})
    assert (x.passed, y.passed, y.arbitrated) == (False, passed, passed)
