"""GatherElements and ScatterElements against numpy and the ONNX reference; repeated indices apply in order."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.errors import ModelInvalid
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from atcpy.ops import find_opdef
from atcpy.ops.move.elements import supports_scatter_elements
from tests.effort import trials
from tests.harness import make_node, reference_op, run_call, run_op
from tests.ops.exact import ITEMS, arange, assert_same

NUMBERS = [np.int8, np.uint16, np.int32, np.int64, np.uint64, np.float16, np.float32, np.float64, ml_dtypes.bfloat16]
CASES = st.integers(1, 4).flatmap(
    lambda rank: st.tuples(st.lists(st.integers(1, 6), min_size=rank, max_size=rank), st.integers(0, rank - 1))
)


def random_indices(
    shape: list[int], axis: int, count: int, seed: int, dtype: type, *, shrink: bool = True
) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """Random indices in [−size, size) along `axis`, in other dims no larger than the data."""
    rng = np.random.default_rng(seed)
    dims = [count if at == axis else max(size - (seed % 2 if shrink else 0), 1) for at, size in enumerate(shape)]
    return rng.integers(-shape[axis], shape[axis], dims).astype(dtype)


def gathered(x: Array, indices: Array, axis: int) -> Array:
    """GatherElements by its definition, one index at a time."""
    y = np.empty(indices.shape, x.dtype)
    for position in itertools.product(*map(range, indices.shape)):
        y[position] = x[(*position[:axis], indices[position], *position[axis + 1 :])]
    return y


@settings(max_examples=trials(60))
@given(case=CASES, count=st.integers(0, 7), dtype=st.sampled_from(ITEMS), index=st.sampled_from([np.int32, np.int64]),
       seed=st.integers(0, 999))  # fmt: skip
def test_gather(case: tuple[list[int], int], count: int, dtype: type, index: type, seed: int) -> None:
    shape, axis = case
    arrays = [arange(shape, dtype), random_indices(shape, axis, count, seed, index)]
    node = make_node("GatherElements", arrays, {"axis": axis - len(shape)})
    expected = [gathered(arrays[0], arrays[1], axis)]
    assert_same(run_op(node, arrays, threads=2), expected)
    opdef = find_opdef(node)
    assert opdef is not None
    assert opdef.evaluate is not None
    assert_same(opdef.evaluate(node, arrays), expected)


@settings(max_examples=trials(60))
@given(case=CASES, count=st.integers(0, 7), dtype=st.sampled_from(ITEMS), index=st.sampled_from([np.int32, np.int64]),
       seed=st.integers(0, 999))  # fmt: skip
def test_scatter_replaces(case: tuple[list[int], int], count: int, dtype: type, index: type, seed: int) -> None:
    shape, axis = case
    indices = random_indices(shape, axis, count, seed, index)
    arrays = [arange(shape, dtype), indices, arange(indices.shape, dtype)[::-1]]
    node = make_node("ScatterElements", arrays, {"axis": axis})
    assert_same(run_op(node, arrays, threads=2), reference_op(node, arrays))


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.float64])
@pytest.mark.parametrize(
    ("shape", "axis", "dims"),
    [
        ((7, 5000), 0, (9, 4900)), ((3, 300, 70), 0, (4, 299, 61)), ((3, 300, 70), 1, (2, 40, 70)),
        ((5000, 33), 0, (11, 33)), ((300, 1), 0, (50, 1)), ((2, 3, 300), 2, (2, 3, 900)),
    ],
)  # fmt: skip
def test_lanes_side_by_side(shape: tuple[int, ...], axis: int, dims: tuple[int, ...], dtype: type, index: type) -> None:
    """Lanes of more than one block, and of several rows, whose indices repeat; each goes in order."""
    rng = np.random.default_rng(len(shape))
    x, updates = arange(shape, dtype), arange(dims, dtype)[::-1]
    indices = rng.integers(-shape[axis], shape[axis], dims).astype(index)
    at = tuple(np.arange(size).reshape([-1 if i == j else 1 for j in range(len(dims))]) for i, size in enumerate(dims))
    scattered, added = x.copy(), x.astype("f8")
    for i in range(dims[axis]):  # one index of each lane at a time
        layer = (slice(None),) * axis + (slice(i, i + 1),)
        where = tuple(indices[layer] if j == axis else a for j, a in enumerate(at))
        scattered[where] = updates[layer]
        added[where] += updates[layer]
    gather = make_node("GatherElements", [x, indices], {"axis": axis})
    beside = x[tuple(slice(size) if i != axis else slice(None) for i, size in enumerate(dims))]
    for threads in (1, 3):
        taken = np.take_along_axis(beside, indices.astype("i8"), axis)
        assert_same(run_op(gather, [x, indices], threads=threads), [taken])
    arrays = [x, indices, updates]
    assert_same(run_op(make_node("ScatterElements", arrays, {"axis": axis}), arrays, threads=3), [scattered])
    if dtype is np.float64:
        assert_same(run_op(make_node("ScatterElements", arrays, {"axis": axis, "reduction": "add"}), arrays), [added])


@settings(max_examples=trials(100))
@given(case=CASES, count=st.integers(1, 7), dtype=st.sampled_from(NUMBERS), seed=st.integers(0, 999),
       reduction=st.sampled_from(["add", "mul", "max", "min"]))  # fmt: skip
@pytest.mark.filterwarnings("ignore:overflow")
def test_scatter_combines(case: tuple[list[int], int], count: int, dtype: type, seed: int, reduction: str) -> None:
    shape, axis = case
    rng = np.random.default_rng(seed)
    indices = random_indices(shape, axis, count, seed, np.int64)
    arrays = [rng.uniform(1, 9, shape).astype(dtype), indices, rng.uniform(1, 9, indices.shape).astype(dtype)]
    node = make_node("ScatterElements", arrays, {"axis": axis, "reduction": reduction})
    assert_same(run_op(node, arrays, threads=2), reference_op(node, arrays))


@pytest.mark.parametrize("reduction", ["max", "min"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_scatter_with_min_or_max_propagates_nan(reduction: str, dtype: type) -> None:
    arrays = [np.array([np.nan, 1, 2], dtype), np.array([0, 1, 2]), np.array([5, np.nan, 3], dtype)]
    node = make_node("ScatterElements", arrays, {"reduction": reduction})
    [y] = run_op(node, arrays)
    np.testing.assert_array_equal(np.isnan(y), [True, True, False])


@pytest.mark.parametrize(("reduction", "expected"), [("add", [1, 1, 1]), ("mul", [0, 0, 1]), ("max", [1, 1, 1])])
def test_scatter_of_bools(reduction: str, expected: list[int]) -> None:
    arrays = [np.array([0, 1, 1], bool), np.array([0, 1, 2]), np.array([1, 0, 1], bool)]
    node = make_node("ScatterElements", arrays, {"reduction": reduction})
    assert run_op(node, arrays)[0].tolist() == [bool(value) for value in expected]


def test_scatter_may_run_in_place() -> None:
    arrays = [arange((4, 300)), np.array([[-1] * 300]), np.ones((1, 300), np.float32)]
    node = make_node("ScatterElements", arrays)
    expected = reference_op(node, arrays)[0]
    memory = {**dict(zip(node.operands, arrays, strict=True)), node.output: arrays[0]}
    opdef = find_opdef(node)
    assert opdef is not None
    assert opdef.lower is not None
    for call in opdef.lower(node):
        run_call(call, memory, threads=2)
    np.testing.assert_array_equal(arrays[0], expected)


@pytest.mark.parametrize("op_type", ["GatherElements", "ScatterElements"])
@pytest.mark.parametrize("index", [5, -6, 2**40])
def test_index_outside_is_a_fault(op_type: str, index: int) -> None:
    arrays = [arange((5, 3)), np.array([[1, index, 0]]), arange((1, 3))][: 3 if op_type[0] == "S" else 2]
    with pytest.raises(_kernels.Fault) as caught:
        run_op(make_node(op_type, arrays), arrays)
    assert caught.value.args[1:] == (1, index, 5)


def test_rejections() -> None:
    wide = [arange((5, 3)), np.zeros((1, 4), np.int64), arange((1, 4))]
    other = [arange((5, 3)), np.zeros((1, 3), np.int64), arange((3, 1))]
    complex_ = [arange((5,), np.complex64), np.zeros(3, np.int64), arange((3,), np.complex64)]
    for arrays, reason in ((wide, "indices-beyond-data"), (other, "updates-shape"), (complex_, "dtype")):
        node = make_node("ScatterElements", arrays, {"reduction": "add"})
        assert [reject.reason for reject in supports_scatter_elements(node)] == [reason]
    with pytest.raises(ModelInvalid, match="reduction = mean is none of"):
        list(supports_scatter_elements(make_node("ScatterElements", complex_, {"reduction": "mean"})))
    with pytest.raises(ModelInvalid, match="not of one rank"):
        make_node("GatherElements", [arange((5, 3)), np.zeros(3, np.int64)])
