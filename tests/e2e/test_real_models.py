"""Trained models from the field: convert, load, run, compare with ONNX Runtime."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.ir.tensor import Array
from atcpy.options import convert_options
from atcpy.stages.pipeline import convert
from atcpy.verify.verification import verify

MODELS = Path(__file__).parents[2].parent / "shared" / "models" / "real"

# Models whose dims are open run at these shapes.
SHAPES = {
    "yunet_n_dynamic": "input:1,3,192,256",
    "ppocr_v3_det": "x:1,3,160,224",
    "ppocr_v2_cls": "x:2,3,48,192",
    "superres_10": "input:2,1,224,224",
}
NAMES = [
    "mnist-8",
    "acasxu_5_9",
    "ultraface_rfb_320",
    "yolox_nano",
    "yunet_n_dynamic",
    "blazeface_front_128",
    "ppocr_v3_det",
    "ppocr_v2_cls",
    "face_landmark_mesh",
    "selfie_seg_landscape",
    "superres_10",
    "squeezenet_fp16",
]
needs_models = pytest.mark.skipif(not MODELS.exists(), reason="needs ../shared/models/real")


def feeds_of(name: str, session: InferenceSession, seed: int) -> dict[str, Array]:
    """Random inputs in the range that the model was made for."""
    manifest = json.loads((MODELS / "manifest.json").read_text(encoding="utf-8"))
    entry = next(entry for entry in manifest if entry["file"] == f"{name}.onnx")
    rng = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    for port in session.get_inputs():
        low, high = entry["feed"][port.name]["range"]
        feeds[port.name] = rng.uniform(low, high, port.shape).astype(port.dtype.numpy)
    return feeds


@needs_models
@pytest.mark.parametrize("name", NAMES)
def test_the_answer_is_that_of_onnxruntime(name: str, tmp_path: Path) -> None:
    options = {"input_shape": SHAPES[name]} if name in SHAPES else {}
    report = convert(MODELS / f"{name}.onnx", tmp_path / "m.om", convert_options(options))
    assert report.host_cpu_ops == ()
    session = InferenceSession(tmp_path / "m.om", threads=2)
    for seed in (1, 2):
        compared = verify(tmp_path / "m.om", MODELS / f"{name}.onnx", feeds=feeds_of(name, session, seed))
        assert compared.passed, compared.outputs
