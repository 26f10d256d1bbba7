"""The generator of the larger nets: the architectures are true, the bytes are the same on every run."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import graph_builder
import make_models
import numpy as np
import onnx
import onnxruntime
import pytest

SCRIPT = Path(make_models.__file__)

# Parameters as published, and the running statistics of BatchNormalization, which are initializers too.
WEIGHTS = {
    "resnet50": 25_557_032 + 53_120,
    "mobilenet_v2": 3_504_872 + 34_112,
    "efficientnet_b0": 5_288_548 + 42_016,
    "vit_b16": 86_567_656,
    "bert_base": 109_482_240,
    "gpt2_small": 124_439_808 + 128 * 128,  # and the causal mask
    "mnist": 107_786,
    "yolo_n640": 3_151_904,
}


@pytest.mark.parametrize(("name", "count"), WEIGHTS.items())
def test_net_has_as_many_weights_as_the_published_one(name: str, count: int) -> None:
    assert make_models.build(name).weight_count == count


@pytest.mark.parametrize("name", make_models.BUILDERS)
def test_names_of_nodes_are_unique(name: str) -> None:
    graph = make_models.build(name)
    names = [node.name for node in graph.nodes]
    assert len(set(names)) == len(graph)


@pytest.mark.parametrize("name", ["mnist", "mobilenet_v2", "efficientnet_b0", "yolo_n640", "rnn_net"])
def test_net_is_valid_and_its_results_are_near_unit_size(name: str) -> None:
    model = make_models.build(name).to_model()
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (image,) = session.get_inputs()
    (result,) = session.run(None, {image.name: np.random.default_rng(1).standard_normal(image.shape, np.float32)})
    # YOLO's boxes are in pixels: its class probabilities begin at row 4.
    scores = result[:, 4:] if name == "yolo_n640" else result
    assert np.isfinite(result).all()
    assert 0.02 < scores.std() < 5


@pytest.mark.parametrize("name", [name for name in make_models.OPEN_BUILDERS if name.endswith("_open")])
def test_a_model_with_symbolic_dims_has_the_weights_of_the_static_one(name: str) -> None:
    fixed, graph = make_models.build(name.removesuffix("_open")), make_models.build(name)
    tables = {"bert_base_open": 512, "gpt2_small_open": 1024 + 1024**2 - 128**2}  # positions, and the longest mask
    assert graph.weight_count == fixed.weight_count + tables[name]
    assert {dim.dim_param for port in graph._inputs for dim in port.type.tensor_type.shape.dim} == {"batch", "tokens"}
    assert len({node.name for node in graph.nodes}) == len(graph)


@pytest.mark.slow
def test_bytes_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, SCRIPT, tmp_path / seed, "mnist", "rnn_net"], env=environment, check=True)
    for file in ("mnist.onnx", "rnn_net.onnx"):
        assert (tmp_path / "1" / file).read_bytes() == (tmp_path / "2" / file).read_bytes()


def test_noise_is_the_same_on_every_machine() -> None:
    values = graph_builder.noise("key", (3, 5), -1.0, 1.0)
    assert hashlib.sha256(values.astype("<f4").tobytes()).hexdigest()[:16] == "b41b9366fb0b0c81"
    assert np.abs(values).max() < 1
    assert not np.array_equal(values, graph_builder.noise("other key", (3, 5), -1.0, 1.0))


@pytest.mark.slow
def test_unknown_name_is_refused_with_the_names_there_are(tmp_path: Path) -> None:
    run = subprocess.run([sys.executable, SCRIPT, tmp_path, "resnet51"], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "resnet51" in run.stderr
    assert "gpt2_small" in run.stderr
    assert list(tmp_path.iterdir()) == []


def test_two_weights_of_one_name_are_refused() -> None:
    graph = graph_builder.Graph("g")
    graph.random("w", 1, std=1.0)
    with pytest.raises(ValueError, match="two weights are called w"):
        graph.random("w", 1, std=1.0)
