"""Depthwise convolutions of bytes whose weights fit into bytes, three rows at once, and of such that do not."""

from __future__ import annotations

import numpy as np
import pytest

from atcpy.ir.tensor import Array
from tests.harness import make_node, run_op
from tests.isa import BYTE_ISAS
from tests.ops.quant.test_qgemm import bytes_of, exact_conv, less_zero, requantised

CHANNELS = 19
# Weights of the first two rows in one column: their products with 255 fit into 16 bits together, or do not.
PAIRS = [
    (64, 64), (65, 64), (-64, -64), (-64, -65), (127, 1), (1, 127), (127, 2), (-128, 0), (0, -128), (-128, -1),
    (127, -128), (-128, 127), (127, 127), (-128, -128), (0, 0),
]  # fmt: skip


def weights(differences: Array, zeros: Array, dtype: str) -> Array:
    """What gives these differences with its zero points, one a channel."""
    w = differences + zeros.reshape(-1, 1, 1, 1)
    assert np.array_equal(w, w.astype(dtype))
    return np.asarray(w.astype(dtype))


@pytest.mark.parametrize("isa", BYTE_ISAS)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("channel", [0, 5, 10, 15, 17])
def test_products_of_two_rows_are_exact(isa: str, stride: int, channel: int) -> None:
    """One channel has the pair, in each column and as the last two rows; pixels are the largest ones."""
    x = np.full((1, CHANNELS, 5, 11), 255, np.uint8)
    x[..., 1::3] = 254
    attrs = {"group": CHANNELS, "strides": (stride, stride), "pads": (1, 1, 1, 1)}
    for first, second in PAIRS:
        for row, column in ((0, 0), (0, 1), (0, 2), (1, 1)):
            w = np.ones((CHANNELS, 1, 3, 3), np.int8)
            w[channel, 0, row : row + 2, column] = first, second
            arrays = [x, w, np.array(3, "u1")]
            node = make_node("ConvInteger", arrays, attrs, constants=[1])
            ours = run_op(node, arrays, isa=isa, blocked=True)[0]
            np.testing.assert_array_equal(ours, exact_conv(less_zero(x, arrays[2], 0), w, attrs).astype(np.int32))


@pytest.mark.parametrize("isa", BYTE_ISAS)
@pytest.mark.parametrize("value", [127, 128, 255, -128, -129, -255])
@pytest.mark.parametrize("row", [0, 1, 2])
def test_differences_beyond_bytes_are_exact(isa: str, value: int, row: int) -> None:
    """A weight of unsigned or signed bytes, less the zero point of its channel, that fits into a byte or does not."""
    rng = np.random.default_rng(row)
    attrs = {"group": CHANNELS, "pads": (1, 1, 1, 1)}
    x = bytes_of(rng, (1, CHANNELS, 4, 9), "u1")
    for dtype, low, high in (("u1", 0, 255), ("i1", -128, 127)):
        differences = rng.integers(-50, 51, (CHANNELS, 1, 3, 3))
        zeros = rng.integers(low + 50, high - 49, CHANNELS)
        zeros[7] = low if value > 0 else high
        differences[7] = np.sign(value) * abs(differences[7])
        differences[7, 0, :, 1] = 0
        differences[7, 0, row, 1] = value
        w = weights(differences, zeros, dtype)
        arrays = [x, w, np.array(9, "u1"), zeros.astype(dtype)]
        node = make_node("ConvInteger", arrays, attrs, constants=[1, 3])
        ours = run_op(node, arrays, isa=isa, blocked=True)[0]
        expected = exact_conv(less_zero(x, arrays[2], 0), differences.astype(np.float64), attrs)
        np.testing.assert_array_equal(ours, expected.astype(np.int32))


@pytest.mark.parametrize("isa", BYTE_ISAS)
@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (1, 2), (2, 1)])
@pytest.mark.parametrize("bound", [60, 128])
@pytest.mark.parametrize(("x_type", "y_type"), [("u1", "u1"), ("u1", "i1"), ("i1", "u1"), ("i1", "i1"), ("u1", "i4")])
def test_rows_of_any_width(isa: str, strides: tuple[int, int], bound: int, x_type: str, y_type: str) -> None:
    """Around tiles and what lies beside the picture; scales with which sums are bounded and saturate, or are not."""
    rng = np.random.default_rng(bound)
    for width in (*range(1, 21), 63, 64, 65, 70):
        dilations, left = (1 + width % 2, 1), int(rng.integers(0, 3))
        pads = (1, left, 1, max(3 - width - left, int(rng.integers(0, 3))))
        attrs = {"group": CHANNELS, "strides": strides, "dilations": dilations, "pads": pads}
        x = bytes_of(rng, (1, CHANNELS, 6, width), x_type)
        differences, zeros = rng.integers(-bound, bound, (CHANNELS, 1, 3, 3)), rng.integers(-3, 1, CHANNELS)
        w = weights(np.clip(differences, -124, 127), zeros, "i1")
        x_zero, w_zero = np.array(77, x_type), zeros.astype("i1")
        total = exact_conv(less_zero(x, x_zero, 0), less_zero(w, w_zero, 0), attrs)
        if y_type == "i4":
            arrays = [x, w, x_zero, w_zero]
            node = make_node("ConvInteger", arrays, attrs, constants=[1, 3])
            expected = total.astype(np.int32)
        else:
            y_zero, y_scale = np.array(rng.integers(0, 100), y_type), np.float32([0.25, 64][width % 3 > 0])
            scales = np.asarray(np.float32(0.5)), np.exp2(rng.integers(-2, 2, CHANNELS)).astype(np.float32)
            arrays = [x, scales[0], x_zero, w, scales[1], w_zero, np.asarray(y_scale), y_zero]
            node = make_node("QLinearConv", arrays, attrs, constants=[3])
            expected = requantised(total, scales[0], scales[1].reshape(-1, 1, 1), np.asarray(y_scale), y_zero)
        np.testing.assert_array_equal(run_op(node, arrays, isa=isa, blocked=True)[0], expected)


@pytest.mark.parametrize("isa", BYTE_ISAS)
@pytest.mark.parametrize("y_type", ["u1", "i1"])
@pytest.mark.parametrize("factor", [np.nan, np.inf, -np.inf, 3e38, 1e-45, -0.25])
def test_scales_that_are_no_numbers(isa: str, y_type: str, factor: float) -> None:
    """NaN becomes the least byte, infinities the limits, as on the plain row."""
    rng = np.random.default_rng(4)
    x, w = bytes_of(rng, (1, CHANNELS, 5, 9), "u1"), rng.integers(-60, 60, (CHANNELS, 1, 3, 3)).astype("i1")
    w_scale = np.full(CHANNELS, 0.25, np.float32)
    w_scale[[2, 9, 18]] = factor
    one, zero = np.asarray(np.float32(1)), np.zeros((), "i1")
    arrays = [x, one, np.array(100, "u1"), w, w_scale, zero, one, np.array(5, y_type)]
    node = make_node("QLinearConv", arrays, {"group": CHANNELS, "pads": (1, 1, 1, 1)}, constants=[3])
    ours, plain = (run_op(node, arrays, isa=each, blocked=True)[0] for each in (isa, "scalar"))
    np.testing.assert_array_equal(ours, plain)
