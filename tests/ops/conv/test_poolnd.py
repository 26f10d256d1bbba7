"""Pools in one to three spatial dims, with indices and as norms: every row against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from tests.effort import trials
from tests.harness import make_node, reference_op, run_op
from tests.isa import LOOP_ISAS
from tests.ops.exact import onnxruntime_op

Attrs = dict[str, object]


@st.composite
def pools(draw: st.DrawFn) -> tuple[Array, Attrs]:
    """Input and attributes of a pool of one to three spatial dims; each window has an element inside."""
    size, rank = st.integers, draw(st.integers(1, 3))
    kernel = tuple(draw(size(1, 3)) for _ in range(rank))
    dilations = tuple(draw(size(1, 2)) for _ in range(rank))
    begins = [draw(size(0, (k - 1) * (d == 1))) for k, d in zip(kernel, dilations, strict=True)]
    ends = [draw(size(0, (k - 1) * (d == 1))) for k, d in zip(kernel, dilations, strict=True)]
    spatial = [(k - 1) * d + 1 + draw(size(0, 7)) for k, d in zip(kernel, dilations, strict=True)]
    attrs: Attrs = {
        "kernel_shape": kernel, "strides": tuple(draw(size(1, 3)) for _ in range(rank)), "dilations": dilations,
        "pads": (*begins, *ends), "ceil_mode": draw(size(0, 1)),
    }  # fmt: skip
    rng = np.random.default_rng(draw(size(0, 2**32)))
    return rng.standard_normal((draw(size(1, 2)), draw(size(1, 3)), *spatial)).astype(np.float32), attrs


@pytest.mark.parametrize("isa", LOOP_ISAS)
@settings(max_examples=trials(30), deadline=None)
@given(case=pools(), op_type=st.sampled_from(["MaxPool", "AveragePool", "LpPool"]), number=st.integers(0, 3))
def test_agrees_with_onnxruntime(isa: str, case: tuple[Array, Attrs], op_type: str, number: int) -> None:
    x, attrs = case
    more: Attrs = {"MaxPool": {}, "AveragePool": {"count_include_pad": number % 2}, "LpPool": {"p": number + 1}}[
        op_type
    ]
    ours = run_op(make_node(op_type, [x], attrs | more), [x], isa=isa, threads=2)[0]
    np.testing.assert_allclose(
        ours, onnxruntime_op(make_node(op_type, [x], attrs | more), [x])[0], rtol=2e-6, atol=1e-6
    )
    doubles = x.astype(np.float64)
    np.testing.assert_allclose(
        run_op(make_node(op_type, [doubles], attrs | more), [doubles], isa=isa)[0], ours, 1e-5, 1e-5
    )


@pytest.mark.parametrize("isa", LOOP_ISAS)
@settings(max_examples=trials(30), deadline=None)
@given(case=pools(), dtype=st.sampled_from(["f4", "f8", "i1", "u1"]), order=st.integers(0, 1))
def test_indices_agree_with_onnxruntime(isa: str, case: tuple[Array, Attrs], dtype: str, order: int) -> None:
    x, attrs = case
    x = (x * 20).astype(np.int8).astype(dtype)  # of equal elements the first is the maximum
    attrs = attrs | {"storage_order": order}
    node = make_node("MaxPool", [x], attrs, outputs=2)
    expected = onnxruntime_op(node, [x])
    for mine, theirs in zip(run_op(node, [x], isa=isa, threads=2), expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_the_index_of_a_nan_maximum_is_that_of_the_first_nan() -> None:
    x = np.array([[[1, np.nan, 3, np.nan, 0, 2]]], np.float32)
    largest, indices = run_op(make_node("MaxPool", [x], {"kernel_shape": (4,), "strides": (2,)}, outputs=2), [x])
    np.testing.assert_array_equal(largest, [[[np.nan, np.nan]]])
    np.testing.assert_array_equal(indices, [[[1, 3]]])


def test_an_empty_batch_gives_an_empty_result() -> None:
    x = np.zeros((0, 2, 4, 4), np.float32)
    assert run_op(make_node("MaxPool", [x], {"kernel_shape": (2, 2)}), [x])[0].shape == (0, 2, 3, 3)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shape", [None, (1, 2, 7, 9)])
def test_unpool_agrees_with_the_reference(dtype: str, shape: tuple[int, ...] | None) -> None:
    x = np.random.default_rng(3).standard_normal((1, 2, 6, 8)).astype(dtype)
    attrs: Attrs = {"kernel_shape": (2, 2), "strides": (2, 2)}
    arrays = run_op(make_node("MaxPool", [x], attrs, outputs=2), [x])
    if shape is not None:
        arrays.append(np.array(shape))
    node = make_node("MaxUnpool", arrays, attrs, constants=(2,))
    np.testing.assert_array_equal(run_op(node, arrays)[0], reference_op(node, arrays)[0])


@pytest.mark.parametrize("width", [300, 301])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("order", ["rising", "falling", "random"])
def test_unpool_clears_what_no_index_names(width: int, dtype: str, order: str) -> None:
    """The result is cleared piece by piece as indices reach it; the last of equal ones counts."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((2, 3, 100, 150)).astype(dtype)
    indices = rng.integers(0, 2 * 3 * 200 * 300, x.size)
    if order != "random":
        indices = np.sort(indices)[:: -1 if order == "falling" else 1]
    arrays = [x, indices.reshape(x.shape), np.array([2, 3, 200, width])]
    node = make_node("MaxUnpool", arrays, {"kernel_shape": (2, 2), "strides": (2, 2)}, constants=(2,))
    expected = np.zeros((2, 3, 200, 300), dtype)
    expected.reshape(-1)[indices] = x.reshape(-1)
    padded = np.pad(expected, [(0, 0), (0, 0), (0, 0), (0, width - 300)])
    np.testing.assert_array_equal(run_op(node, arrays)[0], padded)


@pytest.mark.parametrize("index", [-1, 16])
def test_an_out_of_range_index_is_refused(index: int) -> None:
    arrays = [np.ones((1, 1, 2), np.float32), np.array([[[0, index]]])]
    with pytest.raises(_kernels.Fault):
        run_op(make_node("MaxUnpool", arrays, {"kernel_shape": (8,), "strides": (8,)}), arrays)
