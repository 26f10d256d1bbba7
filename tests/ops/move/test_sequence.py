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


@pytest.mark.parametrize("length", [-1, 5])
def test_an_invalid_length_is_a_fault(length: int) -> None:
    arrays = [arange((4, 2)), np.array([1, length])]
    with pytest.raises(_kernels.Fault) as caught:
        run_op(make_node("ReverseSequence", arrays), arrays)
    assert caught.value.args[1:] == (1, length, 4)


def test_what_onnx_forbids_is_refused() -> None:
    with pytest.raises(ModelInvalid, match="are not 0 and 1"):
        make_node("ReverseSequence", [arange((4, 2)), np.array([1, 2])], {"time_axis": 2})
