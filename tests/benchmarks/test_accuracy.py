"""The table of errors in lower precision: what it measures, and that every side of it runs."""

from __future__ import annotations

from pathlib import Path

import accuracy
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from atcpy.cli.samples import PictureSettings
from tests.models_in_text import model

DENSE = """dense (float[1,8] x) => (float[1,4] y) <float[8,16] w, float[16,4] v> {
  p = MatMul(x, w)  r = Relu(p)  y = MatMul(r, v)
}"""


@pytest.fixture
def dense(tmp_path: Path) -> Path:
    """A model of opset 11, which ONNX Runtime's quantiser does not take as it is, and a folder of samples."""
    proto = model(DENSE)
    proto.opset_import[0].version = 11
    onnx.save(proto, tmp_path / "dense.onnx")
    (tmp_path / "samples").mkdir()
    for number in range(8):
        x = np.random.default_rng(number).standard_normal((1, 8)).astype(np.float32)
        np.savez(tmp_path / "samples" / f"{number}.npz", x=x)
    return tmp_path / "dense.onnx"


def test_errors_of_an_output() -> None:
    measure = accuracy.Measure()
    measure.add(np.array([[1.0, 2.5]]), np.array([[1.0, 2.0]]))
    measure.add(np.array([[3.0, 4.0]]), np.array([[4.0, 4.0]]))
    assert measure.snr_db == pytest.approx(10 * np.log10((1 + 4 + 16 + 16) / (0.25 + 1)))
    assert measure.cells == ("1", "0.38", f"{34 / np.sqrt(37 * 32.25):.5f}", "14.7", "1 of 2")


def test_each_mode_has_its_rows(dense: Path) -> None:
    modes = ["origin", "fp16", "float16", "bfloat16", "int8"]
    rows = list(accuracy.rows(dense, dense.parent / "samples", PictureSettings(), modes, 1))
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [row[:3] for row in cells] == [
        ["dense", "y", "origin"],
        ["dense", "y", "fp16"],
        ["dense", "y", "weights and inputs in float16"],
        ["dense", "y", "weights and inputs in bfloat16"],
        ["dense", "y", "int8"],
        ["dense", "y", "int8, the same model in ONNX Runtime"],
        ["dense", "y", "int8, quantised and run by ONNX Runtime"],
    ]
    snr = [float(row[6]) for row in cells]
    assert snr[0] > 120 > snr[1] > snr[3] > snr[4] > 25
    assert {row[7] for row in cells} == {"4 of 4"}


def test_a_type_of_16_bits_rounds_weights_and_inputs() -> None:
    weight = np.array([1.0, 1 + 2.0**-12, 1 + 2.0**-7], np.float32)
    half = np.dtype(np.float16)
    np.testing.assert_array_equal(accuracy.rounded(weight, half), [1, 1, 1 + 2.0**-7])
    integers = np.array([3])
    assert accuracy.rounded(integers, half) is integers
    proto = model("scaled (float[1] x) => (float[1] y) <float[1] w = {1.0003}> { y = Mul(x, w) }")
    (found,) = accuracy.with_rounded_weights(proto, half).graph.initializer
    assert numpy_helper.to_array(found) == np.float16(1.0003)
