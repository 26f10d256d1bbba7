"""Activations fused into cube ops, tested through a convolution that copies its input."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from atcpy.ir.tensor import Array
from tests.harness import make_node, run_op
from tests.isa import ISAS

ALPHA, BETA = 0.25, 0.75
SPECIAL = [0.0, -0.0, 1e-30, 3.0, -3.0, 87.0, -87.0, 88.8, -104.5, 1e30, -1e30, np.inf, -np.inf, np.nan]

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "Relu": lambda x: np.where(x < 0, 0, x),
    "Clip": lambda x: np.clip(x, ALPHA, BETA),
    "LeakyRelu": lambda x: np.where(x < 0, ALPHA * x, x),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "HardSigmoid": lambda x: np.clip(ALPHA * x + BETA, 0, 1),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "Swish": lambda x: x / (1 + np.exp(-ALPHA * x)),
    "Tanh": np.tanh,
    "Gelu": lambda x: x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "GeluTanh": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "Elu": lambda x: np.where(x < 0, ALPHA * np.expm1(np.minimum(x, 0)), x),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Softplus": lambda x: np.logaddexp(0, x),
    "Affine": lambda x: ALPHA * x + BETA,
    "ThresholdedRelu": lambda x: np.where(x > ALPHA, x, 0),
    "ScaledTanh": lambda x: ALPHA * np.tanh(BETA * x),
    "Mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "Selu": lambda x: BETA * np.where(x < 0, ALPHA * np.expm1(np.minimum(x, 0)), x),
    "Celu": lambda x: np.where(x < 0, ALPHA * np.expm1(np.minimum(x, 0) / ALPHA), x),
}


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("channels", [1, 9])  # whose lanes are results, and channels
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_agrees_with_float64(kind: str, channels: int, isa: str) -> None:
    rng = np.random.default_rng(5)
    x = np.concatenate([np.array(SPECIAL), rng.normal(0, 6, 200)]).astype(np.float32).reshape(1, 1, 1, -1)
    arrays = [x, np.ones((channels, 1, 1, 1), np.float32)]
    node = make_node("FusedConv", arrays, {"activation": kind, "alpha": ALPHA, "beta": BETA}, constants=[1])
    ours = run_op(node, arrays, isa=isa)[0]
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[kind](x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(ours, expected.repeat(channels, axis=1), rtol=1e-6, atol=2e-7)


@pytest.mark.parametrize("isa", ISAS)
def test_swish_of_one_agrees_with_float64(isa: str) -> None:
    """The usual alpha has a loop of its own."""
    x = np.concatenate([np.array(SPECIAL), np.linspace(-95, 95, 4000)]).astype(np.float32).reshape(1, 1, 1, -1)
    arrays = [x, np.ones((9, 1, 1, 1), np.float32)]
    node = make_node("FusedConv", arrays, {"activation": "Swish", "alpha": 1.0}, constants=[1])
    ours = run_op(node, arrays, isa=isa)[0]
    with np.errstate(all="ignore"):
        expected = (x / (1 + np.exp(-x.astype(np.float64)))).astype(np.float32)
    np.testing.assert_allclose(ours, expected.repeat(9, axis=1), rtol=5e-7, atol=3e-37)


@pytest.mark.parametrize("isa", ISAS)
def test_gelu_of_small_numbers_has_a_small_relative_error(isa: str) -> None:
    sizes = np.geomspace(1e-30, 1, 500)
    x = np.concatenate([sizes, -sizes]).astype(np.float32).reshape(1, 1, 1, -1)
    arrays = [x, np.ones((1, 1, 1, 1), np.float32)]
    ours = run_op(make_node("FusedConv", arrays, {"activation": "Gelu"}, constants=[1]), arrays, isa=isa)[0]
    np.testing.assert_allclose(ours, FUNCTIONS["Gelu"](x.astype(np.float64)), rtol=3e-6, atol=0)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize("width", [1, 3])
def test_a_convolution_of_each_channel_agrees_with_float64(kind: str, isa: str, width: int) -> None:
    """Filters of one tap, and of three of which the outer ones are 0, in two blocks of channels."""
    rng = np.random.default_rng(6)
    x = rng.normal(0, 6, (1, 20, 2, 23)).astype(np.float32)
    weights = np.zeros((20, 1, 1, width), np.float32)
    weights[..., width // 2] = 1
    attrs = {"activation": kind, "alpha": ALPHA, "beta": BETA, "group": 20, "pads": (0, width // 2, 0, width // 2)}
    ours = run_op(make_node("FusedConv", [x, weights], attrs, constants=[1]), [x, weights], isa=isa)[0]
    expected = FUNCTIONS[kind](x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=2e-7)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_a_sum_over_many_channels_is_activated_once(kind: str, isa: str) -> None:
    """So many input channels that the sum is stored in between, for three blocks of output channels."""
    rng = np.random.default_rng(7)
    x = rng.normal(0, 1, (1, 600, 1, 31)).astype(np.float32)
    weights = rng.normal(0, 0.1, (40, 600, 1, 1)).astype(np.float32)
    attrs = {"activation": kind, "alpha": ALPHA, "beta": BETA}
    ours = run_op(make_node("FusedConv", [x, weights], attrs, constants=[1]), [x, weights], isa=isa)[0]
    sums = np.einsum("nchw,mc->nmhw", x.astype(np.float64), weights[:, :, 0, 0].astype(np.float64))
    # The terms of a sum have magnitudes of 50 in all: their rounding is 3e-6 each time that they are added up.
    np.testing.assert_allclose(ours, FUNCTIONS[kind](sums), rtol=1e-5, atol=6e-6)


@pytest.mark.parametrize("isa", ISAS)
def test_exp_below_the_normal_range(isa: str) -> None:
    """Denormal results are within one ulp; results below the smallest denormal are 0."""
    x = np.concatenate([np.linspace(-106, -86, 401), [-1e4, -np.inf, np.nan, 0]]).astype(np.float32)
    node = make_node("Exp", [x], {})
    ours = run_op(node, [x], isa=isa)[0]
    expected = np.exp(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_allclose(ours, expected, rtol=1.2e-7, atol=1.5e-45)
    assert not ours[x < -103.98].any()
