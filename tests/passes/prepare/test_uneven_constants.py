"""Constants that are neutral, or uniform, but for one element: no pass may take the first or the last for all."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from atcpy import InferenceSession
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model

X, N = "float[2,4,3,3] x", 4
CONV = "float[4,4,3,3] w"
CASES = {
    # name: inputs, the constant's type and shape, its value and the odd one, other constants, nodes
    "Mul": (X, "float[4,1,1]", 1, 2, "", "y = Mul(x, c)"),
    "Div": (X, "float[4,1,1]", 1, 2, "", "y = Div(x, c)"),
    "Add": (X, "float[4,1,1]", 0, 2, "", "y = Add(c, x)"),
    "Sub": (X, "float[4,1,1]", 0, 2, "", "y = Sub(x, c)"),
    "Pow": (X, "float[4,1,1]", 1, 2, "", "y = Pow(x, c)"),
    "square": (X, "float[4,1,1]", 2, 3, "", "y = Pow(x, c)"),
    "Max": (X, "float[4,1,1]", 0, 1, "", "y = Max(x, c)"),
    "Min": (X, "float[4,1,1]", 6, 0.5, "", "r = Relu(x) y = Min(r, c)"),
    "And": ("bool[2,4] x", "bool[4]", 1, 0, "", "y = And(x, c)"),
    "Or": ("bool[2,4] x", "bool[4]", 0, 1, "", "y = Or(x, c)"),
    "Where": (X, "bool[4,1,1]", 1, 0, "", "r = Neg(x) y = Where(c, x, r)"),
    "PRelu": (X, "float[4,1,1]", 0.25, 0.5, "", "y = PRelu(x, c)"),
    "Conv Mul": (X, "float[1,4,1,1]", 1, 2, CONV, "t = Conv(x, w) y = Mul(t, c)"),
    "Conv Add": (X, "float[1,4,1,1]", 0, 2, CONV, "t = Conv(x, w) y = Add(t, c)"),
    "Conv bias": (X, "float[4]", 0, 2, CONV, "y = Conv(x, w, c)"),
    "Mul Conv": (X, "float[1,4,1,1]", 1, 2, CONV, "t = Mul(x, c) y = Conv(t, w)"),
    "Add Conv": (X, "float[1,4,1,1]", 0, 2, CONV, "t = Add(x, c) y = Conv(t, w)"),
    "ConvTranspose Mul": (X, "float[1,4,1,1]", 1, 2, CONV, "t = ConvTranspose(x, w) y = Mul(t, c)"),
    "BatchNormalization scale": (
        X, "float[4]", 1, 2, f"{CONV}, float[4] b, float[4] var",
        "t = Conv(x, w) y = BatchNormalization<epsilon = 0.0>(t, c, b, b, var)",
    ),
    "BatchNormalization mean": (
        X, "float[4]", 0, 2, f"{CONV}, float[4] one = {{1,1,1,1}}",
        "t = Conv(x, w) y = BatchNormalization<epsilon = 0.0>(t, one, c, c, one)",
    ),
    "BatchNormalization var": (
        X, "float[4]", 1, 2, f"{CONV}, float[4] one = {{1,1,1,1}}, float[4] none = {{0,0,0,0}}",
        "t = Conv(x, w) y = BatchNormalization<epsilon = 0.0>(t, one, none, none, c)",
    ),
    "LayerNormalization Mul": (
        "float[3,4] x", "float[4]", 1, 2, "float[4] s", "t = LayerNormalization(x, s) y = Mul(t, c)",
    ),
    "LayerNormalization scale": ("float[3,4] x", "float[4]", 1, 2, "", "y = LayerNormalization(x, c)"),
    "LayerNormalization bias": ("float[3,4] x", "float[4]", 0, 2, "float[4] s", "y = LayerNormalization(x, s, c)"),
    "InstanceNormalization": (X, "float[4]", 1, 2, "float[4] b", "y = InstanceNormalization(x, c, b)"),
    "MatMul Mul": ("float[3,4] x", "float[4]", 1, 2, "float[4,4] w", "t = MatMul(x, w) y = Mul(t, c)"),
    "MatMul Add": ("float[3,4] x", "float[4]", 0, 2, "float[4,4] w", "t = MatMul(x, w) y = Add(c, t)"),
    "Gemm Mul": ("float[3,4] x", "float[4]", 1, 2, "float[4,4] w, float[4] b", "t = Gemm(x, w, b) y = Mul(t, c)"),
    "Concat": (X, "float[2,4,1,3]", 0, 1, "", "y = Concat<axis = 2>(x, c)"),
    "Concat of ones": ("float[2,4] x", "float[2,2]", 1, 2, "", "y = Concat<axis = 1>(c, x)"),
    "Pad": (X, "int64[8]", 0, 1, "", "y = Pad(x, c)"),
    "Tile": (X, "int64[4]", 1, 2, "", "y = Tile(x, c)"),
    "Expand": ("float[1,1,1,1] x", "int64[4]", 1, 2, "", "y = Expand(x, c)"),
    "Slice starts": (X, "int64[4]", 0, 1, "int64[4] ends = {9,9,9,9}", "y = Slice(x, c, ends)"),
    "Slice ends": (X, "int64[4]", 9, 1, "int64[4] starts = {0,0,0,0}", "y = Slice(x, starts, c)"),
    "Slice steps": (
        X, "int64[4]", 1, 2, "int64[4] starts = {0,0,0,0}, int64[4] ends = {9,9,9,9}, int64[4] axes = {0,1,2,3}",
        "y = Slice(x, starts, ends, axes, c)",
    ),
    "Resize": (X, "float[4]", 1, 2, "", "y = Resize(x, , c)"),
    "Gather": (X, "int64[4]", 1, 0, "", "y = Gather<axis = 1>(x, c)"),
    "Dequantize scale": (
        "int8[2,4] x", "float[4]", 0.5, 0.25, "int8[4] z = {0,0,0,0}", "y = DequantizeLinear<axis = 1>(x, c, z)",
    ),
    "Dequantize zero": (
        "int8[2,4] x", "int8[4]", 0, 1, "float[4] s = {1,1,1,1}", "y = DequantizeLinear<axis = 1>(x, s, c)",
    ),
    "Quantize scale": ("float[2,4] x", "float[4]", 0.5, 0.25, "int8[4] z = {0,0,0,0}", "y = QuantizeLinear(x, c, z)"),
    "Quantize zero": ("float[2,4] x", "int8[4]", 0, 1, "float[4] s = {1,1,1,1}", "y = QuantizeLinear(x, s, c)"),
    "Where mask": ("float[2,2,4] x", "bool[2,4]", 1, 0, "float low = {-9}", "t = Where(c, x, low) y = Softmax(t)"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_odd_element_counts(name: str) -> None:
    inputs, kind, value, odd, others, nodes = CASES[name]
    _, _, dims = kind.rstrip("]").partition("[")
    size = int(np.prod([int(dim) for dim in dims.split(",")]))
    for position in {0, size // 2, size - 1}:
        numbers = [odd if index == position else value for index in range(size)]
        constant = f"{kind} c = {{{', '.join(map(str, numbers))}}}"
        constants = ", ".join(filter(None, (constant, others)))
        source = model(f"m ({inputs}) => (y) <{constants}> {{ {nodes} }}")
        session = InferenceSession(writer.to_bytes(compile_model(source, convert_options({}))[0]), threads=1)
        (port,) = session.get_inputs()
        x = (np.random.default_rng(position).standard_normal(port.shape) * 3).astype(port.dtype.numpy)
        if name == "Pow":
            x = np.abs(x)
        oracle = onnxruntime.InferenceSession(source.SerializeToString(), providers=["CPUExecutionProvider"])
        (expected,) = oracle.run(None, {"x": x})
        (actual,) = session.run(None, {"x": x})
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5, err_msg=constant)
