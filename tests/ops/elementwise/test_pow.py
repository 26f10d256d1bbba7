"""Pow: bases and exponents of every type, one constant exponent, blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir import NC1HWC0, DType, Reject
from atcpy.kernels import _kernels
from atcpy.ops import find_opdef
from tests.effort import trials
from tests.harness import make_node, reference_op, rejections, run_op
from tests.isa import ISAS
from tests.ops.elementwise.test_binary import DIVISION_BY_ZERO, INTEGERS, SPECIAL, broadcasts

BASES = [np.float32, np.float64, np.int32, np.int64]
EXPONENTS = [np.float32, np.float64, *INTEGERS]


@given(
    shapes=broadcasts(), base=st.sampled_from(BASES), exponent=st.sampled_from(EXPONENTS), seed=st.integers(0, 2**32)
)
@settings(max_examples=trials(120))
def test_agrees_with_the_reference(shapes: tuple[tuple[int, ...], ...], base: type, exponent: type, seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(1, 9, shapes[0]).astype(base), rng.integers(0, 7, shapes[1]).astype(exponent)]
    if base in (np.float32, np.float64):
        arrays[0] = arrays[0] + base(0.25)
        if exponent not in INTEGERS[4:]:
            arrays[1] = arrays[1] - exponent(3)
    node = make_node("Pow", arrays)
    expected = reference_op(node, arrays)[0]
    ours = run_op(node, arrays, threads=2)[0]
    assert (ours.dtype, ours.shape) == (base, expected.shape)
    np.testing.assert_allclose(ours, expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f32", "f64"])
def test_special_values(dtype: type) -> None:
    with np.errstate(all="ignore"):
        arrays = [SPECIAL.reshape(-1, 1).astype(dtype), SPECIAL.astype(dtype)]
        node = make_node("Pow", arrays)
        np.testing.assert_allclose(run_op(node, arrays)[0], reference_op(node, arrays)[0], rtol=1e-6)


@pytest.mark.parametrize("exponent", [np.int32, np.int64, np.int8], ids=lambda dtype: dtype.__name__)
def test_integer_powers_wrap_and_truncate(exponent: type) -> None:
    a, b = np.array([2, -1, -1, 1, 3, 7], np.int32), np.array([31, -3, -2, -9, -1, 0], exponent)
    node = make_node("Pow", [a, b])
    np.testing.assert_array_equal(run_op(node, [a, b])[0], [-(2**31), -1, 1, 1, 0, 1])


def test_large_exponents_keep_their_parity() -> None:
    arrays = [np.array([-1, 3], np.float32), np.array([2**24 + 1, 2**40])]
    np.testing.assert_array_equal(run_op(make_node("Pow", arrays), arrays)[0], [-1, np.inf])
    wide = [np.array([-1, 2]), np.array([2**64 - 1, 2**63], np.uint64)]
    np.testing.assert_array_equal(run_op(make_node("Pow", wide), wide)[0], [-1, 0])


def test_an_unrepresentable_integer_result_is_the_lowest_integer() -> None:
    arrays = [np.array([2, 2, -8, 5], np.int32), np.array([31.0, 0.5, 0.5, -1], np.float32)]
    np.testing.assert_array_equal(run_op(make_node("Pow", arrays), arrays)[0], [-(2**31), 1, -(2**31), 0])


def test_zero_to_a_power_below_zero_is_reported() -> None:
    arrays = [np.array([1, 0], np.int32), np.array([2, -1], np.int32)]
    with pytest.raises(_kernels.Fault) as caught:
        run_op(make_node("Pow", arrays), arrays)
    assert caught.value.args[1] == DIVISION_BY_ZERO


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("exponent", [2, 3, 0.5, -1, 0, 2.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64], ids=["f32", "f64", "i64"])
def test_a_constant_power(exponent: float, dtype: type, isa: str) -> None:
    x = np.concatenate([SPECIAL, np.linspace(-3, 3, 13, dtype=np.float32)])
    arrays = [x, np.array([exponent], dtype)]
    node = make_node("Pow", arrays, constants=[1])
    with np.errstate(all="ignore"):
        # A full array of exponents: numpy takes sqrt for one 0.5, which differs at −0 and −inf.
        expected = np.power(x.astype(np.float64), np.full(x.shape, float(arrays[1][0]))).astype(np.float32)
    np.testing.assert_allclose(run_op(node, arrays, isa=isa)[0], expected, rtol=2e-7)


def test_blocks_of_channels() -> None:
    x = np.random.default_rng(5).uniform(0.5, 2, (2, 19, 3, 5)).astype(np.float32)
    arrays = [x, np.arange(19, dtype=np.float32).reshape(1, 19, 1, 1) - 9]
    node = make_node("Pow", arrays)
    np.testing.assert_allclose(run_op(node, arrays, blocked=True)[0], reference_op(node, arrays)[0], rtol=1e-6)
    assert node.output.desc.storage_shape == (2, 2, 3, 5, 16)


def test_reasons_against_the_kernel() -> None:
    opdef = find_opdef(make_node("Pow", [np.ones(1), np.ones(1)]))
    assert opdef is not None and opdef.layout is not None
    halves = make_node("Pow", [np.ones(1, np.float16), np.ones(1, np.float16)])
    assert rejections(halves) == ["dtype", "dtype"]
    whole = make_node("Pow", [np.ones((1, 2, 3, 3), np.int32), np.ones((1, 2, 3, 3), np.int32)])
    layout = opdef.layout(whole, (NC1HWC0, NC1HWC0))
    assert isinstance(layout, Reject) and layout.reason == "integer-division"
    assert whole.output.desc.dtype is DType.INT32


@pytest.mark.parametrize("isa", ISAS)
def test_powers_of_float32_are_rounded_right_but_for_half_a_unit(isa: str) -> None:
    rng = np.random.default_rng(0)
    a, b = np.exp(rng.normal(0, 10, 4000)).astype("f4"), rng.normal(0, 3, 4000).astype("f4")
    right = np.power(a.astype("f8"), b.astype("f8"))
    inside = (right > np.finfo("f4").tiny) & (right < np.finfo("f4").max)
    (ours,) = run_op(make_node("Pow", [a, b]), [a, b], isa=isa)
    assert (ours[right > 2.0**128] == np.inf).all()
    assert (ours[right < 2.0**-151] == 0).all()
    units = np.spacing(right[inside].astype("f4")).astype("f8")
    assert np.abs((ours[inside] - right[inside]) / units).max() < 0.51
