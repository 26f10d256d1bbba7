"""Quantised models with scales as they come: within one step of ONNX Runtime, which runs them as they are written."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from atcpy.ir.tensor import Array
from atcpy.om import reader, writer
from atcpy.options import ConvertOptions
from atcpy.runtime import InferenceSession
from atcpy.stages.pipeline import compile_model
from tests.ort import open_ort

CONV = """(float[1,16,9,9] x) => (uint8[1,24,9,9] y)
<uint8[24,16,3,3] w, uint8[24] wz, float[24] b> {
  xq = QuantizeLinear(x, xs, xz)  xf = DequantizeLinear(xq, xs, xz)
  wf = DequantizeLinear<axis = 0>(w, ws, wz)
  c = Conv<pads = [1,1,1,1]>(xf, wf, b)  r = Clip(c, low, high)  y = QuantizeLinear(r, ys, yz) }"""
DEPTHWISE = """(float[1,20,9,9] x) => (uint8[1,20,5,5] y)
<uint8[20,1,3,3] w, uint8[20] wz, float[20] b> {
  xq = QuantizeLinear(x, xs, xz)  xf = DequantizeLinear(xq, xs, xz)
  wf = DequantizeLinear<axis = 0>(w, ws, wz)
  c = Conv<pads = [1,1,1,1], strides = [2,2], group = 20>(xf, wf, b)  y = QuantizeLinear(c, ys, yz) }"""
GEMM = """(float[7,40] x) => (uint8[7,24] y)
<uint8[24,40] w, uint8[24] wz, float[24] b> {
  xq = QuantizeLinear(x, xs, xz)  xf = DequantizeLinear(xq, xs, xz)
  wf = DequantizeLinear<axis = 0>(w, ws, wz)
  c = Gemm<transB = 1>(xf, wf, b)  y = QuantizeLinear(c, ys, yz) }"""
CONV_1D = """(float[1,16,30] x) => (uint8[1,24,30] y)
<uint8[24,16,3] w, uint8[24] wz, float[24] b> {
  xq = QuantizeLinear(x, xs, xz)  xf = DequantizeLinear(xq, xs, xz)
  wf = DequantizeLinear<axis = 0>(w, ws, wz)
  c = Conv<pads = [1,1]>(xf, wf, b)  y = QuantizeLinear(c, ys, yz) }"""
CHAIN = """(float[1,16,6,6] x) => (uint8[1,32,3,3] y)
<float[1] b> {
  xq = QuantizeLinear(x, xs, xz)  xf = DequantizeLinear(xq, xs, xz)
  t = Tanh(xf)  tq = QuantizeLinear(t, ts, xz)  tf = DequantizeLinear(tq, ts, xz)
  p = Mul(xf, tf)  pq = QuantizeLinear(p, ys, yz)  pf = DequantizeLinear(pq, ys, yz)
  j = Concat<axis = 1>(pf, tf)  jq = QuantizeLinear(j, ys, yz)  jf = DequantizeLinear(jq, ys, yz)
  m = MaxPool<kernel_shape = [2,2], strides = [2,2]>(jf)  y = QuantizeLinear(m, ys, yz) }"""


def build(text: str, seed: int) -> onnx.ModelProto:
    """The model with weights, scales and zero points from a seed."""
    rng = np.random.default_rng(seed)
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> quantized {text}')
    channels = next((v.type.tensor_type.shape.dim[0].dim_value for v in model.graph.value_info if v.name == "wz"), 1)
    values: dict[str, Array] = {
        "xs": np.array(rng.uniform(0.01, 0.03), "f4"), "xz": np.array(rng.integers(90, 160), "u1"),
        "ws": rng.uniform(0.001, 0.02, channels).astype("f4"), "ts": np.array(0.0078, "f4"),
        "ys": np.array(rng.uniform(0.02, 0.1), "f4"), "yz": np.array(rng.integers(0, 200), "u1"),
        "low": np.array(-1.3, "f4"), "high": np.array(2.9, "f4"), "b": rng.standard_normal(channels).astype("f4"),
        "wz": rng.integers(100, 160, channels).astype("u1"),
    }  # fmt: skip
    for info in model.graph.value_info:
        if info.name == "w":
            shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
            values["w"] = rng.integers(0, 256, shape).astype("u1")
    read = {name for node in model.graph.node for name in node.input}
    del model.graph.value_info[:]
    model.graph.initializer.extend(numpy_helper.from_array(v, name) for name, v in values.items() if name in read)
    return model


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("text", "family"),
    [(CONV, "qgemm"), (CONV_1D, "qgemm"), (DEPTHWISE, "qdepthwise"), (GEMM, "qgemm"), (CHAIN, "byte_table")],
    ids=["conv", "conv_1d", "depthwise", "gemm", "chain"],
)
def test_is_within_one_step(text: str, family: str, seed: int) -> None:
    model = build(text, seed)
    compiled, _ = compile_model(model, ConvertOptions())
    package = writer.to_bytes(compiled)
    used = {task.kernel for task in reader.parse_package(package).tasks}
    assert family in used
    assert not used & {"conv2d", "depthwise2d", "matmul", "host"}
    oracle = open_ort(model)
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"x": np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}
    ours, theirs = (session.run(None, feeds)[0] for session in (InferenceSession(package, threads=1), oracle))
    far = np.abs(ours.astype(np.int32) - theirs.astype(np.int32))
    assert far.max() <= 1
    assert (far > 0).mean() < 0.01
    assert np.ptp(theirs) > 20  # not all saturated
