"""Softmax and LogSoftmax: every row against the definition in float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.errors import ModelInvalid
from atcpy.ir.tensor import Array
from atcpy.ops.core.reference import infer_by_onnx, known_constant
from atcpy.ops.norm.softmax import KINDS
from tests.effort import trials
from tests.harness import make_node, rejections, run_op
from tests.isa import ISAS

DIMS = st.one_of(st.sampled_from([1, 2, 3]), st.sampled_from([7, 8, 15, 16, 17, 33, 70, 520]))


def random(shape: list[int], seed: int, dtype: str = "f4") -> Array:
    return (10 * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def exactly(op_type: str, x: Array, axis: int) -> Array:
    """The definition in float64; ONNX's reference takes the logarithm of probabilities rounded to 0."""
    with np.errstate(all="ignore"):
        shifted = x.astype("f8") - x.max(axis, keepdims=True)
        total = np.exp(shifted).sum(axis, keepdims=True)
        result: Array = shifted - np.log(total) if op_type == "LogSoftmax" else np.exp(shifted) / total
    return result


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("op_type", sorted(KINDS))
@settings(max_examples=trials(100))
@given(
    shape=st.lists(DIMS, max_size=3).filter(lambda shape: np.prod(shape) < 100_000), axis=st.integers(-3, 2),
    seed=st.integers(0, 9), dtype=st.sampled_from(["f4", "f4", "f8"]),
)  # fmt: skip
def test_agrees_with_the_reference(isa: str, op_type: str, shape: list[int], axis: int, seed: int, dtype: str) -> None:
    x = random(shape, seed, dtype)
    axis = max(-max(len(shape), 1), min(axis, max(len(shape), 1) - 1))
    node = make_node(op_type, [x], {"axis": axis})
    if shape:
        assert node.output.desc == infer_by_onnx(node, known_constant)[0]
    expected = exactly(op_type, x, axis)
    ours = run_op(node, [x], isa=isa, threads=2)[0]
    assert ours.dtype == x.dtype
    eps = 4e-7 if dtype == "f4" else 1e-14
    np.testing.assert_allclose(ours, expected, rtol=2 * eps, atol=eps * (20 if op_type == "LogSoftmax" else 1))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("op_type", sorted(KINDS))
@pytest.mark.parametrize("axis", [0, 1])
def test_large_numbers_do_not_overflow_or_affect_other_rows(isa: str, op_type: str, axis: int) -> None:
    x = random([40, 40], 0)
    x[3, 4], x[5, 6], x[7, 8], x[9, 10] = 3e38, -np.inf, np.nan, -3e38
    x[:, 20] = x[21] = -np.inf
    ours = run_op(make_node(op_type, [x], {"axis": axis}), [x], isa=isa)[0]
    np.testing.assert_allclose(ours, exactly(op_type, x, axis), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("axis", [0, 1])
def test_small_exponentials_are_accurate_down_to_the_normal_range(isa: str, axis: int) -> None:
    """Results below the normal range may be 0, and those of the masks of attention are."""
    x = np.concatenate([[0], np.linspace(-110, -1, 2181), [-1e4, -3e38]]).astype("f4")
    x = np.stack([x, x[::-1], np.roll(x, 5)], 1 - axis)
    ours = run_op(make_node("Softmax", [x], {"axis": axis}), [x], isa=isa)[0]
    np.testing.assert_allclose(ours, exactly("Softmax", x, axis), rtol=6e-7, atol=1.2e-38)
    assert not ours[x <= -1e4].any()


@pytest.mark.parametrize("isa", ISAS)
def test_a_row_sums_to_one(isa: str) -> None:
    x = random([3, 50_021], 0)
    ours = run_op(make_node("Softmax", [x]), [x], isa=isa)[0]
    np.testing.assert_allclose(ours.astype("f8").sum(-1), 1, atol=1e-6)


def test_an_axis_beyond_the_rank_is_refused() -> None:
    with pytest.raises(ModelInvalid, match="axis = 2 is outside a tensor of rank 2"):
        make_node("Softmax", [random([2, 3], 0)], {"axis": 2})


def test_each_unsupported_variant_is_rejected_with_its_reason() -> None:
    for x, reasons in ((random([2], 0), []), (random([0, 2], 0), ["empty"]), (random([2], 0, "f2"), ["dtype"])):
        assert rejections(make_node("Softmax", [x])) == reasons


@pytest.mark.parametrize("isa", ISAS)
def test_the_maximum_of_a_row_is_found_in_each_vector_lane(isa: str) -> None:
    x = np.random.default_rng(0).standard_normal((33, 33)).astype(np.float32)
    for value, share in ((60.0, 1.0), (np.nan, np.nan)):
        rows = np.where(np.eye(33), value, x).astype(np.float32)
        [y] = run_op(make_node("Softmax", [rows], {}), [rows], isa=isa)
        np.testing.assert_allclose(y.diagonal(), np.full(33, share), rtol=1e-6)
        assert np.isnan(share) == np.isnan(y).all(axis=1).all()
