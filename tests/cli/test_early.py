"""A model that another process runs meanwhile."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from atcpy.cli.app import execute
from atcpy.cli.early import EarlyRun, running
from atcpy.parsers.onnx import read_model
from atcpy.verify import rewritten, stepwise

X = {"x": np.array([1, 2], np.float32)}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y, int64[1] n)
        <float[2] w = {3, 4}> { a = Add(x, w) y = Neg(a) n = Shape(a) }"""
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def sha256(model: Path) -> str:
    return read_model(model).source.sha256


def test_the_outputs_come_from_there(model: Path) -> None:
    with running(model, sha256(model), X, False) as run:
        assert run is not None
        found = run.outputs(["y", "n"], {"x": X["x"].copy()})
        assert found is not None
        np.testing.assert_array_equal(found[0], [-4, -6])
        np.testing.assert_array_equal(found[1], [2])
        assert run.outputs(["y", "n"], {"x": X["x"] + 1}) is None
        assert run.outputs(["y", "n"], {"z": X["x"]}) is None
        assert run.outputs(["n"], X) is None
    assert run.process.returncode == 0


def test_another_model_was_run(model: Path) -> None:
    with running(model, "0" * 64, X, False) as run:
        assert run is not None
        assert run.outputs(["y", "n"], X) is None


def test_it_fails(model: Path) -> None:
    with running(model.with_name("none.onnx"), sha256(model), X, False) as run:
        assert run is not None
        assert run.outputs(["y", "n"], X) is None
        assert run.process.returncode == 1


def test_it_ends_with_who_asked(model: Path) -> None:
    with running(model, sha256(model), X, False) as run:
        assert run is not None
    assert run.process.returncode is not None
    assert not run.folder.exists()


@pytest.mark.parametrize("feeds", [{"x": np.array(["a"], object)}])
def test_what_a_file_does_not_hold_is_not_begun(model: Path, feeds: Any) -> None:
    with running(model, sha256(model), feeds, False) as run:
        assert run is None


def test_without_an_interpreter(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    with running(model, sha256(model), X, False) as run:
        assert run is None


@pytest.mark.parametrize(
    ("options", "asked"), [([], True), (["--threads", "1"], False), (["--input_shape", "x:2"], False)]
)
def test_optimize_takes_them(
    model: Path, options: list[str], asked: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: list[bool] = []
    outputs = EarlyRun.outputs

    def noted(self: EarlyRun, *arguments: Any) -> Any:
        found = outputs(self, *arguments)
        given.append(found is not None)
        return found

    monkeypatch.setattr(EarlyRun, "outputs", noted)
    monkeypatch.setattr(stepwise, "LARGE", 2)
    monkeypatch.setattr(rewritten, "default_threads", lambda: 2)
    assert execute(["optimize", str(model), str(tmp_path / "out.onnx"), *options]) == 0
    assert given == [True] * asked
