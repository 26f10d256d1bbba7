"""ScatterND and TensorScatter against the ONNX reference."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.kernels import _kernels
from tests.effort import trials
from tests.harness import make_node, reference_op, run_op
from tests.ops.exact import ITEMS, arange, assert_same

NUMBERS = [np.int8, np.int32, np.uint64, np.float16, np.float32, np.float64, ml_dtypes.bfloat16]


@settings(max_examples=trials(60))
@given(dims=st.lists(st.integers(1, 4), min_size=0, max_size=3), inner=st.lists(st.integers(0, 5), max_size=2),
       indices_shape=st.lists(st.integers(0, 4), max_size=2), dtype=st.sampled_from(ITEMS),
       index=st.sampled_from([np.int32, np.int64]), seed=st.integers(0, 999))  # fmt: skip
def test_rows_are_replaced(
    dims: list[int], inner: list[int], indices_shape: list[int], dtype: type, index: type, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    indices = np.array([rng.integers(-dim, dim, indices_shape) for dim in dims], index).reshape(
        len(dims), *indices_shape
    )
    indices = np.ascontiguousarray(np.moveaxis(indices, 0, -1))
    arrays = [arange([*dims, *inner], dtype), indices, arange([*indices_shape, *inner], dtype)]
    node = make_node("ScatterND", arrays)
    assert_same(run_op(node, arrays, threads=2), reference_op(node, arrays))


@settings(max_examples=trials(60))
@given(inner=st.lists(st.integers(1, 5), max_size=2), count=st.integers(1, 9), dtype=st.sampled_from(NUMBERS),
       reduction=st.sampled_from(["add", "mul", "max", "min"]), seed=st.integers(0, 999))  # fmt: skip
@pytest.mark.filterwarnings("ignore:overflow")
def test_rows_are_combined(inner: list[int], count: int, dtype: type, reduction: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, updates = (rng.uniform(1, 9, (size, *inner)).astype(dtype) for size in (3, count))
    arrays = [x, rng.integers(-3, 3, (count, 1)), updates]
    node = make_node("ScatterND", arrays, {"reduction": reduction})
    assert_same(run_op(node, arrays, threads=2), reference_op(node, arrays))


def test_wide_rows_on_threads() -> None:
    rng = np.random.default_rng(1)
    arrays = [rng.random((3, 9001), np.float32), rng.integers(0, 3, (20, 1)), rng.random((20, 9001), np.float32)]
    node = make_node("ScatterND", arrays, {"reduction": "add"})
    assert_same(run_op(node, arrays, threads=2), reference_op(node, arrays))


def test_an_out_of_range_index_is_a_fault() -> None:
    arrays = [arange((5, 3)), np.array([[1], [5]]), arange((2, 3))]
    with pytest.raises(_kernels.Fault) as caught:
        run_op(make_node("ScatterND", arrays), arrays)
    assert caught.value.args[1:] == (1, 5, 5)


@settings(max_examples=trials(60))
@given(shape=st.lists(st.integers(1, 4), min_size=2, max_size=4), axis=st.integers(1, 3), count=st.integers(0, 4),
       dtype=st.sampled_from(ITEMS), circular=st.booleans(), stated=st.booleans(),
       seed=st.integers(0, 999))  # fmt: skip
def test_tensor_scatter(
    shape: list[int], axis: int, count: int, dtype: type, circular: bool, stated: bool, seed: int
) -> None:
    axis = min(axis, len(shape) - 1)
    count = min(count, shape[axis])
    update = [*shape[:axis], count, *shape[axis + 1 :]]
    max_begin = shape[axis] - (0 if circular else count)
    begin = np.random.default_rng(seed).integers(0, max_begin + 1, shape[0])
    arrays = [arange(shape, dtype), arange(update, dtype)[::-1], begin][: 3 if stated else 2]
    node = make_node("TensorScatter", arrays, {"axis": axis - len(shape), "mode": "circular" if circular else "linear"})
    assert_same(run_op(node, arrays, threads=2), reference_op(node, arrays))


@pytest.mark.parametrize("begin", [-1, 3])
def test_a_tensor_scatter_beyond_the_cache_is_a_fault(begin: int) -> None:
    arrays = [arange((2, 4, 3)), arange((2, 2, 3)), np.array([0, begin])]
    with pytest.raises(_kernels.Fault) as caught:
        run_op(make_node("TensorScatter", arrays), arrays)
    assert caught.value.args[1:] == (1, begin, 3)
