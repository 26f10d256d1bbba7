"""EarlyRun: a background process runs the original model in advance."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from atcpy.cli.app import execute
from atcpy.parsers.onnx import read_model
from atcpy.verify import rewritten, stepwise
from atcpy.verify.early_run import EarlyRun, running
from atcpy.verify.inputs import Feeds, feeds_of, model_ports


@pytest.fixture
def model(tmp_path: Path) -> Path:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y, int64[1] n)
        <float[2] w = {3, 4}> { a = Add(x, w) y = Neg(a) n = Shape(a) }"""
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def digest_and_feeds(model: Path) -> tuple[str, Feeds]:
    """The model's digest and the feeds that verification will use."""
    file = read_model(model)
    return file.source.sha256, feeds_of(file.model, model_ports(file.model), 0)


@pytest.mark.slow
def test_outputs_come_from_the_background_process(model: Path) -> None:
    sha256, feeds = digest_and_feeds(model)
    x = feeds["x"]
    with running(model, False) as run:
        assert run is not None
        found = run.outputs(sha256, ["y", "n"], {"x": x.copy()})
        assert found is not None
        np.testing.assert_array_equal(found[0], -(x + np.array([3, 4], np.float32)))
        np.testing.assert_array_equal(found[1], [2])
        assert run.outputs(sha256, ["y", "n"], {"x": x + 1}) is None
        assert run.outputs(sha256, ["y", "n"], {"z": x}) is None
        assert run.outputs(sha256, ["n"], feeds) is None
        assert run.outputs("0" * 64, ["y", "n"], feeds) is None
    assert run.process.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("size", ["N", ""])
def test_a_model_with_symbolic_dims_is_not_run(model: Path, size: str) -> None:
    proto = onnx.load(model)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = size
    onnx.save(proto, model)
    with running(model, False) as run:
        assert run is not None
        assert run.outputs(digest_and_feeds(model)[0], ["y", "n"], digest_and_feeds(model)[1]) is None
        assert run.process.returncode == 1


@pytest.mark.slow
def test_a_failed_background_run_gives_no_outputs(model: Path) -> None:
    with running(model.with_name("none.onnx"), False) as run:
        assert run is not None
        assert run.outputs(digest_and_feeds(model)[0], ["y", "n"], digest_and_feeds(model)[1]) is None
        assert run.process.returncode == 1


def test_the_background_process_ends_with_its_context(model: Path) -> None:
    with running(model, False) as run:
        assert run is not None
    assert run.process.returncode is not None
    assert not run.folder.exists()


@pytest.mark.slow
def test_string_outputs_are_not_transferred(model: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (string[2] x) => (string[2] y) { y = Identity(x) }'
    onnx.save(onnx.parser.parse_model(text), model)
    with running(model, False) as run:
        assert run is not None
        assert run.outputs(digest_and_feeds(model)[0], ["y"], digest_and_feeds(model)[1]) is None


def test_without_an_interpreter_there_is_no_background_run(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    with running(model, False) as run:
        assert run is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "is_used"), [([], True), (["--threads", "1"], False), (["--input_shape", "x:2"], False)]
)
def test_optimize_uses_outputs_of_the_background_run(
    model: Path, options: list[str], is_used: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found_outputs: list[bool] = []
    outputs = EarlyRun.outputs

    def noted(self: EarlyRun, *arguments: Any) -> Any:
        found = outputs(self, *arguments)
        found_outputs.append(found is not None)
        return found

    monkeypatch.setattr(EarlyRun, "outputs", noted)
    monkeypatch.setattr(stepwise, "LARGE", 2)
    monkeypatch.setattr(rewritten, "default_threads", lambda: 2)
    assert execute(["optimize", str(model), str(tmp_path / "out.onnx"), *options]) == 0
    assert found_outputs == [True] * is_used
