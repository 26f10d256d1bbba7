"""DFT and STFT against the ONNX reference, which uses numpy's transforms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir.tensor import Array
from atcpy.ops.signal.fourier import supports_dft
from tests.effort import trials
from tests.harness import make_node, reference_op, run_op

Attrs = dict[str, object]


@settings(max_examples=trials(60), deadline=None)
@given(data=st.data())
def test_dft_agrees_with_the_reference(data: st.DataObject) -> None:
    draw, size = data.draw, st.integers
    attrs: Attrs = {"inverse": draw(size(0, 1)), "onesided": draw(size(0, 1))}
    halves = attrs["inverse"] and attrs["onesided"]
    parts = draw(size(1, 2)) if not attrs["onesided"] else 2 if halves else 1
    shape = (draw(size(1, 2)), draw(size(2, 33)), draw(size(1, 3)), parts)
    axis = draw(st.sampled_from([1, -3, 2])) if not halves else 1
    length = draw(st.sampled_from([None, 1, 2, 5, 8, 30, 64])) if not halves else 2 * (shape[1] - 1)
    dtype = draw(st.sampled_from(["f4", "f8"]))
    x = np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)
    arrays: list[Array | None] = [x, None if length is None else np.array(length), np.array(axis)]
    node = make_node("DFT", arrays, attrs, constants=(1, 2))
    expected = reference_op(node, arrays)[0]
    assert node.output.desc.static_shape == expected.shape
    tolerance = 1e-5 if dtype == "f4" else 1e-12
    ours = run_op(node, arrays, threads=2)[0]
    np.testing.assert_allclose(ours, expected, rtol=0, atol=tolerance * max(1.0, float(np.abs(expected).max())))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("window", [False, True])
@pytest.mark.parametrize("length", [16, 12])
def test_stft_agrees_with_the_reference(dtype: str, onesided: int, window: bool, length: int) -> None:
    rng = np.random.default_rng(6)
    x = rng.standard_normal((2, 61, 1)).astype(dtype)
    arrays: list[Array | None] = [
        x, np.array(7), np.hanning(length).astype(dtype) if window else None, np.array(length),
    ]  # fmt: skip
    node = make_node("STFT", arrays, {"onesided": onesided}, constants=(1, 3))
    expected = reference_op(node, arrays)[0]
    assert node.output.desc.static_shape == expected.shape
    np.testing.assert_allclose(run_op(node, arrays, threads=2)[0], expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    ("length", "dtype", "reasons"),
    [(10, "f4", ["rounding"]), (16, "f4", ["rounding"]), (17, "f4", []), (10, "f8", [])],
)
def test_short_inverses_are_numpys(length: int, dtype: str, reasons: list[str]) -> None:
    x = np.zeros((2, length, 3, 2), dtype)
    node = make_node("DFT", [x, None, np.array(1)], {"inverse": 1}, constants=(2,))
    assert [reject.reason for reject in supports_dft(node)] == reasons
