"""Compress and Unique against numpy; the order of first occurrences against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from tests.effort import trials
from tests.harness import make_node, run_op
from tests.ops.exact import ITEMS, arange, assert_same, shapes


@settings(max_examples=trials(60))
@given(shape=st.integers(1, 4).flatmap(shapes), axis=st.none() | st.integers(-4, 3), dtype=st.sampled_from(ITEMS),
       short=st.integers(0, 2), seed=st.integers(0, 999))  # fmt: skip
def test_compress(shape: tuple[int, ...], axis: int | None, dtype: type, short: int, seed: int) -> None:
    axis = None if axis is None else axis % len(shape) - len(shape)
    length = int(np.prod(shape)) if axis is None else shape[axis]
    condition = np.random.default_rng(seed).integers(0, 2, max(length - short, 0)).astype(bool)
    arrays = [arange(shape, dtype), condition]
    node = make_node("Compress", arrays, {} if axis is None else {"axis": axis})
    assert_same(run_op(node, arrays), [np.compress(condition, arrays[0], axis)])


def test_a_condition_beyond_the_axis_is_a_fault() -> None:
    arrays = [arange((3,)), np.array([1, 0, 0, 0, 1], bool)]
    with pytest.raises(_kernels.Fault) as caught:
        run_op(make_node("Compress", arrays), arrays)
    assert caught.value.args[1:] == (1, 4, 3)


def unique(x: Array, axis: int | None, *, is_sorted: bool) -> list[Array]:
    """The four outputs of Unique, computed by numpy."""
    y, indices, inverse, counts = np.unique(x, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not is_sorted:
        order = np.argsort(indices)
        y = np.take(y, order, axis=axis or 0)
        indices, counts, inverse = indices[order], counts[order], np.argsort(order)[inverse]
    return [y, *(array.astype(np.int64) for array in (indices, inverse, counts))]


@settings(max_examples=trials(100))
@given(shape=st.lists(st.integers(1, 5), min_size=1, max_size=3), axis=st.none() | st.integers(-3, 2),
       is_sorted=st.booleans(), outputs=st.integers(1, 4), seed=st.integers(0, 999),
       dtype=st.sampled_from([np.int8, np.uint16, np.int64, np.float16, np.float32, np.float64]))  # fmt: skip
def test_unique(shape: list[int], axis: int | None, is_sorted: bool, outputs: int, dtype: type, seed: int) -> None:
    axis = None if axis is None else axis % len(shape) - len(shape)
    x = np.random.default_rng(seed).integers(0, 3, shape).astype(dtype)
    attrs = {"sorted": int(is_sorted)} | ({} if axis is None else {"axis": axis})
    node = make_node("Unique", [x], attrs, outputs=outputs)
    assert_same(run_op(node, [x]), unique(x, axis, is_sorted=is_sorted)[:outputs])


@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("values", [1, 30, 16_384, 16_385, 10**9])
def test_unique_of_few_and_many(values: int, axis: int | None, is_sorted: bool) -> None:
    """Few are found by their hash, of which a table takes up to 16384; more are sorted."""
    x = np.random.default_rng(2).permutation(np.arange(40_000, dtype=np.int64) % values)
    x = x if axis is None else np.stack([x % 7, x], 1 - axis)
    node = make_node("Unique", [x], {"sorted": int(is_sorted)} | ({} if axis is None else {"axis": axis}), outputs=4)
    assert_same(run_op(node, [x]), unique(x, axis, is_sorted=is_sorted))


def test_unique_of_keys_whose_hashes_collide() -> None:
    """Multiples of the inverse of the hash's factor take neighbouring entries of the table."""
    inverse = pow(0x9E3779B97F4A7C15, -1, 1 << 64)
    keys = np.array([inverse * i % (1 << 64) for i in range(3000)], np.uint64)
    x = np.concatenate([keys, keys, keys])
    assert_same(run_op(make_node("Unique", [x], outputs=4), [x]), unique(x, None, is_sorted=True))


@pytest.mark.parametrize("is_sorted", [False, True])
def test_unique_nan_and_zeros(is_sorted: bool) -> None:
    x = np.array([np.nan, 0.0, 3.0, -0.0, np.nan, -np.inf, np.inf, 3.0], np.float32)
    node = make_node("Unique", [x], {"sorted": int(is_sorted)}, outputs=4)
    assert_same(run_op(node, [x]), unique(x, None, is_sorted=is_sorted))


def test_unique_of_nothing() -> None:
    x = np.zeros((0,), np.float32)
    assert [y.shape for y in run_op(make_node("Unique", [x], outputs=4), [x])] == [(0,)] * 4
