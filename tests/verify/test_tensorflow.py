"""Packages of TensorFlow models are compared with an installed TensorFlow-capable engine, or verification refuses."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atcpy
from atcpy.errors import AtcError, UsageError
from atcpy.ir import Source
from atcpy.verify import tensorflow as oracles
from atcpy.verify.verification import find_model, verify
from tests.parsers.tensorflow.graphs import TfBuilder
from tests.sanitizers import loads_openvino

MODEL = Path(__file__).parents[2] / "models" / "scores"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    path = tmp_path / "scores.om"
    atcpy.convert(MODEL, path, signature="serving_default")
    return path


def engine(factor: float) -> Any:
    """The expected result of the frozen graph: softmax(x · kernel + bias) times a factor."""

    def make(frozen: Path, tensors: Mapping[str, str]) -> tuple[str, Any]:
        from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import GraphDef

        assert tensors == {"prob": "prob:0"}
        nodes = {item.name: item for item in GraphDef.FromString(frozen.read_bytes()).node}
        kernel, bias = (
            np.frombuffer(nodes[name].attr["value"].tensor.tensor_content, np.float32).reshape(-1, 3)
            for name in ("dense/kernel", "dense/bias")
        )

        def run(feeds: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
            powers = np.exp(feeds["features"] @ kernel + bias)
            return [factor * powers / powers.sum(axis=1, keepdims=True)]

        return "test engine", run

    return make


def refused(package: Path, **options: Any) -> AtcError:
    with pytest.raises(AtcError) as caught:
        verify(package, MODEL, **options)
    return caught.value


def test_a_package_is_compared_with_the_installed_engine(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracles, "find_spec", lambda name: name == "openvino")
    monkeypatch.setattr(oracles, "_ENGINES", {"tf": engine(2), "openvino": engine(1)})
    report = verify(package, MODEL)
    assert (report.passed, report.oracle, report.same_source) == (True, "test engine", True)
    monkeypatch.setattr(oracles, "find_spec", lambda name: True)
    assert not verify(package, MODEL).passed
    assert verify(package, MODEL, oracle="openvino").passed


def test_without_an_engine_the_error_says_what_to_install(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracles, "find_spec", lambda name: None)
    error = refused(package)
    assert (error.code, error.hint) == ("V0003", "pip install atcpy[tf], or openvino")
    assert "tensorflow is not installed" in str(refused(package, oracle="tf"))
    assert refused(package, oracle="ort").code == "E10001"


def test_an_engine_failure_is_reported_in_one_line(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(frozen: Path, tensors: Mapping[str, str]) -> Any:
        raise RuntimeError("first line\nno such op\n")

    monkeypatch.setattr(oracles, "find_spec", lambda name: True)
    monkeypatch.setattr(oracles, "_ENGINES", {"tf": fails, "openvino": fails})
    assert "the oracle cannot run the model: no such op" in str(refused(package))


@loads_openvino
def test_the_package_agrees_with_openvino(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    g = TfBuilder()
    inner = g.add("Relu", g.input("x", "float32", (2, 3)), name="inner")
    g.add("Neg", inner, name="outer")
    (tmp_path / "g.pb").write_bytes(g.graph.SerializeToString())
    atcpy.convert(tmp_path / "g.pb", tmp_path / "g.om", out_nodes="inner:0;outer:0")
    assert verify(tmp_path / "g.om", tmp_path / "g.pb", oracle="openvino").passed


def test_the_model_beside_the_package_is_found_by_either_name(tmp_path: Path) -> None:
    path = tmp_path / "scores.om"
    report = atcpy.convert(MODEL, path, signature="serving_default")
    source = Source(report.source.sha256, "tensorflow", (), "")
    with pytest.raises(UsageError, match=r"there is no scores\.pb, scores\.pbtxt, scores or scores\.meta beside"):
        find_model(path, source)
    (tmp_path / "scores").mkdir()
    with pytest.raises(UsageError, match=r"scores is not the file that scores\.om was made from") as caught:
        find_model(path, source)
    assert caught.value.hint == "name the model: --against MODEL, its .pb, folder or checkpoint"
    shutil.copytree(MODEL, tmp_path / "scores", dirs_exist_ok=True)
    assert find_model(path, source) == tmp_path / "scores"
    frozen = atcpy.freeze(MODEL, tmp_path / "scores.pb")
    assert find_model(path, source) == tmp_path / "scores"
    package = tmp_path / "frozen.om"
    report = atcpy.convert(tmp_path / "scores.pb", package, out_nodes=frozen.outputs[0])
    (tmp_path / "scores.pb").rename(tmp_path / "frozen.pb")
    assert find_model(package, Source(report.source.sha256, "tensorflow", (), "")) == tmp_path / "frozen.pb"
