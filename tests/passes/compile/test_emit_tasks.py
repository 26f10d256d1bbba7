"""Where values lie: corner cases of sizes and of memory that several values show."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest

from atcpy import InferenceSession, ops
from atcpy.ir import Node, Tensor
from atcpy.passes.compile import flatten
from tests.models_in_text import model, package


@pytest.mark.parametrize(
    "text",
    [
        "m (float[4] x) => (float[4] y) <int64[2] s = {0, 4}> "
        "{ a, b = Split (x, s) e = Relu(a) c = Neg(b) y = Concat <axis = 0> (e, c) }",
        "m (float[2,0] x) => (float[3,0] y) <float[1,0] c> { a = Concat <axis = 0> (x, c) y = Exp(a) }",
        "m (float[1,0,2,2] x) => (float[2,0,2,2] y) { a = Concat <axis = 0> (x, x) y = Relu(a) }",
    ],
)
def test_an_empty_value_in_the_middle_needs_no_memory(text: str) -> None:
    session = InferenceSession(package(text), threads=1)
    (port,) = session.get_inputs()
    x = np.random.default_rng(0).standard_normal(port.shape).astype(np.float32)
    (expected,) = ort.InferenceSession(model(text).SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=1e-6)


def test_a_chain_of_views_is_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 300 views in a row is read by a task of its own."""
    asked = 0

    def is_view(node: Node) -> bool:
        nonlocal asked
        asked += 1
        return ops.is_view(node)

    monkeypatch.setattr(flatten, "is_view", is_view)
    lines = ["a0 = Tanh(x)"]
    for i in range(300):
        lines.append(f"a{i + 1} = {'Squeeze' if i % 2 else 'Unsqueeze'}(a{i}, z) e{i} = Exp(a{i + 1})")
    sums = ", ".join(f"e{i}" for i in range(1, 300, 2))
    text = f"m (float[4] x) => (float[4] y) <int64[1] z = {{0}}> {{ {' '.join(lines)} y = Sum({sums}) }}"
    package(text, {"skip_pass": "TransposeReshapeMergePass"})
    assert 300 < asked < 2000


def test_constants_whose_digests_collide_keep_their_own_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, "digest", property(lambda self: b"made to collide"))
    constants = "<float[2] a = {1.0, 2.0}, float[2] b = {5.0, 7.0}>"
    text = f"m (float[2] x) => (float[2] y) {constants} {{ t = Mul(x, a) y = Add(t, b) }}"
    session = InferenceSession(package(text), threads=1)
    np.testing.assert_array_equal(session.run(None, {"x": np.array([1, 1], np.float32)})[0], [6, 9])
