"""Bytes added behind a convolution: to the bit what DequantizeLinear, Add and QuantizeLinear make of each pair."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from atcpy.ir.tensor import Array
from atcpy.om import reader, writer
from atcpy.options import ConvertOptions
from atcpy.passes.prepare.quantised.sum_factors import find_sum_factors
from atcpy.passes.quantization_params import Steps
from atcpy.runtime import InferenceSession
from atcpy.stages.pipeline import compile_model

RESIDUAL = """<ir_version: 10, opset_import: ["" : 21]>
residual (TYPE[1,16,64,64] a, TYPE[1,16,64,64] r) => (TYPE[1,16,64,64] y)
<int8[16,16,1,1] w, float one, TYPE az, int8 wz> {
  af = DequantizeLinear(a, xs, xz)  wf = DequantizeLinear(w, one, wz)
  c = Conv(af, wf)  cq = QuantizeLinear(c, xs, xz)  cf = DequantizeLinear(cq, xs, xz)
  rf = DequantizeLinear(r, rs, rz)  s = Add(rf, cf)  y = QuantizeLinear(s, ys, yz) }"""
COMMON = (0.0211, 0.0173, 0.0307)
TIES = (0.0123, 0.0123 / 16, 0.0123)  # a sixteenth of the sums ends in a half, but for the rounding of float32


def steps(scale: float, zero: int, dtype: str) -> Steps:
    return Steps(np.array(scale, np.float32), np.array(zero, dtype))


def residual_model(scales: tuple[float, ...], zeros: tuple[int, ...], dtype: str) -> onnx.ModelProto:
    """A convolution that changes nothing, and a sum with its result."""
    model = parser.parse_model(RESIDUAL.replace("TYPE", {"u1": "uint8", "i1": "int8"}[dtype]))
    values: dict[str, Array] = {f"{name}s": np.array(scale, "f4") for name, scale in zip("xry", scales, strict=True)}
    values |= {f"{name}z": np.array(zero, dtype) for name, zero in zip("xry", zeros, strict=True)}
    values |= {"w": np.eye(16, dtype="i1").reshape(16, 16, 1, 1), "wz": np.array(0, "i1"), "one": np.array(1, "f4")}
    del model.graph.value_info[:]
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in values.items())
    return model


def check_all_pairs(scales: tuple[float, ...], zeros: tuple[int, ...], dtype: str) -> set[str]:
    """Run the model on all pairs of bytes, and return the kernels it has."""
    compiled, _ = compile_model(residual_model(scales, zeros, dtype), ConvertOptions())
    package = writer.to_bytes(compiled)
    bytes_ = np.arange(256, dtype="u1").view(dtype)
    a, r = (np.reshape(each, (1, 16, 64, 64)).copy() for each in np.meshgrid(bytes_, bytes_))
    numbers = [
        (each.astype(np.float32) - np.float32(zero)) * np.float32(scale)
        for each, zero, scale in zip((a, r), zeros, scales, strict=False)
    ]
    total = np.rint((numbers[0] + numbers[1]) / np.float32(scales[2])) + np.float32(zeros[2])
    expected = np.clip(total, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)
    ours = InferenceSession(package, threads=1).run(None, {"a": a, "r": r})[0]
    np.testing.assert_array_equal(ours, expected)
    return {task.kernel for task in reader.parse_package(package).tasks}


@pytest.mark.parametrize(
    ("scales", "zeros", "dtype"),
    [
        (COMMON, (3, 128, 7), "u1"),
        (COMMON, (-128, 5, -128), "i1"),
        ((0.5, 0.25, 0.5), (0, 0, 0), "u1"),
        ((0.031, 0.031, 0.031), (255, 255, 0), "u1"),
        ((0.07, 0.002, 0.0333), (127, -128, 127), "i1"),
    ],
)
def test_every_sum_is_that_of_floats(scales: tuple[float, ...], zeros: tuple[int, ...], dtype: str) -> None:
    assert "qbinary" not in check_all_pairs(scales, zeros, dtype)


def test_without_factors_bytes_are_added_by_a_task_of_their_own() -> None:
    assert find_sum_factors(*(steps(scale, 0, "u1") for scale in TIES)) is None
    assert "qbinary" in check_all_pairs(TIES, (0, 0, 0), "u1")


def test_most_scales_have_factors() -> None:
    rng = np.random.default_rng(3)
    found = [
        find_sum_factors(*(steps(rng.uniform(0.003, 0.1), rng.integers(0, 256), "u1") for _ in range(3)))
        for _ in range(20)
    ]
    assert sum(each is not None for each in found) >= 19


@pytest.mark.parametrize(
    ("quotient", "is_near"), [(2.0**-10, True), (2.0**-10 * 0.999, False), (64.0, True), (64.1, False)]
)
def test_scales_may_differ_by_so_much(quotient: float, is_near: bool) -> None:
    one, other = steps(1, 0, "i1"), steps(quotient, 0, "i1")
    assert (find_sum_factors(one, other, one) is not None) == is_near
    assert (find_sum_factors(other, one, one) is not None) == is_near
