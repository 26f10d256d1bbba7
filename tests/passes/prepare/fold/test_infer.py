"""Known elements of small tensors: what shape arithmetic keeps is what the kernels would compute."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
import pytest

from atcpy import InferenceSession
from tests.models_in_text import model, package


@pytest.mark.parametrize(
    "text",
    [
        "m (int32[1] x) => (int32[1] y) <int32[1] a = {65536}> { b = Mul(a, a) y = Add(x, b) }",
        "m (int32[1] x) => (int32[1] y) <int32[1] a = {65537}> { b = Mul(a, a) c = Div(b, a) y = Add(x, c) }",
        "m (int32[1] x) => (int32[1] y) <int32[1] a = {-2147483648}, int32[1] c = {1}> { b = Sub(a, c) y = Max(x, b) }",
        "m (int64[1] x) => (int64[1] y) <int64[1] a = {9223372036854775807}> { b = Add(a, a) y = Add(x, b) }",
    ],
)
def test_integers_wrap_around_when_folded(text: str) -> None:
    session = InferenceSession(package(text), threads=1)
    x = np.array([3], session.get_inputs()[0].dtype.numpy)
    (expected,) = ort.InferenceSession(model(text).SerializeToString()).run(None, {"x": x})
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], expected)
