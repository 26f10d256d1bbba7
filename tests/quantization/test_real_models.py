"""Trained models that exporters wrote: each is quantised, and both engines compute it."""

from __future__ import annotations

from pathlib import Path

import pytest

import atcpy
from atcpy import InferenceSession
from tests.e2e.test_real_models import MODELS, SHAPES, make_feeds, needs_models

# Two dims that are called "?" and differ; a grouped ConvTranspose; weights that ONNX Runtime replaces twice.
MODELS_TO_QUANTISE = ["ppocr_v2_cls", "gtcrn_stream", "tiny_text_transformer"]


@needs_models
@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS_TO_QUANTISE)
def test_a_model_of_an_exporter(name: str, tmp_path: Path) -> None:
    atcpy.convert(MODELS / f"{name}.onnx", tmp_path / "float.om")
    with InferenceSession(tmp_path / "float.om") as session:
        samples = [make_feeds(name, session, SHAPES.get(name, [{}])[0], seed=seed) for seed in range(5)]
    report = atcpy.quantize(MODELS / f"{name}.onnx", tmp_path / "q.onnx", calibrate=samples)
    assert any(layer.integer for layer in report.layers)
    assert all(output.atcpy.snr_db > min(15, output.onnxruntime.snr_db - 1) for output in report.outputs)
