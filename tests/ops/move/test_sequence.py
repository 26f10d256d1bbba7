"""ReverseSequence against the ONNX reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atcpy.errors import ModelInvalid
from atcpy.kernels import _kernels
from tests.harness import make_node, reference_op, run_op
from tests.ops.exact import ITEMS, arange, assert_same, shapes


@given(shape=st.integers(2, 4).flatmap(shapes), time=st.sampled_from([0, 1]), dtype=st.sampled_from(ITEMS),
       seed=st.integers(0, 999))  # fmt: skip
def test_agrees_with_the_reference(shape: tuple[int, ...], time: int, dtype: type, seed: int) -> None:
    lens = np.random.default_rng(seed).integers(0, shape[time] + 1, shape[1 - time])
    arrays = [arange(shape, dtype), lens]
    node = make_node("ReverseSequence", arrays, {"time_axis": time, "batch_axis": 1 - time})
    assert_same(run_op(node, arrays, threads=2), reference_op(node, arrays))


@pytest.mark.parametrize("time", [0, 1])
@pytest.mark.parametrize("row", [127, 128, 200, 1000, 4095, 4096])
def test_results_larger_than_caches(row: int, time: int) -> None:
    """Rows of bytes that are streamed past the caches, and those that are too short or too long for it."""
    steps = (1 << 25) // (3 * row) + 1
    x = np.resize(np.arange(251, dtype=np.uint8), (steps, 3, row))
    lens = np.array([steps, 2 * steps // 3, 0])
    expected = x.copy()
    for batch, length in enumerate(lens):
        expected[:length, batch] = x[:length, batch][::-1]
    if time == 1:
        x, expected = (np.ascontiguousarray(array.swapaxes(0, 1)) for array in (x, expected))
    arrays = [x, lens]
    node = make_node("ReverseSequence", arrays, {"time_axis": time, "batch_axis": 1 - time})
    assert_same(run_op(node, arrays, threads=2), [expected])


@pytest.mark.parametrize("length", [-1, 5])
def test_an_invalid_length_is_a_fault(length: int) -> None:
    arrays = [arange((4, 2)), np.array([1, length])]
    with pytest.raises(_kernels.Fault) as caught:
        run_op(make_node("ReverseSequence", arrays), arrays)
    assert caught.value.args[1:] == (1, length, 4)


def test_what_onnx_forbids_is_refused() -> None:
    with pytest.raises(ModelInvalid, match="are not 0 and 1"):
        make_node("ReverseSequence", [arange((4, 2)), np.array([1, 2])], {"time_axis": 2})
