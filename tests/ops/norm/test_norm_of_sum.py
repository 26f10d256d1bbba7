"""Normalizations of sums on every ISA; a term is a whole tensor, is broadcast, or is gathered from a table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir import Node
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from atcpy.ops.norm.norm_of_sum import FUSED, supports_sum
from tests.effort import trials
from tests.harness import make_node, run_op
from tests.isa import ISAS

LEADING = st.lists(st.sampled_from([1, 2, 3, 5]), min_size=1, max_size=2)
WIDTHS = st.sampled_from([1, 2, 7, 8, 15, 16, 17, 33, 70, 300])
Term = tuple[Array, Array | None]


def term(kind: str, leading: list[int], inner: list[int], rng: np.random.Generator) -> Term:
    """A random term of the given kind: values, and the indices that gather them if it is a table."""
    if kind == "repeated":
        return rng.normal(1, 1, (*leading[1:], *inner)).astype("f4"), None
    if kind == "whole" or len(inner) > 1:
        return rng.normal(2, 1, (*leading, *inner)).astype("f4"), None
    indices_shape = leading if kind == "table" else [1, *leading[1:]]
    return rng.normal(0, 1, (6, *inner)).astype("f4"), rng.integers(-6, 6, indices_shape).astype(
        rng.choice(["i4", "i8"])
    )


def added(value: Array, indices: Array | None) -> Array:
    return value if indices is None else np.take(value, indices, 0)


def operands(terms: list[Term], scale: Array, bias: Array | None) -> list[Array | None]:
    values, indices = [*zip(*terms, strict=True)]
    padding = [None] * (3 - len(terms))
    return [values[0], scale, bias, *indices, *padding, *values[1:], *padding]


def normalized(total: Array, axes: int, scale: Array, bias: Array | None, kind: str) -> Array:
    x = total.astype("f8")
    over = tuple(range(-axes, 0))
    apart = x - x.mean(over, keepdims=True) if kind == "LayerNormalization" else x
    y = apart / np.sqrt((apart**2).mean(over, keepdims=True) + 1e-2) * scale
    return np.asarray(y if bias is None else y + bias)


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(40))
@given(
    kind=st.sampled_from(list(FUSED)), leading=LEADING, inner=st.lists(WIDTHS, min_size=1, max_size=2),
    others=st.lists(st.sampled_from(["whole", "repeated", "table", "repeated table"]), max_size=2),
    first=st.sampled_from(["whole", "table"]), results=st.integers(1, 2), has_bias=st.booleans(),
    seed=st.integers(0, 9),
)  # fmt: skip
def test_sums_are_normalized(
    isa: str, kind: str, leading: list[int], inner: list[int], others: list[str], first: str, results: int,
    has_bias: bool, seed: int,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    terms = [term(each, leading, inner, rng) for each in (first, *others)]
    scale = rng.uniform(0.5, 2, inner).astype("f4")
    bias = rng.normal(0, 1, inner).astype("f4") if has_bias and kind == "LayerNormalization" else None
    arrays = operands(terms, scale, bias)
    node = make_node(FUSED[kind], arrays, {"axis": -len(inner), "epsilon": 1e-2}, constants=[0], outputs=results)
    assert not list(supports_sum(node))
    total = np.zeros((*leading, *inner), "f4") + added(*terms[0])
    for other in terms[1:]:
        total = total + added(*other)
    ours = run_op(node, arrays, isa=isa, threads=2)
    np.testing.assert_array_equal(ours[1:], [total][: results - 1])
    expected = normalized(total, len(inner), scale, bias, kind)
    np.testing.assert_allclose(ours[0], expected, rtol=0, atol=1e-5 * max(1, float(np.abs(expected).max())))


@pytest.mark.parametrize("isa", ISAS)
def test_the_sum_has_the_bits_of_successive_adds(isa: str) -> None:
    """Including NaN, infinities and −0, which do not affect other rows."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.normal(0, 10.0**power, (4, 37)).astype("f4") for power in (0, 4, -4))
    a[1, 3], b[1, 4], a[2, 5], b[2, 5], a[3, 6], b[3, 6], c[3, 6] = np.nan, 1, np.inf, -np.inf, -0.0, -0.0, -0.0
    arrays = operands([(a, None), (b, None), (c, None)], np.ones(37, "f4"), None)
    y, total = run_op(make_node("FusedLayerNormalization", arrays, {"axis": -1}, outputs=2), arrays, isa=isa)
    with np.errstate(invalid="ignore"):
        expected = (a + b) + c
    np.testing.assert_array_equal(total, expected)
    np.testing.assert_array_equal(np.signbit(total), np.signbit(expected))
    assert np.isnan(y).all(1).tolist() == [False, True, True, False]
    assert np.isnan(y).sum() == 2 * 37


@pytest.mark.parametrize("isa", ISAS)
def test_in_float64(isa: str) -> None:
    x, table, indices = np.random.rand(2, 3, 5), np.random.rand(4, 5), np.array([3, -1, 0])
    arrays = operands([(x, None), (table, indices)], np.ones(5), None)
    ours = run_op(make_node("FusedRMSNormalization", arrays, {"axis": -1}, constants=[6], outputs=2), arrays, isa=isa)
    total = x + table[indices]
    np.testing.assert_array_equal(ours[1], total)
    np.testing.assert_allclose(ours[0], total / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-5), rtol=1e-12)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("index", [4, -5, 2**31 - 1])
def test_an_out_of_range_index_is_a_fault(isa: str, index: int) -> None:
    arrays = operands([(np.ones((4, 8), "f4"), np.array([0, index]))], np.ones(8, "f4"), None)
    node = make_node("FusedLayerNormalization", arrays, {"axis": -1}, constants=[0])
    with pytest.raises(_kernels.Fault) as caught:
        run_op(node, arrays, isa=isa)
    assert caught.value.args[1:] == (1, index, 4)


def named(arrays: list[Array | None], axis: int = -1) -> Node:
    return make_node("FusedLayerNormalization", arrays, {"axis": axis})


def test_unsupported_operands_are_rejected() -> None:
    x, scale = np.ones((2, 3, 8), "f4"), np.ones(8, "f4")
    assert not list(supports_sum(named([x, scale])))
    reasons = {
        "broadcast": [x, scale, None, None, None, None, np.ones((2, 1, 8), "f4")],
        "dtype": [x, scale.astype("f8")],
        "index-dtype": [x, scale, None, np.zeros((2, 3), "i1")],
    }
    for reason, arrays in reasons.items():
        assert reason in {reject.reason for reject in supports_sum(named(arrays))}
    assert {reject.reason for reject in supports_sum(named([x, scale], axis=2))} == {"broadcast"}
