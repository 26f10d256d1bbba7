"""Real exports: each is read and computes what it did, or is refused with the operators' names."""

import json

import numpy as np
import onnx
import pytest

from atcpy.errors import Unsupported
from tests.parsers.onnx.canonical import REAL, parsed, run_canonical, run_ort

pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason="needs ../shared/models")
MANIFEST = {entry["file"]: entry for entry in json.loads((REAL / "manifest.json").read_text())} if REAL.is_dir() else {}
# Ops of ONNX Runtime's own domain, without a record here.
REFUSED = {
    "mnist_training_graph.onnx": {f"com.microsoft::{op}" for op in
                                  ("InPlaceAccumulatorV2", "ReluGrad", "SoftmaxCrossEntropyLossGrad")},
}  # fmt: skip
RANDOM_OUTPUTS = {"discrete_actions"}  # drawn by Multinomial
PAIRS = [(name, pair["file"]) for name, entry in MANIFEST.items() if name not in REFUSED for pair in entry["test_data"]]


@pytest.mark.parametrize(("name", "pair"), PAIRS)
def test_it_computes_what_the_model_computes(name: str, pair: str) -> None:
    graph = parsed(REAL / name).graph
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
            # The same kernels on the same numbers: only ops that are written otherwise may round otherwise.
            rtol, atol = (2e-3, 1e-5) if have.dtype == np.float16 else (1e-5, 1e-6)
            np.testing.assert_allclose(have, want, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_the_names_of_its_operators(name: str) -> None:
    with pytest.raises(Unsupported) as raised:
        parsed(REAL / name)
    assert {problem.what.split()[0] for problem in raised.value.problems} == REFUSED[name]
    assert {problem.code for problem in raised.value.problems} == {"E19010"}


@pytest.mark.skipif(not REAL.is_dir(), reason="needs ../shared/models")
def test_the_first_model_of_tensorflow_is_read() -> None:
    graph = parsed(REAL / "mnist_softmax_op4.onnx").graph
    feeds = {node.name: np.ones([dim if isinstance(dim, int) else 2 for dim in node.output.desc.shape or ()], "f")
             for node in graph.inputs}  # fmt: skip
    (y,) = run_canonical(graph, feeds)
    weights = {node.output.name: node.output.array for node in graph.nodes if node.op_type == "Const"}
    matrix = next(array for array in weights.values() if array.ndim == 2)
    vector = next(array for array in weights.values() if array.shape == (10,))
    np.testing.assert_allclose(y, next(iter(feeds.values())) @ matrix + vector, rtol=1e-4)
