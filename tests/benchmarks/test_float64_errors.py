"""Errors against float64: what is computed there, and which bounds are judged."""

from __future__ import annotations

from pathlib import Path

import float64_errors
import numpy as np
import onnx
import pytest

from tests.models_in_text import model

SCAN = """m (float[3] a, float[4,3] x) => (float[3] s, float[4,3] y) {
    s, y = Scan <num_scan_inputs = 1, body = b (float[3] c, float[3] i) => (float[3] d, float[3] o) {
        d = Add(c, i)  o = Exp(d)
    }> (a, x)
}"""


def errors(**changes: float | None) -> float64_errors.Errors:
    values = {"default": 1e-6, "high_precision": 1e-6, "theirs": 1e-6} | changes
    return float64_errors.Errors("m", **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("row", "misses"),
    [
        (errors(), []),
        (errors(default=2e-4), ["default"]),
        (errors(default=2e-4, rounding=2**-11), []),
        (errors(high_precision=4.1e-6), ["high_precision"]),
        (errors(high_precision=4.1e-6, theirs=None), []),
        (errors(high_precision=1e-7, theirs=1e-9), []),  # the last digit
    ],
)
def test_bounds(row: float64_errors.Errors, misses: list[str]) -> None:
    assert row.misses == misses
    lines = list(float64_errors.table([row]))
    assert lines[-1].endswith(f"| {', '.join(misses)} |") and lines[-1].count("|") == lines[0].count("|")


def test_bodies_are_computed_in_float64() -> None:
    a, x = np.full(3, 0.1, np.float32), np.full((4, 3), 0.2, np.float32)
    exact = float64_errors.evaluate_exactly(model(SCAN), {"a": a, "x": x})
    assert exact is not None
    sums = a.astype(np.float64) + np.cumsum(x.astype(np.float64), axis=0)
    np.testing.assert_allclose(exact["s"], sums[-1], rtol=1e-15)
    np.testing.assert_allclose(exact["y"], np.exp(sums), rtol=1e-15)


def test_models_in_float16_are_computed_in_float64() -> None:
    proto = model("m (float16[2] x) => (float16[2] y) { a = Mul(x, w) y = Exp(a) }")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0.1, 3], np.float16), "w"))
    x = np.array([0.5, 0.25], np.float16)
    exact = float64_errors.evaluate_exactly(proto, {"x": x})
    assert exact is not None and exact["y"].dtype == np.float64
    weights = np.array([0.1, 3], np.float16).astype(np.float64)
    np.testing.assert_allclose(exact["y"], np.exp(x.astype(np.float64) * weights), rtol=1e-15)


def test_what_nobody_computes_has_no_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(model("m () => (float[2] y) { y = RandomNormal <shape = [2]> () }"), tmp_path / "random.onnx")
    onnx.save(model("m (float[8,8] x) => (float[8,8] y) { a = MatMul(x, x) y = Softmax(a) }"), tmp_path / "m.onnx")
    float64_errors.main([tmp_path / "random.onnx", tmp_path / "m.onnx"], threads=1)
    printed = capsys.readouterr()
    assert "random: not computed in float64" in printed.err
    assert "| `m` |" in printed.out and printed.out.endswith("within both bounds: 1 of 1\n")
