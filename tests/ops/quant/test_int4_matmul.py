"""Int4MatMul: products with weights of 4 bits, against float64; its rows against each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir.tensor import Array
from atcpy.ops.quant.int4_matmul import evaluate_int4_matmul, pack_steps, pack_weights
from tests.effort import trials
from tests.harness import make_node, run_op
from tests.isa import BYTE_ISAS, ISAS


class Product:
    """Random weights as the model has them, and as the op has them."""

    def __init__(self, n: int, k: int, block: int, *, zeros: bool, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.k, self.block, blocks = k, block, -(-k // block)
        bytes_ = self.rng.integers(0, 256, (n, blocks, block // 2)).astype(np.uint8)
        scales = self.rng.standard_normal((n, blocks)).astype(np.float32)
        points = self.rng.integers(0, 16, (n, blocks)).astype(np.uint8)
        numbers = np.stack([bytes_ & 15, bytes_ >> 4], axis=-1).reshape(n, blocks, block)
        shifts = points[:, :, None] if zeros else 8
        self.wide = ((numbers.astype(np.float64) - shifts) * scales[:, :, None]).reshape(n, -1)[:, :k]
        self.operands = [pack_weights(bytes_), pack_steps(scales), *([pack_steps(points)] if zeros else [])]
        self.attrs = {"N": n, "K": k, "block_size": block}

    def run(self, x: Array, digits: int, isa: str, threads: int = 1) -> Array:
        arrays = [x, *self.operands]
        node = make_node("Int4MatMul", arrays, {**self.attrs, "digits": digits}, constants=range(1, len(arrays)))
        return run_op(node, arrays, isa=isa, threads=threads)[0]

    def rounded(self, x: Array) -> Array:
        """x in 127 steps of the largest magnitude of its block."""
        padded = np.zeros((*x.shape[:-1], -(-self.k // self.block), self.block), np.float32)
        padded.reshape(*x.shape[:-1], -1)[..., : self.k] = x
        largest = np.abs(padded).max(axis=-1, keepdims=True)
        factor = np.divide(np.float32(127), largest, out=np.zeros_like(largest), where=largest > 0)
        steps = np.rint(padded * factor).astype(np.float64) * (largest / np.float32(127))
        return np.asarray(steps.reshape(*x.shape[:-1], -1)[..., : self.k])


CASES = st.tuples(
    st.sampled_from([1, 2, 3, 5, 7, 8, 22, 70]),
    st.sampled_from([1, 15, 16, 33, 70]),
    st.sampled_from([1, 16, 31, 64, 257]),
    st.sampled_from([16, 32, 128]),
)


@pytest.mark.parametrize("isa", sorted({*BYTE_ISAS, *ISAS}))
@settings(max_examples=trials(25), deadline=None)
@given(case=CASES, zeros=st.booleans(), digits=st.sampled_from([1, 3]), threads=st.sampled_from([1, 3]))
def test_products_are_those_of_float64(
    isa: str, case: tuple[int, int, int, int], zeros: bool, digits: int, threads: int
) -> None:
    m, n, k, block = case
    product = Product(n, k, block, zeros=zeros, seed=m + n + k)
    x = (product.rng.standard_normal((m, k)) * np.exp2(product.rng.integers(-9, 9, (m, 1)))).astype(np.float32)
    exact = (x if digits == 3 else product.rounded(x)).astype(np.float64) @ product.wide.T
    size = np.abs(x.astype(np.float64)) @ np.abs(product.wide.T) + 15 * np.abs(x).max(axis=-1, keepdims=True)
    ours = product.run(x, digits, isa, threads)
    assert (np.abs(ours - exact) <= 2e-6 * size).all()


@pytest.mark.parametrize("isa", BYTE_ISAS)
@pytest.mark.parametrize("digits", [1, 3])
def test_magnitudes_at_the_ends_of_float32(isa: str, digits: int) -> None:
    """Blocks of nothing, of small numbers, and of the largest ones; then infinity and NaN, in rows of their own."""
    product = Product(20, 64, 32, zeros=False, seed=1)
    x = np.zeros((6, 64), np.float32)
    x[1] = 1e-29
    x[2, ::3] = 3e38 / 64 / 64
    x[0, 3] = 1e-31
    x[3, 7], x[4, 40], x[5, 2] = np.inf, -np.inf, np.nan
    ours = product.run(x, digits, isa)
    exact = x[:3].astype(np.float64) @ product.wide.T
    assert (ours[0] == 0).all()
    np.testing.assert_allclose(ours[1], exact[1], rtol=1e-4, atol=1e-33)
    np.testing.assert_allclose(ours[2], exact[2], rtol=1e-4, atol=1e33)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(ours[3], np.inf * product.wide[:, 7])
        np.testing.assert_array_equal(ours[4], -np.inf * product.wide[:, 40])
    assert np.isnan(ours[5]).all()


@pytest.mark.parametrize("isa", sorted({*BYTE_ISAS, *ISAS}))
def test_infinity_and_nan_among_many_rows(isa: str) -> None:
    """One of them a row, whose other numbers are 0; weights are not."""
    product = Product(20, 300, 32, zeros=False, seed=3)
    x = np.zeros((16, 300), np.float32)
    x[3, 7], x[4, 299], x[15, 2] = np.inf, -np.inf, np.nan
    ours = product.run(x, 3, isa)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(ours[3], np.inf * product.wide[:, 7])
        np.testing.assert_array_equal(ours[4], -np.inf * product.wide[:, 299])
    assert np.isnan(ours[15]).all()
    assert not ours[[0, 1, 2, *range(5, 15)]].any()


def test_the_definition_is_that_of_the_kernel() -> None:
    product = Product(20, 40, 16, zeros=True, seed=2)
    x = product.rng.standard_normal((2, 3, 40)).astype(np.float32)
    arrays = [x, *product.operands]
    node = make_node("Int4MatMul", arrays, {**product.attrs, "digits": 3}, constants=[1, 2, 3])
    np.testing.assert_allclose(evaluate_int4_matmul(node, arrays)[0], x @ product.wide.T, atol=1e-4)
