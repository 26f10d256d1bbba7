"""Det against numpy's determinant in float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir.tensor import Array
from atcpy.ops.matmul.det import MAX_SIDE, supports_det
from tests.effort import trials
from tests.harness import make_node, run_op


def det(x: Array) -> Array:
    return run_op(make_node("Det", [x], {}), [x], threads=2)[0]


@settings(max_examples=trials(60), deadline=None)
@given(
    batch=st.lists(st.integers(0, 4), max_size=3),
    n=st.integers(1, 20),
    rank=st.integers(1, 20),
    dtype=st.sampled_from(["f4", "f8"]),
)
def test_it_agrees_with_numpy(batch: list[int], n: int, rank: int, dtype: str) -> None:
    rng = np.random.default_rng(n)
    x = rng.standard_normal((*batch, n, n)).astype(dtype)
    if rank < n:
        x = rng.integers(-2, 3, (*batch, n, n)).astype(dtype)  # often singular, with zeros in the diagonal
    ours, expected = det(x), np.linalg.det(x.astype("f8"))
    assert ours.dtype == x.dtype and ours.shape == tuple(batch)
    scale = np.prod(np.linalg.norm(x.astype("f8"), axis=-1), axis=-1)  # Hadamard's bound
    np.testing.assert_array_less(np.abs(ours - expected), (1e-6 if dtype == "f4" else 1e-14) * scale + 1e-30)


@pytest.mark.parametrize("n", [MAX_SIDE, 63])
def test_large_matrices(n: int) -> None:
    x = np.random.default_rng(n).standard_normal((3, n, n)) / np.sqrt(n)
    np.testing.assert_allclose(det(x), np.linalg.det(x), rtol=1e-10)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_rows_are_exchanged(dtype: str) -> None:
    shuffled = [np.eye(7)[np.random.default_rng(seed).permutation(7)] for seed in range(20)]
    x = np.stack([*shuffled, np.eye(7)[::-1], np.zeros((7, 7))]).astype(dtype)
    np.testing.assert_array_equal(det(x), np.round(np.linalg.det(x)))


def test_what_is_not_a_number_spreads_and_what_is_too_large_is_infinite() -> None:
    x = np.tile(np.eye(3, dtype=np.float32), (6, 1, 1))
    x[0, 0, 0] = x[1, 2, 0] = x[2, 1, 1] = x[3, 2, 2] = np.nan
    x[1, 0, 0] = 0
    x[4] *= 1e20
    x[5] *= -1e20
    np.testing.assert_array_equal(det(x), np.float32([np.nan, np.nan, np.nan, np.nan, np.inf, -np.inf]))


def test_small_pivots_are_divided_by() -> None:
    x = np.array([[5e-310, 5e-310], [0, 2.0]])
    np.testing.assert_allclose(det(x), 1e-309)
    np.testing.assert_allclose(det(np.array([[5e-310, 2.0], [5e-310, 4.0]])), 1e-309)


@pytest.mark.parametrize(("shape", "reasons"), [((0, 0), ["size"]), ((2, 129, 129), ["size"]), ((2, 128, 128), [])])
def test_empty_and_large_matrices_stay_on_the_host(shape: tuple[int, ...], reasons: list[str]) -> None:
    node = make_node("Det", [np.zeros(shape, np.float32)], {})
    assert [reject.reason for reject in supports_det(node)] == reasons
