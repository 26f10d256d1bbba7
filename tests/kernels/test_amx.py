"""Tiles of AMX: edges of tiles, what lies beside them in memory, and the arithmetic of the instructions.

A build with -Damx=emulated runs these tests on CPUs without AMX (`make amx`).
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from tests.effort import trials
from tests.harness import make_node, run_op

pytestmark = pytest.mark.skipif(_kernels.cpu()[0] != "amx", reason="neither AMX nor its emulation")

ROWS = (2, 3, 15, 16, 17, 31, 32, 33, 47, 50, 130)
COLUMNS = (1, 15, 16, 17, 32, 33, 70)


def bound(k: int) -> float:
    """How much sums of k products of normal numbers may differ, as in test_bf16_products.py."""
    return float(1e-6 * (k**0.5 * 8 + 4))


def products(a: Array, b: Array, isa: str) -> Array:
    """a · b of bfloat16 on an instruction set."""
    rows: list[str] = []
    b = b.astype(ml_dtypes.bfloat16)
    [y] = run_op(make_node("MatMul", [a, b], {"multiplies_bf16": 1}, constants=(1,)), [a, b], isa=isa, rows=rows)
    assert rows == [f"matmul_f32_{isa}"]
    return y


@settings(max_examples=trials(60), deadline=None)
@given(
    m=st.sampled_from(ROWS), n=st.sampled_from(COLUMNS), k=st.sampled_from([1, 2, 31, 32, 33, 63, 64, 65, 97, 1570]),
    threads=st.sampled_from([1, 3]), seed=st.integers(0, 9),
)  # fmt: skip
def test_sums_of_bfloat16_agree_with_the_scalar_row(m: int, n: int, k: int, threads: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, c = rng.standard_normal((m, k), np.float32), rng.standard_normal(n, np.float32)
    b = rng.standard_normal((k, n)).astype(ml_dtypes.bfloat16)
    node = make_node("Gemm", [a, b, c], {"alpha": -0.5, "beta": 3.0, "multiplies_bf16": 1}, constants=(1, 2))
    ours, scalar = (run_op(node, [a, b, c], isa=isa, threads=threads)[0] for isa in ("amx", "scalar"))
    np.testing.assert_allclose(ours, scalar, rtol=0, atol=bound(k))


@pytest.mark.parametrize("k", [5, 33, 40, 64, 70])
def test_nan_and_infinity_stay_in_their_rows_and_columns(k: int) -> None:
    rng = np.random.default_rng(k)
    a, b = rng.standard_normal((37, k), np.float32), rng.standard_normal((k, 70))
    b[0, 16], b[k - 1, 31], b[k // 2, 64], a[20, k - 1], a[36, 0] = np.nan, np.inf, -np.inf, np.nan, np.inf
    with np.errstate(invalid="ignore"):
        expected = a.astype(np.float64) @ b
    np.testing.assert_array_equal(np.isnan(products(a, b, "amx")), np.isnan(expected))
    np.testing.assert_array_equal(np.isfinite(products(a, b, "amx")), np.isfinite(expected))


@pytest.mark.parametrize("activation", ["Relu", "Sigmoid"])
@pytest.mark.parametrize(("m", "n"), [(2, 5), (33, 40), (16, 32)])
def test_residual_and_activation(activation: str, m: int, n: int) -> None:
    rng = np.random.default_rng(m)
    a, b = rng.standard_normal((m, 1600), np.float32), rng.standard_normal((1600, n)).astype(ml_dtypes.bfloat16)
    arrays = [a, b, rng.standard_normal(n, np.float32), rng.standard_normal((m, n), np.float32)]
    node = make_node("FusedMatMul", arrays, {"activation": activation, "multiplies_bf16": 1}, constants=(1, 2))
    ours, scalar = (run_op(node, arrays, isa=isa)[0] for isa in ("amx", "scalar"))
    np.testing.assert_allclose(ours, scalar, rtol=0, atol=bound(1600))


def test_even_and_odd_elements_of_k_are_summed_apart() -> None:
    large = 2.0**24
    a = np.array([[large, -large, 1, 1]] * 2, np.float32)
    # 2²⁴ + 1 is 2²⁴ in float32, and 1 − 2²⁴ is exact.
    assert products(a, np.ones((4, 1)), "amx").tolist() == [[1.0]] * 2
    tiles = np.zeros((2, 34), np.float32)  # a tile has 32 elements of k: what follows is added to its sum
    tiles[:, 0], tiles[:, 1], tiles[:, 32] = large, -large, 1
    assert products(tiles, np.ones((34, 1)), "amx").tolist() == [[1.0]] * 2


def test_numbers_below_the_normal_ones_are_zero() -> None:
    def product(a: float, b: float) -> float:
        [[y], _] = products(np.full((2, 1), a, np.float32), np.full((1, 1), b), "amx").tolist()
        return float(y)

    assert product(2.0**-63, 2.0**-63) == 2.0**-126
    assert product(2.0**-63, 2.0**-64) == 0  # below the normal numbers
    assert product(2.0**-130, 2.0**20) == 0  # a factor is
    # 1.9921875² · 2⁻¹²⁸ is 0.992 · 2⁻¹²⁶, and with 2⁻¹²⁶ it is normal.
    assert product(1.9921875 * 2.0**-64, 1.9921875 * 2.0**-64) == 0


@settings(max_examples=trials(80), deadline=None)
@given(
    m=st.sampled_from(ROWS), n=st.sampled_from(COLUMNS),
    k=st.sampled_from([1, 3, 4, 60, 63, 64, 65, 68, 127, 128, 200, 1024]),
    types=st.tuples(st.sampled_from(["u1", "i1"]), st.sampled_from(["u1", "i1"])), zeros=st.booleans(),
    constant=st.booleans(), threads=st.sampled_from([1, 3]), seed=st.integers(0, 9),
)  # fmt: skip
def test_sums_of_bytes_are_exact(
    m: int, n: int, k: int, types: tuple[str, str], zeros: bool, constant: bool, threads: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    low, high = np.array([np.iinfo(t).min for t in types]), np.array([np.iinfo(t).max for t in types])
    a, b = (rng.integers(low[i], high[i] + 1, shape).astype(types[i]) for i, shape in enumerate([(m, k), (k, n)]))
    a[0], b[:, 0] = low[0], low[1]
    x_zero, w_zero = np.array(high[0] - 3, types[0]), rng.integers(low[1], high[1] + 1, n).astype(types[1])
    arrays = [a, b, x_zero, w_zero] if zeros else [a, b]
    node = make_node("MatMulInteger", arrays, constants=[1] if constant else [])
    rows: list[str] = []
    [ours] = run_op(node, arrays, isa="amx", threads=threads, rows=rows)
    assert rows == ["qgemm_any_amx"]
    wide = [array.astype(np.int64) for array in arrays]
    expected = (wide[0] - wide[2]) @ (wide[1] - wide[3]) if zeros else wide[0] @ wide[1]
    np.testing.assert_array_equal(ours, expected.astype(np.int32))


def test_one_row_is_left_to_vectors() -> None:
    rows: list[str] = []
    a, b = np.ones((1, 40), np.int8), np.ones((40, 3), np.int8)
    run_op(make_node("MatMulInteger", [a, b], constants=[1]), [a, b], isa="amx", rows=rows)
    a, b = np.ones((1, 40), np.float32), np.ones((40, 3), ml_dtypes.bfloat16)
    run_op(make_node("MatMul", [a, b], {"multiplies_bf16": 1}, constants=(1,)), [a, b], isa="amx", rows=rows)
    assert rows == ["qgemm_any_avx512vnni", "matmul_f32_avx512bf16"]
