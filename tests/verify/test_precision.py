"""Values behind 16 bits are judged by that precision, whatever type they have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import atcpy
from atcpy.errors import ModelInvalid
from atcpy.ir import DType
from atcpy.ops.custom import CustomOps
from atcpy.parsers.onnx import read_model
from atcpy.verify import oracle as oracles
from atcpy.verify.oracle import Oracle, OracleRequest, find_oracle
from atcpy.verify.precision import half_values_of_model
from atcpy.verify.verification import verify
from tests.models_in_text import model

HALF = """half (float[2,8] x) => (float[2,4] y, float[2,8] z) <float[8,4] w> {
    z = Neg(x)  h = Cast<to = 10>(z)  v = Cast<to = 10>(w)  m = MatMul(h, v)  y = Cast<to = 1>(m) }"""
ONLY_WEIGHTS = """weights (float[2,8] x) => (float[2,4] y) <float16[8,4] w> { v = Cast<to = 1>(w)  y = MatMul(x, v) }"""
ONLY_INPUT = "fed (float16[2,8] x) => (float[2,8] y) { a = Cast<to = 1>(x)  y = Neg(a) }"
BRAIN = "brain (float[2,8] x) => (float[2,8] y) { a = Cast<to = 16>(x)  b = Cast<to = 10>(a)  y = Cast<to = 1>(b) }"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HALF, {"h": DType.FLOAT16, "m": DType.FLOAT16, "y": DType.FLOAT16}),
        (ONLY_WEIGHTS, {}),
        (ONLY_INPUT, {}),
        (BRAIN, {"a": DType.BFLOAT16, "b": DType.BFLOAT16, "y": DType.BFLOAT16}),
        ("plain (float[2] x) => (float[2] y) { y = Neg(x) }", {}),
    ],
    ids=["half", "weights", "input", "bfloat16", "float32"],
)
def test_which_values_are_behind_16_bits(text: str, expected: dict[str, DType]) -> None:
    found = half_values_of_model(read_model(model(text)), CustomOps())
    assert found == expected


def test_float32_outputs_behind_float16_have_its_tolerance(tmp_path: Path) -> None:
    onnx.save(model(HALF), tmp_path / "m.onnx")
    atcpy.convert(tmp_path / "m.onnx", tmp_path / "m.om")
    report = verify(tmp_path / "m.om")
    y, z = report.outputs
    assert report.passed
    assert (y.dtype, z.dtype) == ("float32", "float32")
    feeds = {"x": np.ones((2, 8), np.float32)}
    y, z = verify(tmp_path / "m.om", feeds=feeds).outputs
    [expected] = find_oracle(OracleRequest(tmp_path / "m.onnx", model(HALF), ["y"], "ort", 1)).run(feeds, ["y"])
    assert y.atol == pytest.approx(2e-3 * np.abs(expected).max())
    assert z.atol == pytest.approx(1e-4)


def test_a_model_that_only_the_optimiser_breaks_has_an_oracle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    onnx.save(model(HALF), tmp_path / "m.onnx")
    opened = oracles.open_onnxruntime

    def open_unoptimised(path: Path, options: object, more: object = ()) -> object:
        if options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL:  # type: ignore[attr-defined]
            raise ModelInvalid("V0003", "ONNX Runtime cannot run m.onnx: its Casts")
        return opened(path, options, more)  # type: ignore[arg-type]

    monkeypatch.setattr(oracles, "open_onnxruntime", open_unoptimised)
    feeds = {"x": np.ones((2, 8), np.float32)}
    found = find_oracle(OracleRequest(tmp_path / "m.onnx", model(HALF), ["y"], None, 1))
    assert np.array_equal(found.run_optimised(feeds, ["y"])[0], found.run(feeds, ["y"])[0])


def test_the_evaluator_judges_what_onnxruntime_opens_and_does_not_run(tmp_path: Path) -> None:
    onnx.save(model(HALF), tmp_path / "m.onnx")
    atcpy.convert(tmp_path / "m.onnx", tmp_path / "m.om")

    def refuse(*_: object) -> list[object]:
        raise ModelInvalid("V0003", "ONNX Runtime cannot run m.onnx: it fails")

    def find(request: OracleRequest) -> Oracle:
        return find_oracle(request) if request.choice == "ref" else Oracle("onnxruntime 1", refuse, refuse)

    report = verify(tmp_path / "m.om", find=find)
    assert report.passed
    assert report.oracle.endswith("reference evaluator")
    with pytest.raises(ModelInvalid, match="it fails"):
        verify(tmp_path / "m.om", find=find, oracle="ort")
