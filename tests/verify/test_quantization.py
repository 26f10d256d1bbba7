import numpy as np
import onnx
import pytest

from atcpy.verify.compare import Tolerance, compare
from atcpy.verify.quantization import quantization_steps


def steps(body: str) -> dict[str, float]:
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (y)
               <float s = {{0.5}}, float t = {{0.25}}, int8 z = {{0}}, int8[4] w = {{1, 2, 3, 4}}> {{ {body} }}"""
    return quantization_steps(onnx.parser.parse_model(text))


def test_the_step_of_a_value_is_its_scale() -> None:
    assert steps("q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, s, z)") == {"y": 0.5}


def test_steps_are_propagated_and_added() -> None:
    body = """q = QuantizeLinear(x, s, z)  a = DequantizeLinear(q, s, z)  r = Relu(a)
              p = QuantizeLinear(r, t, z)  b = DequantizeLinear(p, t, z)  y = Add(r, b)"""
    assert steps(body) == {"a": 0.5, "r": 0.5, "b": 0.25, "y": 0.75}


def test_constants_and_unquantized_ops_have_no_step() -> None:
    assert steps("d = DequantizeLinear(w, s, z)  y = Add(x, d)") == {}
    assert steps("q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  y = Exp(d)") == {"d": 0.5}


def test_a_difference_of_two_steps_passes_and_three_fails() -> None:
    expected = np.array([1.0, 2.0], np.float32)
    assert compare("y", expected + np.float32(1.0), expected, Tolerance(step=0.5)).passed
    assert not compare("y", expected + np.float32(1.0), expected).passed
    report = compare("y", expected + np.float32(1.5), expected, Tolerance(step=0.5))
    assert not report.passed
    assert report.atol == pytest.approx(1 + 2e-4)
