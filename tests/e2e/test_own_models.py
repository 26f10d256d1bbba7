"""The project's own small nets, at both levels: convert, load, run, compare with ONNX Runtime."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from atcpy import InferenceSession
from atcpy.options import convert_options
from atcpy.stages.pipeline import convert
from atcpy.verify.verification import verify

sys.path.insert(0, str(Path(__file__).parents[2] / "models"))
import make_models

MODELS = ["small_mobile", "small_detector", "small_text", "mnist", "rnn_net"]


@pytest.mark.parametrize("level", ["O0", "O2"])
@pytest.mark.parametrize("name", MODELS)
def test_the_answer_is_that_of_onnxruntime(name: str, level: str, tmp_path: Path) -> None:
    path = make_models.write(name, tmp_path)
    report = convert(path, tmp_path / "m.om", convert_options({"oo_level": level}))
    assert report.host_cpu_ops == () or report.host_cpu_ops == []
    assert InferenceSession(tmp_path / "m.om", threads=2).tasks
    compared = verify(tmp_path / "m.om", path)
    assert compared.passed, compared.outputs
