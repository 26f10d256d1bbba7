"""Products of bfloat16: weights in pairs, and the other factor rounded, on every ISA."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir import Format, FormatKind
from atcpy.ir.tensor import Array
from atcpy.ops.conv.winograd import as_winograd
from tests import bf16
from tests.bf16 import BF16
from tests.effort import trials
from tests.harness import make_node, reference_op, run_op
from tests.isa import BF16_ISAS, ISAS

PAIRS = {"multiplies_bf16": 1}
# Shapes of input and weights, attributes. Odd numbers of channels leave half a pair.
CONVS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, object]]] = {
    "odd channels": ((2, 35, 9, 7), (40, 35, 3, 3), {"pads": (1, 1, 1, 1)}),
    "one channel of a block": ((1, 17, 9, 7), (16, 17, 3, 3), {}),
    "pointwise": ((1, 48, 15, 15), (17, 48, 1, 1), {}),
    "pointwise over rows that end early": ((2, 33, 13, 31), (20, 33, 1, 1), {}),
    "strides": ((1, 24, 11, 12), (33, 24, 3, 3), {"strides": (2, 2), "pads": (1, 0, 1, 1)}),
    "pointwise with strides": ((1, 24, 11, 12), (33, 24, 1, 1), {"strides": (2, 3)}),
    "dilations": ((1, 18, 12, 11), (16, 18, 3, 2), {"dilations": (2, 3), "pads": (0, 2, 2, 1)}),
    "groups": ((1, 64, 5, 5), (96, 32, 3, 3), {"group": 2}),
    "small groups": ((1, 12, 5, 6), (24, 3, 2, 2), {"group": 4}),
    "many channels": ((1, 800, 2, 3), (33, 800, 3, 3), {"pads": (1, 1, 1, 1)}),
}
SIZES = [1, 2, 3, 15, 16, 17, 31, 33, 64]


rounded = partial(bf16.rounded, dtype=np.float64)  # the numbers that are multiplied


def operands(seed: int, x_shape: tuple[int, ...], w_shape: tuple[int, ...]) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    x, bias = rng.standard_normal(x_shape, np.float32), rng.standard_normal(w_shape[0], np.float32)
    return x, rng.standard_normal(w_shape).astype(BF16), bias


def convolved(x: Array, w: Array, bias: Array, attrs: Mapping[str, object]) -> Array:
    """The convolution of the rounded factors in float64."""
    arrays = [rounded(x), rounded(w), bias.astype(np.float64)]
    return reference_op(make_node("Conv", arrays, attrs, constants=(1, 2)), arrays)[0]


def check_conv(x: Array, w: Array, bias: Array, attrs: dict[str, object], isa: str) -> None:
    node = make_node("Conv", [x, w, bias], attrs | PAIRS, constants=(1, 2))
    rows: list[str] = []
    [ours] = run_op(node, [x, w, bias], blocked=True, isa=isa, threads=2, rows=rows)
    assert rows == [f"conv2d_f32_{'avx512bf16' if isa == 'amx' else isa}"]
    bound = 1e-6 * (4 + np.prod(w.shape[1:]) ** 0.5 * 4)
    np.testing.assert_allclose(ours, convolved(x, w, bias, attrs), rtol=0, atol=bound)


@pytest.mark.parametrize("isa", BF16_ISAS)
@pytest.mark.parametrize("case", CONVS)
def test_conv(case: str, isa: str) -> None:
    x_shape, w_shape, attrs = CONVS[case]
    check_conv(*operands(7, x_shape, w_shape), attrs, isa)


@pytest.mark.parametrize("isa", BF16_ISAS)
@settings(max_examples=trials(25))
@given(
    c=st.sampled_from(SIZES), m=st.sampled_from(SIZES), h=st.sampled_from([1, 3, 14, 15, 29]),
    w=st.sampled_from([1, 3, 14, 15, 29]), kernel=st.sampled_from([1, 2, 3]), stride=st.sampled_from([1, 2, 3]),
)  # fmt: skip
def test_conv_of_any_size(isa: str, c: int, m: int, h: int, w: int, kernel: int, stride: int) -> None:
    attrs: dict[str, object] = {"strides": (stride, stride), "pads": (kernel // 2,) * 4}
    if kernel <= min(h, w):
        check_conv(*operands(c + m, (1, max(c, 5), h, w), (m, max(c, 5), kernel, kernel)), attrs, isa)


# Input of NCHW, weights, attributes: pairs are neighbouring columns. Of an odd number, the last pair has one.
FIRST: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, object]]] = {
    "stem of a residual network": ((1, 3, 33, 61), (40, 3, 7, 7), {"pads": (3, 3, 3, 3)}),
    "even width, padded at the end": ((2, 3, 17, 30), (24, 3, 3, 3), {"pads": (0, 0, 1, 1)}),
    "an even kernel": ((1, 1, 12, 64), (16, 1, 4, 6), {"pads": (1, 2, 1, 2)}),
    "two columns": ((1, 4, 9, 35), (33, 4, 3, 2), {"strides": (1, 2)}),
    "dilated rows": ((1, 2, 15, 41), (17, 2, 3, 3), {"strides": (3, 2), "dilations": (2, 1), "pads": (2, 1, 2, 1)}),
    "narrower than the padding": ((1, 3, 5, 2), (16, 3, 5, 5), {"pads": (2, 6, 2, 6)}),
    "padding wider than the row that is read": ((1, 1, 4, 1), (16, 1, 3, 5), {"pads": (1, 9, 1, 0)}),
    "patches": ((2, 3, 32, 48), (40, 3, 16, 16), {"strides": (16, 16)}),
    "patches with gaps": ((1, 1, 9, 50), (16, 1, 2, 3), {"strides": (3, 8), "pads": (0, 1, 0, 2)}),
    "windows that overlap": ((1, 2, 12, 61), (16, 2, 5, 9), {"strides": (4, 4), "pads": (2, 3, 2, 4)}),
    "many rows": ((1, 3, 64, 300), (64, 3, 3, 3), {"pads": (1, 1, 1, 1)}),
}


@pytest.mark.parametrize("isa", BF16_ISAS)
@pytest.mark.parametrize("case", FIRST)
def test_first_conv_in_pairs_of_columns(case: str, isa: str) -> None:
    x_shape, w_shape, attrs = FIRST[case]
    x, w, bias = operands(8, x_shape, w_shape)
    attrs = {"strides": (2, 2)} | attrs
    node = make_node("Conv", [x, w, bias], attrs | PAIRS, constants=(1, 2))
    rows: list[str] = []
    [ours] = run_op(node, [x, w, bias], isa=isa, threads=2, rows=rows)
    assert node.operand(1).desc.format == Format(FormatKind.N1C1HWC0N0_VNNI2, 1)
    assert f"conv2d_f32_{'avx512bf16' if isa == 'amx' else isa}" in rows
    np.testing.assert_allclose(ours, convolved(x, w, bias, attrs), rtol=0, atol=1e-6 * (4 + w[0].size ** 0.5 * 4))


@pytest.mark.parametrize(
    ("x", "w", "attrs"),
    [
        ((1, 3, 9, 9), (16, 3, 3, 3), {}), ((1, 3, 9, 9), (16, 3, 3, 3), {"strides": (2, 3)}),
        ((1, 3, 9, 9), (16, 3, 3, 3), {"strides": (2, 1)}), ((1, 3, 9, 9), (16, 3, 3, 1), {"strides": (2, 2)}),
        ((1, 3, 9, 9), (16, 3, 3, 3), {"strides": (2, 2), "dilations": (1, 2)}),
        ((1, 3, 9, 4), (16, 3, 3, 3), {"strides": (2, 2)}),
    ],
)  # fmt: skip
def test_other_first_convolutions_multiply_floats(
    x: tuple[int, ...], w: tuple[int, ...], attrs: dict[str, object]
) -> None:
    arrays = operands(2, x, w)
    node = make_node("Conv", arrays, attrs | PAIRS, constants=(1, 2))
    [ours] = run_op(node, arrays)
    assert node.operand(1).desc.format.kind is FormatKind.N1C1HWC0N0
    wide = [arrays[0].astype(np.float64), rounded(arrays[1]), arrays[2].astype(np.float64)]
    expected = reference_op(make_node("Conv", wide, attrs, constants=(1, 2)), wide)[0]
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("isa", BF16_ISAS)
@pytest.mark.parametrize(("columns", "beside"), [(3, 1), (4, 0)])
def test_nan_spreads_to_the_result_beside_it_where_columns_are_odd(columns: int, beside: int, isa: str) -> None:
    x, w, bias = operands(5, (1, 3, 8, 16), (16, 3, 3, columns))
    x[0, 1, 3, 11] = np.nan
    attrs = {"strides": (2, 2)}
    [ours] = run_op(make_node("Conv", [x, w, bias], attrs | PAIRS, constants=(1, 2)), [x, w, bias], isa=isa)
    first = (11 - columns + 2 - beside) // 2
    assert np.isnan(ours[0, 0, 1]).tolist() == [first <= column <= 5 for column in range(ours.shape[3])]


@pytest.mark.parametrize("isa", BF16_ISAS)
def test_conv_adds_a_residual_and_activates(isa: str) -> None:
    x, w, bias = operands(3, (1, 70, 9, 10), (40, 70, 3, 3))
    residual = np.random.default_rng(4).standard_normal((1, 40, 7, 8), np.float32)
    arrays = [x, w, bias, residual]
    for activation, expected in {"Relu": lambda y: np.maximum(y, 0), "Sigmoid": lambda y: 1 / (1 + np.exp(-y))}.items():
        node = make_node("FusedConv", arrays, {"activation": activation} | PAIRS, constants=(1, 2))
        [ours] = run_op(node, arrays, blocked=True, isa=isa, threads=2)
        np.testing.assert_allclose(ours, expected(convolved(x, w, bias, {}) + residual), rtol=0, atol=1e-4)


@pytest.mark.parametrize("isa", BF16_ISAS)
def test_nan_and_infinity_reach_the_windows_that_read_them(isa: str) -> None:
    x, w, bias = operands(5, (1, 19, 8, 9), (16, 19, 3, 3))
    x[0, 18, 2, 3], x[0, 4, 6, 7] = np.nan, np.inf
    [ours] = run_op(make_node("Conv", [x, w, bias], PAIRS, constants=(1, 2)), [x, w, bias], blocked=True, isa=isa)
    with np.errstate(invalid="ignore"):
        expected = convolved(x, w, bias, {})
    np.testing.assert_array_equal(np.isfinite(ours), np.isfinite(expected))


@pytest.mark.parametrize("isa", BF16_ISAS)
def test_a_scale_keeps_weights_out_of_pairs(isa: str) -> None:
    x, w, bias = operands(6, (1, 24, 6, 6), (16, 24, 1, 1))
    scale = np.random.default_rng(1).standard_normal(16, np.float32)
    arrays = [x, w, bias, None, scale]
    [ours] = run_op(make_node("FusedConv", arrays, PAIRS, constants=(1, 2, 4)), arrays, blocked=True, isa=isa)
    product = w.astype(np.float64) * scale[:, None, None, None]
    wide = [x.astype(np.float64), product, bias.astype(np.float64)]
    expected = reference_op(make_node("Conv", wide, constants=(1, 2)), wide)[0]
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("isa", ISAS)
def test_winograd_reads_pairs(isa: str) -> None:
    x, w, bias = operands(9, (1, 35, 13, 14), (40, 35, 3, 3))
    node = make_node("FusedConv", [x, w, bias], PAIRS, constants=(1, 2))
    rows: list[str] = []
    [ours] = run_op(node, [x, w, bias], blocked=True, isa=isa, rows=rows, rewrite=as_winograd)
    assert rows == [f"winograd2d_f32_{isa}"]
    wide = [x.astype(np.float64), rounded(w), bias.astype(np.float64)]
    expected = reference_op(make_node("Conv", wide, constants=(1, 2)), wide)[0]
    assert np.abs(ours - expected).max() < 2e-5 * np.abs(expected).max()


@pytest.mark.parametrize("isa", BF16_ISAS)
@settings(max_examples=trials(30))
@given(
    batch=st.sampled_from([(), (2,), (3, 2)]), m=st.sampled_from([0, 1, 2, 13, 15, 29, 600]),
    k=st.sampled_from([0, 1, 2, 17, 64, 767, 769, 1535, 1537, 3100]), n=st.sampled_from([0, 1, 16, 31, 33, 250]),
)  # fmt: skip
def test_matmul(isa: str, batch: tuple[int, ...], m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(m + k + n)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((*batch, k, n)).astype(BF16)
    rows: list[str] = []
    node = make_node("MatMul", [a, b], PAIRS, constants=(1,))
    [ours] = run_op(node, [a, b], isa=isa, threads=2, rows=rows)
    assert rows == [f"matmul_f32_{'avx512bf16' if isa == 'amx' and m < 2 else isa}"]
    np.testing.assert_allclose(ours, rounded(a) @ rounded(b), rtol=0, atol=1e-6 * (k**0.5 * 8 + 4))


@pytest.mark.parametrize("isa", BF16_ISAS)
def test_gemm_finishes_its_sums(isa: str) -> None:
    rng = np.random.default_rng(3)
    a, b, c = (rng.standard_normal(shape, np.float32) for shape in ((5, 71), (71, 37), (37,)))
    b = b.astype(BF16)
    node = make_node("Gemm", [a, b, c], {"alpha": 0.5, "beta": -2.0} | PAIRS, constants=(1, 2))
    np.testing.assert_allclose(
        run_op(node, [a, b, c], isa=isa)[0], 0.5 * (rounded(a) @ rounded(b)) - 2 * c, rtol=0, atol=1e-4
    )


@pytest.mark.parametrize("isa", BF16_ISAS)
def test_a_transposed_factor_is_not_rounded(isa: str) -> None:
    rng = np.random.default_rng(8)
    a, b = rng.standard_normal((70, 5), np.float32), rng.standard_normal((70, 20)).astype(BF16)
    node = make_node("Gemm", [a, b], {"transA": 1} | PAIRS, constants=(1,))
    expected = a.T.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(run_op(node, [a, b], isa=isa)[0], expected, rtol=0, atol=1e-4)
