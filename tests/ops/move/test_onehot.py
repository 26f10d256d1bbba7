"""OneHot and EyeLike: the ONNX reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy import InferenceSession
from atcpy.errors import ModelInvalid
from tests.effort import trials
from tests.harness import make_node, reference_op, run_op
from tests.models_in_text import package
from tests.ops.exact import assert_same, check_exact, shapes


@settings(max_examples=trials(60))
@given(shape=st.integers(1, 3).flatmap(shapes), depth=st.integers(1, 5), axis=st.integers(-4, 3),
       index=st.sampled_from([np.int64, np.int32, np.uint8, np.float32, np.float16]),
       dtype=st.sampled_from([np.uint8, np.float16, np.float32, np.int64]), seed=st.integers(0, 999))  # fmt: skip
def test_onehot(shape: tuple[int, ...], depth: int, axis: int, index: type, dtype: type, seed: int) -> None:
    axis = axis % (len(shape) + 1) - (seed % 2) * (len(shape) + 1)
    indices = np.random.default_rng(seed).integers(-depth - 2, depth + 3, shape).astype(index)
    arrays = [indices, np.array(depth), np.array([3, 7], dtype)]
    node = make_node("OneHot", arrays, {"axis": axis}, constants=(1,))
    assert_same(run_op(node, arrays, threads=2), reference_op(node, arrays))


def test_onehot_of_invalid_float_indices() -> None:
    indices = np.array([np.nan, np.inf, -np.inf, 1e30, 1.7, -0.5, -1.2], np.float32)
    arrays = [indices, np.array([3]), np.array([0, 1], np.int32)]
    [y] = run_op(make_node("OneHot", arrays, constants=(1,)), arrays)
    assert y.tolist() == [[0, 0, 0]] * 4 + [[0, 1, 0], [1, 0, 0], [0, 0, 1]]


@given(shape=shapes(2), k=st.integers(-6, 6),
       dtype=st.sampled_from([None, 1, 10, 11, 6, 7, 2, 9, 16]))  # fmt: skip
def test_eyelike(shape: tuple[int, ...], k: int, dtype: int | None) -> None:
    attrs = {"k": k} | ({} if dtype is None else {"dtype": dtype})
    check_exact("EyeLike", [np.ones(shape, np.int32)], attrs)


@pytest.mark.parametrize("k", [-(2**62), 2**62])
def test_eyelike_without_a_diagonal(k: int) -> None:
    x = np.ones((3, 4), np.float32)
    assert not run_op(make_node("EyeLike", [x], {"k": k}), [x])[0].any()


@pytest.mark.parametrize("depth", ["float d = {5}", "int32 d = {5}", "int64[1] d = {5}", "double[1] d = {5}"])
@pytest.mark.parametrize(("axis", "shape"), [(-1, (3, 5)), (0, (5, 3)), (1, (3, 5)), (-2, (5, 3))])
def test_a_constant_depth_of_any_type_is_a_size(depth: str, axis: int, shape: tuple[int, ...]) -> None:
    text = f"m (int64[3] x) => (float[a,b] y) <{depth}, float[2] v = {{0,1}}> {{ y = OneHot<axis={axis}>(x, d, v) }}"
    [y] = InferenceSession(package(text), threads=1).run(None, {"x": np.array([1, 4, -1])})
    assert y.shape == shape and y.argmax(shape.index(5)).tolist() == [1, 4, 4]


def test_a_negative_depth_is_refused() -> None:
    text = "m (int64[3] x) => (float[a,b] y) <int64 d = {-2}, float[2] v = {0,1}> { y = OneHot(x, d, v) }"
    with pytest.raises(ModelInvalid, match="depth = -2"):
        package(text)
