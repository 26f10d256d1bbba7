"""Values of a model, computed one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from atcpy.ops.custom import CustomOps
from atcpy.parsers.onnx import read_model
from atcpy.verify.evaluation import ModelEvaluator
from atcpy.verify.oracle import OracleRequest, find_oracle
from tests.models_in_text import model

NET = """net (float[4] x) => (float[4] y) <float[4] w> {
    a = Neg(x)  b = Abs(a)  c = Add(a, w)  n = Shape(x)  p = TopK<axis = 0>(c, k)  d = Mul(b, c)  y = Exp(d) }"""
PLAIN = NET.replace("p = TopK<axis = 0>(c, k)  ", "")
X = {"x": np.array([1, -2, 3, 0.5], np.float32)}


def evaluator(oracle: str | None = None) -> ModelEvaluator:
    return ModelEvaluator(read_model(model(PLAIN)), oracle, CustomOps())


@pytest.mark.parametrize("oracle", [None, "ref"])
def test_values_equal_those_of_the_whole_model(tmp_path: Path, oracle: str | None) -> None:
    onnx.save(model(PLAIN), tmp_path / "m.onnx")
    names = ["a", "b", "c", "n", "d", "y"]
    whole = find_oracle(OracleRequest(tmp_path / "m.onnx", model(PLAIN), names, oracle, 1)).run(X, names)
    evaluation = evaluator(oracle).start(X, names)
    for name, expected in zip(names, whole, strict=True):
        assert np.array_equal(evaluation.value(name), expected), name


def test_a_value_lives_as_long_as_somebody_reads_it() -> None:
    evaluation = evaluator().start(X, ["y"])
    assert evaluation.value("y") is not None
    assert evaluation.value("a") is None  # its readers have run
    assert evaluation.value("x") is None
    assert evaluation.peak_bytes <= 4 * 16
    kept = evaluator().start(X, ["a", "y"])
    assert np.array_equal(kept.value("a"), -X["x"])


def test_nodes_that_onnxruntime_lacks_run_in_the_reference() -> None:
    text = "m (double[4] x) => (double[4] y) { a = Neg(x)  b = Softsign(a)  c = Mish(b)  y = Neg(c) }"
    feeds = {"x": np.array([1, -2, 3, 0.5])}
    found = ModelEvaluator(read_model(model(text)), None, CustomOps()).start(feeds, ["y"]).value("y")
    b = -feeds["x"] / (1 + np.abs(feeds["x"]))
    assert np.allclose(found, -(b * np.tanh(np.log1p(np.exp(b)))), atol=1e-12)


def test_what_nobody_can_compute_is_none() -> None:
    alone = model("m (float[4] x) => (float[4] y) { a = Neg(x)  y = Abs(a) }")
    alone.graph.node[0].op_type = "NoSuchOp"
    found = ModelEvaluator(read_model(alone), None, CustomOps()).start(X, ["a", "y"])
    assert found.value("y") is None
    assert found.value("nothing") is None


def test_the_nodes_between_values_in_float64() -> None:
    one = evaluator()
    assert one.nodes_between({"b", "c"}, "y") == ("d", "y")
    found = one.evaluate_in_float64(X, {"b", "c"}, "y")
    assert found is not None
    expected, exact = found
    assert [expected.dtype.name, exact.dtype.name] == ["float32", "float64"]
    assert np.allclose(expected, exact, rtol=1e-6)
