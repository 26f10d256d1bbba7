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
        ("b = Add(a, a)", True),
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


def two_functions(between: str, dims: str = "64,4") -> str:
    """Of a byte, rounded to bytes each, or of two bytes."""
    return f"""m (uint8[{dims}] x, uint8[{dims}] w) => (int8[{dims}] y) <
        float s = {{0.1}}, uint8 z = {{100}}, float t = {{0.004}}, uint8 o = {{3}}, float u = {{0.05}},
        int8 i = {{-7}}> {{
        a = DequantizeLinear(x, s, z)  c = DequantizeLinear(w, s, z)
        f = Sigmoid(a)  g = QuantizeLinear(f, t, o)  h = DequantizeLinear(g, t, o)
        p = Tanh(a)  q = QuantizeLinear(p, t, o)  r = DequantizeLinear(q, t, o)
        {between}  y = QuantizeLinear(b, u, i) }}"""


@pytest.mark.parametrize(
    ("between", "is_table"),
    [
        ("b = Mul(a, h)", True), ("b = Mul(h, a)", True), ("b = Add(h, r)", True), ("b = Mul(h, h)", True),
        ("b = Mul(c, h)", False), ("b = Add(a, c)", False), ("b = Mul(c, c)", True),
    ],
)  # fmt: skip
def test_functions_of_one_byte_are_looked_up_together(between: str, is_table: bool) -> None:
    proto = model(two_functions(between))
    compiled, _ = compile_model(proto, convert_options({}))
    ops = [node.op_type for node in compiled.graph.nodes]
    assert (ops.count("ByteTable") == 1 and not {"QLinearAdd", "QLinearMul"} & set(ops)) is is_table
    alone, _ = compile_model(proto, convert_options({"optimization_switch": "ByteTableBinaryFusionPass:off"}))
    x = np.arange(256, dtype=np.uint8).reshape(64, 4)
    feeds = {"x": x, "w": x[::-1].copy()}
    y, separate = (InferenceSession(writer.to_bytes(each)).run(None, feeds)[0] for each in (compiled, alone))
    np.testing.assert_array_equal(y, separate)
    np.testing.assert_array_equal(y, ReferenceEvaluator(proto).run(None, feeds)[0])


def test_a_table_that_others_read_stays() -> None:
    text = two_functions("b = Mul(a, h)").replace("(int8[64,4] y)", "(int8[64,4] y, uint8[64,4] g)")
    compiled, _ = compile_model(model(text), convert_options({}))
    assert [node.op_type for node in compiled.graph.nodes].count("ByteTable") == 2
