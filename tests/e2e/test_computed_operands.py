"""Ops that need constants where a model computes them."""

from pathlib import Path

import onnx
import pytest

import atcpy
from atcpy.verify.verification import verify

# The fast kernels of Conv want constant weights; another takes them as they come.
CONV = "(float[1,20,8,8] x, float[24,20,3,3] w) => (float[1,24,8,8] y) { y = Conv<pads = [1,1,1,1]>(x, w) }"
BETWEEN = """(float[1,20,8,8] x, float[20,20,1,1] w) => (float[1,20,4,4] y)
  { a = MaxPool<kernel_shape = [2,2], strides = [2,2]>(x)  b = Conv(a, w)  y = Relu(b) }"""


@pytest.mark.parametrize("text", [CONV, BETWEEN], ids=["alone", "between kernels"])
def test_a_conv_with_computed_weights_is_right(tmp_path: Path, text: str) -> None:
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text}'), tmp_path / "m.onnx")
    report = atcpy.convert(tmp_path / "m.onnx", tmp_path / "m.om")
    assert report.host_cpu_ops == ()
    assert verify(tmp_path / "m.om").error is None
