"""Which ops between a DequantizeLinear and a QuantizeLinear become a table of bytes, and what is in it."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from atcpy import InferenceSession
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model

CONSTANTS = "float s = {0.1}, uint8 z = {100}, float two = {2}, float[3] three = {1, 2, 3}, float[1] one = {0.25}"


@pytest.mark.parametrize(
    ("between", "is_table"),
    [
        ("b = Tanh(a)", True),
        ("b = Sin(a)", True),
        ("b = Sub(a, two)", True),
        ("b = PRelu(a, one)", True),
        ("c = Floor(a) b = Pow(c, two)", True),
        ("b = Sub(two, a)", False),  # the constant comes first
        ("b = Add(a, three)", False),
        ("b = Add(a, a)", False),
        ("c = Cast<to = 11>(a) b = Cast<to = 1>(c)", False),  # float64 in between
        ("b = Softmax(a)", False),
    ],
)
def test_functions_of_one_element_become_a_table(between: str, is_table: bool) -> None:
    proto = model(f"""m (uint8[64,3] x) => (uint8[64,3] y) <{CONSTANTS}> {{
        a = DequantizeLinear(x, s, z) {between} y = QuantizeLinear(b, s, z) }}""")
    compiled, _ = compile_model(proto, convert_options({}))
    assert ("ByteTable" in {node.op_type for node in compiled.graph.nodes}) is is_table
    x = np.arange(192, dtype=np.uint8).reshape(64, 3) + np.uint8(32)
    [y] = InferenceSession(writer.to_bytes(compiled)).run(None, {"x": x})
    [expected] = ReferenceEvaluator(proto).run(None, {"x": x})
    assert np.abs(y.astype(int) - expected).max() <= (0 if is_table else 1)
