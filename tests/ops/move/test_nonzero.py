"""NonZero: the same indices as numpy's; a scalar gives a result without rows."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atcpy.ops.elementwise.cast import KERNEL_DTYPES
from tests.harness import make_node, run_op
from tests.ops.exact import assert_same, shapes

DTYPES = [dtype.numpy for dtype in sorted(KERNEL_DTYPES, key=lambda dtype: dtype.onnx)]


@given(shape=st.integers(1, 5).flatmap(shapes), dtype=st.sampled_from(DTYPES), seed=st.integers(0, 999))
def test_agrees_with_numpy(shape: tuple[int, ...], dtype: np.dtype[np.generic], seed: int) -> None:
    x = np.random.default_rng(seed).integers(0, 2, shape).astype(dtype)
    assert_same(run_op(make_node("NonZero", [x]), [x]), [np.array(np.nonzero(x))])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_minus_zero_is_zero_and_nan_is_not(dtype: type) -> None:
    x = np.array([0.0, -0.0, np.nan, -np.nan, 1e-40, -np.inf], dtype)
    assert_same(run_op(make_node("NonZero", [x]), [x]), [np.array(np.nonzero(x))])


@pytest.mark.parametrize("number", [0, 3])
def test_indices_of_a_scalar_have_no_rows(number: int) -> None:
    x = np.array(number, np.float32)
    [indices] = run_op(make_node("NonZero", [x]), [x])
    assert indices.shape == (0, number // 3)
