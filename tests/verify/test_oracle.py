from pathlib import Path

import numpy as np
import onnx
import pytest

from atcpy.errors import ModelInvalid, UsageError
from atcpy.verify.oracle import OracleRequest, behind_random, find_oracle, missing_inputs

X = {"x": np.array([-1, 2], np.float32)}


def save(folder: Path, text: str) -> tuple[Path, onnx.ModelProto]:
    model = onnx.parser.parse_model(text)
    onnx.save(model, folder / "m.onnx")
    return folder / "m.onnx", model


RELU = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { h = Relu(x)  y = Neg(h) }'


def test_onnxruntime_is_preferred(tmp_path: Path) -> None:
    oracle = find_oracle(OracleRequest(*save(tmp_path, RELU), ["y"], None, 1))
    assert oracle.name.startswith("onnxruntime ")
    assert oracle.run(X, ["y"])[0].tolist() == [0, -2]


def test_the_reference_evaluator_runs_models_too_new_for_onnxruntime(tmp_path: Path) -> None:
    path, model = save(tmp_path, RELU.replace('"" : 17', '"" : 28').replace("ir_version: 8", "ir_version: 14"))
    oracle = find_oracle(OracleRequest(path, model, ["y"], None, 1))
    assert oracle.name == f"onnx {onnx.__version__} reference evaluator"
    assert oracle.run(X, ["y"])[0].tolist() == [0, -2]
    with pytest.raises(ModelInvalid, match="opset 28 is newer than 26") as caught:
        find_oracle(OracleRequest(path, model, ["y"], "ort", 1))
    assert caught.value.code == "V0003"


@pytest.mark.parametrize("choice", ["ort", "ref"])
def test_intermediate_values_can_be_requested(tmp_path: Path, choice: str) -> None:
    oracle = find_oracle(OracleRequest(*save(tmp_path, RELU), ["h", "y"], choice, 1))
    assert [array.tolist() for array in oracle.run(X, ["h", "y"])] == [[0, 2], [0, -2]]


def test_a_model_that_no_oracle_can_run(tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17, "my" : 1]> g (float[2] x) => (float[2] y) { y = my.Op(x) }'
    with pytest.raises(ModelInvalid) as caught:
        find_oracle(OracleRequest(*save(tmp_path, text), ["y"], None, 1)).run(X, ["y"])
    assert caught.value.code == "V0003"


def test_an_unknown_oracle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not ort or ref"):
        find_oracle(OracleRequest(*save(tmp_path, RELU), ["y"], "tvm", 1))


def test_values_that_depend_on_a_random_op() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, bool c) => (float[2] y, float[2] z, float[2] w)
       { r = RandomNormalLike(x)  a = Add(x, r)  y = Neg(a)  z = Neg(x)
         w = If(c) <then_branch = t () => (float[2] q) { q = RandomNormal<shape = [2]>() },
                    else_branch = e () => (float[2] p) { p = Identity(x) }> }"""
    assert behind_random(onnx.parser.parse_model(text)) == {"r", "a", "y", "w"}


def test_inputs_with_a_default_need_no_feed() -> None:
    text = """<ir_version: 3, opset_import: ["" : 8]> g (float[2] x, float[2] w) => (float[2] y)
              <float[2] w = {1, 2}> { y = Add(x, w) }"""
    model = onnx.parser.parse_model(text)
    assert missing_inputs(model, {}) == ["x"]
