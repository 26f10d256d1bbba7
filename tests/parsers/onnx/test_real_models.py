"""Real exports: each is imported and gives the results of ONNX Runtime, or is refused with the names of its ops."""

import json

import numpy as np
import onnx
import pytest

import atcpy
from tests.ops.contrib.cases import expanded
from tests.parsers.onnx.canonical import REAL, parsed, run_canonical, run_ort

pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason="needs ../shared/models")
MANIFEST = {entry["file"]: entry for entry in json.loads((REAL / "manifest.json").read_text())} if REAL.is_dir() else {}
RANDOM_OUTPUTS = {"discrete_actions"}  # drawn by Multinomial
LARGE = {"gtcrn_stream.onnx"}  # that take a second or more
PAIRS = [
    pytest.param(name, pair["file"], marks=pytest.mark.slow if name in LARGE else ())
    for name, entry in MANIFEST.items()
    for pair in entry["test_data"]
]


@pytest.mark.parametrize(("name", "pair"), PAIRS)
def test_the_canonical_graph_agrees_with_onnx_runtime(name: str, pair: str) -> None:
    graph = expanded(REAL / name)
    arrays = np.load(REAL / pair)
    feeds = {key[3:]: arrays[key] for key in arrays if key.startswith("in/")}
    results = dict(zip([value.name for value in graph.outputs], run_canonical(graph, feeds), strict=True))
    before = run_ort(onnx.load(REAL / name), feeds)
    for (output, have), want in zip(results.items(), before, strict=True):
        if output in RANDOM_OUTPUTS:
            continue
        if have.dtype == object:
            assert have.tolist() == want.tolist()
        else:
            # The same kernels on the same numbers: only ops that were rewritten may round differently.
            rtol, atol = (2e-3, 1e-5) if have.dtype == np.float16 else (1e-5, 1e-6)
            np.testing.assert_allclose(have, want, rtol=rtol, atol=atol)


def test_a_training_graph_returns_its_accumulated_gradients() -> None:
    """Written by onnxruntime.training.artifacts; the inference build of ONNX Runtime cannot load it."""
    rng = np.random.default_rng(1)
    shapes = {"fc1.weight": (500, 784), "fc1.bias": (500,), "fc2.weight": (10, 500), "fc2.bias": (10,)}
    weights = {name: rng.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}
    x, labels = rng.normal(0, 1, (6, 784)).astype(np.float32), rng.integers(0, 10, 6).astype(np.int32)
    before = {f"{name}_grad.accumulation.buffer": np.ones_like(array) for name, array in weights.items()}
    model = onnx.load(REAL / "mnist_training_graph.onnx")
    names = [value.name for value in parsed(model).graph.outputs]
    step = atcpy.backend.prepare(model)
    h = x @ weights["fc1.weight"].T + weights["fc1.bias"]
    z = np.maximum(h, 0) @ weights["fc2.weight"].T + weights["fc2.bias"]
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    dz = (p - np.eye(10)[labels]) / 6
    dh = (dz @ weights["fc2.weight"]) * (h > 0)
    grads = {
        "fc1.weight": dh.T @ x,
        "fc1.bias": dh.sum(0),
        "fc2.weight": dz.T @ np.maximum(h, 0),
        "fc2.bias": dz.sum(0),
    }
    for reset in (False, True):
        feeds = {"input-0": x, "labels": labels, "lazy_reset_grad": np.array([reset]), **weights, **before}
        found = dict(zip(names, step.run([feeds[info.name] for info in model.graph.input]), strict=True))
        np.testing.assert_allclose(found["onnx::loss::21273"], -np.log(p[range(6), labels]).mean(), rtol=1e-5)
        for name, grad in grads.items():
            assert found[f"{name}_grad.accumulation.out"].tolist() == [True]
            after = found[f"{name}_grad.accumulation.buffer_next"]
            np.testing.assert_allclose(after, grad + (0 if reset else 1), rtol=1e-4, atol=1e-6)


@pytest.mark.skipif(not REAL.is_dir(), reason="needs ../shared/models")
def test_the_first_tensorflow_model_is_imported() -> None:
    graph = parsed(REAL / "mnist_softmax_op4.onnx").graph
    feeds = {node.name: np.ones([dim if isinstance(dim, int) else 2 for dim in node.output.desc.shape or ()], "f")
             for node in graph.inputs}  # fmt: skip
    (y,) = run_canonical(graph, feeds)
    weights = {node.output.name: node.output.array for node in graph.nodes if node.op_type == "Const"}
    matrix = next(array for array in weights.values() if array.ndim == 2)
    vector = next(array for array in weights.values() if array.shape == (10,))
    np.testing.assert_allclose(y, next(iter(feeds.values())) @ matrix + vector, rtol=1e-4)
