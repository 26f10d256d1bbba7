"""CumSum and CumProd against the ONNX reference, which rounds in the same order."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import trials
from tests.harness import make_node, reference_op, run_op
from tests.ops.exact import assert_same, shapes

NUMBERS = [np.int32, np.int64, np.uint32, np.uint64, np.float16, np.float32, np.float64, ml_dtypes.bfloat16]


@settings(max_examples=trials(100))
@given(op_type=st.sampled_from(["CumSum", "CumProd"]), shape=st.integers(1, 4).flatmap(shapes),
       axis=st.integers(-4, 3), exclusive=st.booleans(), reverse=st.booleans(), dtype=st.sampled_from(NUMBERS),
       seed=st.integers(0, 999))  # fmt: skip
def test_agrees_with_the_reference(
    op_type: str, shape: tuple[int, ...], axis: int, exclusive: bool, reverse: bool, dtype: type, seed: int
) -> None:
    axis = axis % len(shape) - len(shape)
    if shape[axis] == 0:
        return  # the result is empty, and the reference fails
    x = np.random.default_rng(seed).uniform(-2, 3, shape).astype(dtype)
    arrays = [x, np.array(axis)]
    node = make_node(op_type, arrays, {"exclusive": int(exclusive), "reverse": int(reverse)}, constants=(1,))
    assert_same(run_op(node, arrays, threads=2), reference_op(node, arrays))


def test_many_columns_on_threads_and_nan() -> None:
    x = np.random.default_rng(1).standard_normal((5, 2500)).astype(np.float32)
    x[1, 7], x[2, 8] = np.nan, np.inf
    arrays = [x, np.array(0)]
    node = make_node("CumSum", arrays, constants=(1,))
    assert_same(run_op(node, arrays, threads=2), reference_op(node, arrays))


@pytest.mark.parametrize("dtype", [*NUMBERS, np.int8, np.uint8, np.int16, np.uint16])
@pytest.mark.parametrize("n", [63, 64, 65, 131])
def test_long_rows_of_single_elements(n: int, dtype: type) -> None:
    """Rows of integers from a length on run one after the other, those of floats side by side; integers wrap around."""
    x = np.random.default_rng(n).integers(0, 256, (19, n, 8)).astype(np.uint8).view(np.uint64).reshape(19, n)
    x = x.astype(dtype) if np.dtype(dtype).kind in "iu" else (x % 7).astype(dtype)
    for exclusive, reverse in ((0, 0), (0, 1), (1, 0), (1, 1)):
        arrays = [x, np.array(1)]
        node = make_node("CumSum", arrays, {"exclusive": exclusive, "reverse": reverse}, constants=(1,))
        expected = reference_cumsum(x, bool(exclusive), bool(reverse))
        for threads in (1, 2):
            assert_same(run_op(node, arrays, threads=threads), [expected])


def reference_cumsum(x: np.ndarray, exclusive: bool, reverse: bool) -> np.ndarray:
    """Running sums along the last axis, each rounded to the type of x."""
    x = x[:, ::-1] if reverse else x
    y = np.zeros_like(x)
    for k in range(0 if not exclusive else 1, x.shape[1]):
        before = y[:, k - 1] if k else np.zeros_like(y[:, 0])
        y[:, k] = before + x[:, k - 1 if exclusive else k]
    return y[:, ::-1].copy() if reverse else y


@pytest.mark.parametrize("op_type", ["CumSum", "CumProd"])
def test_empty(op_type: str) -> None:
    x = np.zeros((3, 0), np.float32)
    assert run_op(make_node(op_type, [x, np.array(1)], constants=(1,)), [x, np.array(1)])[0].shape == (3, 0)
