"""Constants that have more dims than what they are multiplied with or added to."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from atcpy import InferenceSession
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model


@pytest.mark.parametrize(
    "text",
    [
        "m (float[2,8] x) => (float[1,2,8] y) <float[8] one = {1,1,1,1,1,1,1,1}, float[1,1,8] c>"
        "{ n = LayerNormalization(x, one) y = Mul(n, c) }",
        "m (float[2,8] x) => (float[1,2,8] y) <float[8] one = {1,1,1,1,1,1,1,1}, float[1,1,8] c>"
        "{ n = LayerNormalization(x, one) y = Add(n, c) }",
        "m (float[2,8] x) => (float[1,2,8] y) <float[8] one = {1,1,1,1,1,1,1,1}, float[1,1,1] c>"
        "{ n = LayerNormalization(x, one) y = Mul(n, c) }",
        "m (float[1,4,3,3] x) => (float[1,1,4,3,3] y) <float[4] s, float[4] b, float[1,1,4,1,1] c>"
        "{ n = InstanceNormalization(x, s, b) y = Mul(n, c) }",
        "m (float[1,4,3,3] x) => (float[1,1,6,3,3] y) <float[6,4,1,1] w, float[1,1,6,1,1] c>"
        "{ n = Conv(x, w) y = Mul(n, c) }",
    ],
)
def test_a_constant_of_more_dims_stays(text: str) -> None:
    source = model(text)
    compiled, _ = compile_model(source, convert_options({}), None)
    session = InferenceSession(writer.to_bytes(compiled), threads=1)
    (port,) = session.get_inputs()
    x = np.random.default_rng(3).standard_normal(port.shape).astype(np.float32)
    oracle = onnxruntime.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = oracle.run(None, {"x": x})
    (got,) = session.run(None, {"x": x})
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
