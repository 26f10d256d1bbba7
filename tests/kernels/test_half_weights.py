"""16-bit weights give the same results as the same weights in float32, on every ISA."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir import DType, Region, Slot, TensorDesc
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels, table
from atcpy.ops.conv.winograd import as_winograd
from tests.effort import trials
from tests.harness import make_node, run_op
from tests.isa import ISAS

HALVES = pytest.mark.parametrize("half", [np.float16, ml_dtypes.bfloat16], ids=["f16", "bf16"])
# Shapes of input and weights, attributes: blocks, channel tails, plain input, groups, several channel blocks.
CONVS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, object]]] = {
    "blocked": ((2, 35, 9, 7), (40, 35, 3, 3), {"pads": (1, 1, 1, 1)}),
    "plain": ((1, 3, 11, 17), (20, 3, 5, 3), {"strides": (2, 2)}),
    "pointwise": ((1, 48, 15, 15), (17, 48, 1, 1), {}),
    "groups": ((1, 64, 5, 5), (96, 32, 3, 3), {"group": 2}),
    "small groups": ((1, 12, 5, 6), (24, 3, 2, 2), {"group": 4}),
    "depthwise": ((2, 21, 19, 6), (21, 1, 3, 3), {"group": 21, "pads": (1, 1, 1, 1)}),
    "many channels": ((1, 800, 2, 3), (33, 800, 3, 3), {"pads": (1, 1, 1, 1)}),
}
TRANSPOSED: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, object]]] = {
    "stride 2": ((1, 20, 5, 7), (20, 18, 3, 3), {"strides": (2, 2), "pads": (1, 0, 0, 1)}),
    "groups": ((2, 10, 4, 4), (10, 3, 2, 4), {"group": 5, "strides": (1, 3)}),
    "many channels": ((1, 600, 3, 3), (600, 33, 4, 4), {"strides": (2, 2)}),
}


def narrow(rng: np.random.Generator, shape: tuple[int, ...], half: type) -> Array:
    """Weights of all magnitudes: some denormal, some near the largest."""
    array: Array = (rng.standard_normal(shape) * 10.0 ** rng.integers(-7, 3, shape)).astype(half)
    return array


def check_same(op_type: str, x: Array, w: Array, bias: Array, attrs: dict[str, object], isa: str) -> None:
    results = []
    for weights in (w, w.astype(np.float32)):
        node = make_node(op_type, [x, weights, bias], attrs, constants=(1, 2))
        results.append(run_op(node, [x, weights, bias], blocked=x.shape[1] > 4, isa=isa, threads=2)[0])
    np.testing.assert_array_equal(results[0], results[1])


@HALVES
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("case", CONVS)
def test_conv(case: str, isa: str, half: type) -> None:
    x_shape, w_shape, attrs = CONVS[case]
    rng = np.random.default_rng(7)
    x, bias = rng.standard_normal(x_shape, np.float32), rng.standard_normal(w_shape[0], np.float32)
    check_same("Conv", x, narrow(rng, w_shape, half), bias, attrs, isa)


@HALVES
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("case", CONVS)
def test_a_scaled_conv(case: str, isa: str, half: type) -> None:
    x_shape, w_shape, attrs = CONVS[case]
    rng = np.random.default_rng(8)
    x, w = rng.standard_normal(x_shape, np.float32), narrow(rng, w_shape, half)
    bias, scale = (rng.standard_normal(w_shape[0], np.float32) for _ in range(2))
    node = make_node("FusedConv", [x, w, bias, None, scale], attrs, constants=(1, 2, 4))
    ours = run_op(node, [x, w, bias, None, scale], blocked=x_shape[1] > 4, isa=isa, threads=2)[0]
    product = w.astype(np.float32) * scale.reshape(-1, 1, 1, 1)
    node = make_node("Conv", [x, product, bias], attrs, constants=(1, 2))
    expected = run_op(node, [x, product, bias], blocked=x_shape[1] > 4, isa=isa, threads=2)[0]
    np.testing.assert_array_equal(ours, expected)


@HALVES
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(("c", "m"), [(35, 40), (16, 32), (200, 17)])  # 200: several runs of input channels
def test_winograd(c: int, m: int, scaled: bool, isa: str, half: type) -> None:
    rng = np.random.default_rng(9)
    x, w = rng.standard_normal((2, c, 9, 7), np.float32), narrow(rng, (m, c, 3, 3), half)
    bias, scale = (rng.standard_normal(m, np.float32) for _ in range(2))
    product = w.astype(np.float32) * scale.reshape(-1, 1, 1, 1) if scaled else w.astype(np.float32)
    results = []
    for arrays in ([x, w, bias, None, scale if scaled else None], [x, product, bias]):
        node = make_node("FusedConv", arrays, {"pads": (1, 1, 1, 1)}, constants=(1, 2, 4)[: len(arrays) - 1])
        rows: list[str] = []
        results += run_op(node, arrays, blocked=True, isa=isa, threads=2, rows=rows, rewrite=as_winograd)
        assert rows == [f"winograd2d_f32_{isa}"]
    np.testing.assert_array_equal(*results)


@HALVES
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("case", TRANSPOSED)
def test_conv_transpose(case: str, isa: str, half: type) -> None:
    x_shape, w_shape, attrs = TRANSPOSED[case]
    rng = np.random.default_rng(7)
    channels = w_shape[1] * int(str(attrs.get("group", 1)))
    x, bias = rng.standard_normal(x_shape, np.float32), rng.standard_normal(channels, np.float32)
    check_same("ConvTranspose", x, narrow(rng, w_shape, half), bias, attrs, isa)


@HALVES
@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(25), deadline=None)
@given(
    batch=st.sampled_from([(), (2,), (3, 2)]), m=st.sampled_from([0, 1, 2, 13, 15, 29, 600]),
    k=st.sampled_from([0, 1, 17, 64, 767, 769, 1600]), n=st.sampled_from([0, 1, 16, 31, 33, 250]),
)  # fmt: skip
def test_matmul(isa: str, half: type, batch: tuple[int, ...], m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(m + k + n)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((*batch, k, n)).astype(half)
    ours = run_op(make_node("MatMul", [a, b], constants=(1,)), [a, b], isa=isa, threads=2)[0]
    expected = np.matmul(a.astype(np.float64), b.astype(np.float64))
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-6 * (k + 4))


@HALVES
@pytest.mark.parametrize("isa", ISAS)
def test_gemm_with_bias_and_scales(isa: str, half: type) -> None:
    rng = np.random.default_rng(3)
    a, b, c = (rng.standard_normal(shape, np.float32) for shape in ((5, 70), (70, 37), (37,)))
    b = b.astype(half)
    node = make_node("Gemm", [a, b, c], {"alpha": 0.5, "beta": -2.0}, constants=(1, 2))
    expected = 0.5 * (a @ b.astype(np.float32)) - 2 * c
    np.testing.assert_allclose(run_op(node, [a, b, c], isa=isa)[0], expected, atol=1e-4)


def test_unpacked_16_bit_weights_of_a_matmul_are_refused() -> None:
    desc = {dtype: TensorDesc.plain(dtype, (4, 4)) for dtype in (DType.FLOAT32, DType.FLOAT16)}
    src = [Slot(Region.INPUT, 0, 64, desc[DType.FLOAT32], 0), Slot(Region.INPUT, 0, 32, desc[DType.FLOAT16], 1)]
    dst = [Slot(Region.OUTPUT, 0, 64, desc[DType.FLOAT32], 0)]
    sizes = {"m": 4, "k": 4, "n": 4, "a_row": 4, "a_col": 1, "b_row": 4, "b_col": 1, "y_row": 4, "batch": [1] * 5}
    params = table.pack_params("matmul", sizes | {"scale": 1.0, "bias_scale": 1.0, "weights": "f16"})
    with pytest.raises(_kernels.Refused, match="must be packed"):
        _kernels.Plan(table.pack_task("matmul", src, dst, params), None, 0, [64, 32], [64], 1)
