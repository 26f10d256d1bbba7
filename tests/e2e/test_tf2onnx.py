"""A graph of TensorFlow and its export by tf2onnx become the same tasks."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import atcpy
from tests.e2e.test_tensorflow_models import MANIFEST, MODELS
from tests.parsers.tensorflow.oracles import interpreter

TF2ONNX = interpreter("tensorflow")


def tasks(model: Path, folder: Path, **options: str) -> list[tuple[str, str]]:
    package = folder / "m.om"
    atcpy.convert(str(model), str(package), **options)
    session = atcpy.InferenceSession(str(package))
    assert session.tasks
    return [(task.op_type, task.kernel) for task in session.tasks]


@pytest.mark.skipif(not (MANIFEST and TF2ONNX), reason="../shared/models/tf, and ATCPY_TENSORFLOW_PYTHON with tf2onnx")
@pytest.mark.parametrize("name", ["cnn_same", "mobilenet_dw"])
def test_the_tasks_of_a_graph_and_of_its_export_are_the_same(name: str, tmp_path: Path) -> None:
    entry, graph, export = MANIFEST[name], MODELS / name / "model.pb", tmp_path / "export.onnx"
    outputs = [item["tensor"] for item in entry["outputs"]]
    where = ["--graphdef", str(graph), "--inputs", "x:0", "--outputs", ",".join(outputs), "--output", str(export)]
    subprocess.run([TF2ONNX, "-m", "tf2onnx.convert", *where, "--opset", "17"], check=True, capture_output=True)
    shape = ",".join(str(size or 2) for size in entry["inputs"][0]["shape"])
    of_graph = tasks(graph, tmp_path, out_nodes=";".join(outputs), input_shape=f"x:{shape}")
    assert of_graph == tasks(export, tmp_path, input_shape=f"x:0:{shape}")
