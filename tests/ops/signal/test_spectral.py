"""STFT: the numbers of frames and bins are inferred at compile time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest

import atcpy
from atcpy.errors import ModelInvalid
from atcpy.ir.tensor import Array
from tests.harness import make_node, reference_op

SIGNAL = np.random.default_rng(1).normal(size=(2, 50, 1)).astype(np.float32)


@pytest.mark.parametrize("attrs", [{}, {"onesided": 1}, {"onesided": 0}])
@pytest.mark.parametrize(("step", "length", "window"), [(7, 16, None), (7, None, 16), (5, 9, 9), (50, 50, None)])
def test_the_inferred_shape_is_that_of_the_result(
    attrs: Mapping[str, object], step: int, length: int | None, window: int | None
) -> None:
    arrays: list[Array | None] = [SIGNAL, np.array(step)]
    arrays.append(None if window is None else np.hanning(window).astype(np.float32))
    arrays.append(None if length is None else np.array(length))
    node = make_node("STFT", arrays, attrs, constants=(1, 3))
    assert node.output.desc.static_shape == reference_op(node, arrays)[0].shape


def test_it_runs() -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[2,50,1] x) => (float[2,5,9,2] y)
      <int64 step = {8}, int64 length = {16}> { y = STFT(x, step, , length) }"""
    (found,) = atcpy.backend.run_model(onnx.parser.parse_model(text), [SIGNAL])
    frames = np.stack([SIGNAL[:, at : at + 16, 0] for at in range(0, 35, 8)], 1)
    expected = np.fft.rfft(frames.astype(np.float64))
    np.testing.assert_allclose(found, np.stack([expected.real, expected.imag], -1), rtol=1e-4, atol=1e-5)


def test_a_frame_longer_than_the_signal_is_refused() -> None:
    with pytest.raises(ModelInvalid, match="frames of 51 every 2"):
        make_node("STFT", [SIGNAL, np.array(2), None, np.array(51)], {}, constants=(1, 3))
