"""ConvInteger, QLinearConv, MatMulInteger, QLinearMatMul: exact sums, rounded as the standard requires."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir import Reject
from atcpy.ir.tensor import Array
from atcpy.ops.quant.qgemm import supports_integer_conv, supports_integer_matmul
from tests.effort import trials
from tests.harness import make_node, reference_op, run_op
from tests.isa import BYTE_ISAS

TYPES = st.sampled_from(["u1", "i1"])


def bytes_of(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Random values over the full range of the dtype, including its limits."""
    info = np.iinfo(dtype)
    array = rng.integers(info.min, info.max + 1, shape).astype(dtype)
    array.reshape(-1)[:2] = [info.min, info.max][: array.size]
    return array


def zero_of(rng: np.random.Generator, dtype: str, kind: str, channels: int) -> Array | None:
    """No zero point, the middle of the range, an arbitrary one, or one per channel."""
    if kind == "none":
        return None
    if kind == "middle":
        return np.array(128 if dtype == "u1" else 0, dtype)
    return bytes_of(rng, (channels,) if kind == "each" else (), dtype)


def less_zero(array: Array, zero: Array | None, axis: int) -> Array:
    """array − zero in float64, which represents all sums here exactly."""
    wide = array.astype(np.float64)
    if zero is None:
        return wide
    shape = [1] * array.ndim
    shape[axis] = -1
    return np.asarray(wide - zero.astype(np.float64).reshape(shape if zero.size > 1 else ()))


def exact_conv(x: Array, w: Array, attrs: dict[str, object]) -> Array:
    """The convolution in float64: every sum is an integer."""
    node = make_node("Conv", [x, w], attrs, constants=[1])
    return reference_op(node, [x, w])[0]


def requantised(total: Array, x_scale: Array, w_scale: Array, y_scale: Array, y_zero: Array) -> Array:
    """round(float32(sum) · scale) + zero, saturated; ties round to even, in float32."""
    scale = (x_scale * w_scale / y_scale).astype(np.float32)
    info = np.iinfo(y_zero.dtype)
    rounded = np.rint(total.astype(np.int32).astype(np.float32) * scale)
    return np.clip(rounded + y_zero.astype(np.float32), info.min, info.max).astype(y_zero.dtype)


CONVS = st.fixed_dictionaries(
    {
        "n": st.integers(1, 2), "c": st.sampled_from([1, 3, 4, 12, 16, 17, 40]), "m": st.sampled_from([1, 5, 16, 33]),
        "size": st.tuples(st.integers(3, 11), st.integers(3, 11)),
        "kernel": st.tuples(st.integers(1, 3), st.integers(1, 3)),
        "stride": st.tuples(st.integers(1, 2), st.integers(1, 2)), "dilation": st.integers(1, 2),
        "pad": st.tuples(*[st.integers(0, 2)] * 4), "group": st.sampled_from([1, 1, 1, 2, 3]),
        "types": st.tuples(TYPES, TYPES), "x_zero": st.sampled_from(["none", "middle", "any"]),
        "w_zero": st.sampled_from(["none", "middle", "any", "each"]), "seed": st.integers(0, 9),
    }
)  # fmt: skip


def conv_case(case: dict[str, object]) -> tuple[list[Array | None], dict[str, object]]:
    """x, w and their zero points, and the attributes."""
    n, c, m, group, size, kernel, (x_type, w_type) = (
        case[name] for name in ("n", "c", "m", "group", "size", "kernel", "types")
    )  # type: ignore[misc]
    rng = np.random.default_rng(case["seed"])  # type: ignore[arg-type]
    x = bytes_of(rng, (n, c * group, *size), x_type)
    w = bytes_of(rng, (m * group, c, *kernel), w_type)
    zeros = zero_of(rng, x_type, case["x_zero"], 1), zero_of(rng, w_type, case["w_zero"], m * group)  # type: ignore[arg-type]
    dilation = case["dilation"]
    if any((k - 1) * dilation >= side for k, side in zip(kernel, size, strict=True)):
        dilation = 1
    attrs = {"strides": case["stride"], "dilations": (dilation, dilation), "pads": case["pad"], "group": group}
    return [x, w, *zeros], attrs


@pytest.mark.parametrize("isa", BYTE_ISAS)
@settings(max_examples=trials(25), deadline=None)
@given(case=CONVS, blocked=st.booleans(), threads=st.sampled_from([1, 3]))
def test_conv_integer_sums_exactly(isa: str, case: dict[str, object], blocked: bool, threads: int) -> None:
    arrays, attrs = conv_case(case)
    x, w, x_zero, w_zero = arrays
    assert x is not None and w is not None
    expected = exact_conv(less_zero(x, x_zero, 0), less_zero(w, w_zero, 0), attrs)
    node = make_node("ConvInteger", arrays, attrs, constants=[1])
    blocked = blocked and (case["group"] == 1 or not (case["c"] % 16 or case["m"] % 16))  # type: ignore[operator]
    ours = run_op(node, arrays, isa=isa, blocked=blocked, threads=threads)[0]
    np.testing.assert_array_equal(ours, expected.astype(np.int32))


@pytest.mark.parametrize("isa", BYTE_ISAS)
@pytest.mark.parametrize(
    ("size", "kernel", "pad", "stride", "dilation", "c"),
    [
        ((7, 7), 3, 1, 1, 1, 20), ((9, 7), 3, 1, 1, 1, 16), ((14, 13), 3, 1, 2, 1, 17), ((7, 9), 2, 0, 1, 1, 17),
        ((15, 29), 1, 0, 2, 1, 32), ((9, 40), 7, 3, 2, 1, 3), ((4, 60), 3, 0, 1, 1, 2), ((2, 21), 3, 18, 1, 18, 5),
        ((17, 9), 1, 0, 1, 1, 48), ((17, 9), 1, 0, 1, 1, 4), ((1, 12000), 3, 1, 1, 1, 1), ((1, 70), 3, 1, 2, 1, 16),
    ],
)  # fmt: skip
@pytest.mark.parametrize("x_type", ["u1", "i1"])
def test_conv_reads_windows_where_they_lie(
    isa: str, size: tuple[int, int], kernel: int, pad: int, stride: int, dilation: int, c: int, x_type: str
) -> None:
    """Lines of results that are longer and shorter than a tile; pictures that are copied, or not, or too large, and
    planes of four channels; weights that are large, and small as most are in trained networks.
    """
    rng = np.random.default_rng(kernel)
    x, large = bytes_of(rng, (1, c, *size), x_type), bytes_of(rng, (18, c, kernel, kernel), "i1")
    attrs = {"strides": (stride,) * 2, "dilations": (dilation,) * 2, "pads": (pad,) * 4}
    for w in large, large // 4:
        arrays = [x, w, np.array(11, x_type), None]
        node = make_node("ConvInteger", arrays, attrs, constants=[1])
        expected = exact_conv(less_zero(x, arrays[2], 0), w.astype(np.float64), attrs)
        ours = run_op(node, arrays, isa=isa, blocked=c != 4, threads=2)[0]
        np.testing.assert_array_equal(ours, expected.astype(np.int32))


@pytest.mark.parametrize("isa", BYTE_ISAS)
@pytest.mark.parametrize("w_type", ["u1", "i1"])
@pytest.mark.parametrize(("m", "kernel"), [(64, 1), (130, 1), (200, 3)])
@pytest.mark.parametrize("threads", [1, 3])
def test_many_chunks_meet_the_same_weights(isa: str, w_type: str, m: int, kernel: int, threads: int) -> None:
    """Small weights of one tile and of several, whose schedules serve all chunks of 2 304 results on AVX2."""
    rng = np.random.default_rng(m)
    x, w = bytes_of(rng, (1, 16, 48, 48), "u1"), bytes_of(rng, (m, 16, kernel, kernel), w_type)
    w = w // 4 + (96 if w_type == "u1" else 0)
    w[: m // 2, 0] = np.iinfo(w_type).max
    arrays = [x, w.astype(w_type), None, np.array(121 if w_type == "u1" else 0, w_type)]
    attrs = {"pads": (kernel // 2,) * 4}
    node = make_node("ConvInteger", arrays, attrs, constants=[1])
    expected = exact_conv(x.astype(np.float64), less_zero(w, arrays[3], 0), attrs)
    ours = run_op(node, arrays, isa=isa, blocked=True, threads=threads)[0]
    np.testing.assert_array_equal(ours, expected.astype(np.int32))


@pytest.mark.parametrize("isa", BYTE_ISAS)
@pytest.mark.parametrize("rows", [1, 2, 6, 7, 23, 24])
@pytest.mark.parametrize(("k", "n"), [(5, 3), (511, 16), (516, 40), (1093, 65)])
@pytest.mark.parametrize("types", ["u1", "i1"])
def test_long_sums_are_exact_in_tiles_of_all_sizes(isa: str, rows: int, k: int, n: int, types: str) -> None:
    """Bytes at the limits, whose products would not fit into 16 bits in pairs; as sums, and rounded with any scale."""
    rng = np.random.default_rng(k + rows)
    x, w = bytes_of(rng, (rows, k), types), bytes_of(rng, (k, n), "i1")
    x[0], w[:, 0] = np.iinfo(types).max, 127
    x[-1], w[:, -1] = np.iinfo(types).min, -128
    x_zero, w_zero = np.array(7, types), np.zeros((), "i1")
    total = less_zero(x, x_zero, 0) @ w.astype(np.float64)
    node = make_node("MatMulInteger", [x, w, x_zero, None], {}, constants=[1])
    ours = run_op(node, [x, w, x_zero, None], isa=isa, threads=2)[0]
    np.testing.assert_array_equal(ours, total.astype(np.int32))
    for w_scale in (0.25, 2.0**20, np.inf, np.nan):  # scales of at most ½ have code of their own
        scales = [np.asarray(np.float32(scale)) for scale in (0.5, w_scale, 256.0)]
        y_zero = np.array(3, types)
        arrays = [x, scales[0], x_zero, w, scales[1], w_zero, scales[2], y_zero]
        node = make_node("QLinearMatMul", arrays, {}, constants=[3])
        rounded = run_op(node, arrays, isa=isa, threads=2)[0]
        if np.isfinite(w_scale):
            np.testing.assert_array_equal(rounded, requantised(total, *scales, y_zero))
        else:
            np.testing.assert_array_equal(rounded, run_op(node, arrays, isa="scalar", threads=1)[0])


def largest_sums(kind: str, steps: int, rng: np.random.Generator) -> Array:
    """Weights [4 · steps, 32] whose sums times 255 just fit into 16 bits (128) or just do not (129)."""
    w = np.zeros((steps, 4, 32), np.int8)
    some = np.arange(steps) % 4 == 3  # steps: where more than a third are large, all are widened
    if kind == "two of 128":
        w[some, :2] = np.array([127, 1])[:, None]
    elif kind == "two of 129":
        w[some, :2] = np.array([127, 2])[:, None]
    elif kind == "two of -128":
        w[some, 2:] = np.array([-128, 0])[:, None]
    elif kind == "two of -129":
        w[some, 2:] = np.array([-128, -1])[:, None]
    elif kind == "four of 128":  # in two steps
        w[:, :2] = np.array([60, 4])[:, None]
    elif kind == "four of 129":
        w[::2, :2], w[1::2, :2] = 64, np.array([1, 0])[:, None]
    elif kind == "four of -128":
        w[:, 2:] = np.array([-60, -4])[:, None]
    elif kind == "four of -129":
        w[::2, 2:], w[1::2, 2:] = -64, np.array([0, -1])[:, None]
    elif kind in {"first pair of 129", "second pair of 129"}:  # of four steps, in a column of either panel
        w[:, :2] = np.array([60, 4])[:, None]
        w[0 if kind == "first pair of 129" else 2 :: 4, 1, rng.integers(32)] += 1
    elif kind == "opposite":  # large, but their products cancel out
        w[:, ::2], w[:, 1::2] = 127, -128
    elif kind == "lowest":
        w[:] = -128
    elif kind == "one lane":  # only one column's weights are large
        w[:, :, rng.integers(32)] = 127
    else:  # a third, or one more, of 128 steps
        large = rng.permutation(min(steps, 128))[: int(kind)]
        w[:] = rng.integers(-20, 20, w.shape)
        w[large] = 127
    return w.reshape(4 * steps, 32)


@pytest.mark.parametrize("isa", BYTE_ISAS)
@pytest.mark.parametrize("types", ["u1", "i1"])
@pytest.mark.parametrize("steps", [1, 2, 127, 128, 300])
@pytest.mark.parametrize(
    "kind",
    [
        "two of 128", "two of 129", "two of -128", "two of -129", "four of 128", "four of 129", "four of -128",
        "four of -129", "first pair of 129", "second pair of 129", "opposite", "lowest", "one lane", "42", "43",
    ],
)  # fmt: skip
def test_large_weights_do_not_saturate(isa: str, types: str, steps: int, kind: str) -> None:
    """The largest and the least x, and any, by weights whose products AVX2 can and cannot add in 16 bits."""
    rng = np.random.default_rng(steps)
    w = largest_sums(kind, steps, rng)
    info = np.iinfo(types)
    x = rng.integers(info.min, info.max + 1, (13, len(w))).astype(types)
    x[0], x[1] = info.max, info.min
    node = make_node("MatMulInteger", [x, w], constants=[1])
    expected = x.astype(np.int64) @ w.astype(np.int64)
    assert np.array_equal(run_op(node, [x, w], isa=isa)[0], expected)


@pytest.mark.parametrize("isa", BYTE_ISAS)
@pytest.mark.parametrize("k", [4 << 16, (4 << 16) + 1])
def test_sums_of_very_many_products_wrap_around(isa: str, k: int) -> None:
    """The longest rows that AVX2 sorts by the size of their weights, and longer ones."""
    rng = np.random.default_rng(k)
    x, w = rng.integers(200, 256, (8, k)).astype("u1"), rng.integers(30, 61, (k, 3)).astype("i1")
    node = make_node("MatMulInteger", [x, w], constants=[1])
    expected = (x.astype(np.float64) @ w.astype(np.float64)).astype(np.int64)  # below 2^53
    assert expected.min() > np.iinfo(np.int32).max
    np.testing.assert_array_equal(run_op(node, [x, w], isa=isa)[0], expected.astype(np.int32))


@pytest.mark.parametrize("isa", BYTE_ISAS)
@pytest.mark.parametrize("largest", [60, 127])
def test_calls_end_within_lines(isa: str, largest: int) -> None:
    """So many products a result that a call may not take all tiles, for the sake of interruptions."""
    rng = np.random.default_rng(largest)
    x = bytes_of(rng, (1, 912, 7, 9), "u1")
    w = rng.integers(-largest, largest + 1, (16, 912, 3, 3)).astype("i1")
    node = make_node("ConvInteger", [x, w], {}, constants=[1])
    expected = exact_conv(x.astype(np.float64), w.astype(np.float64), {})
    np.testing.assert_array_equal(run_op(node, [x, w], isa=isa, blocked=True)[0], expected.astype(np.int32))


@pytest.mark.parametrize("isa", BYTE_ISAS)
@pytest.mark.parametrize("size", [(1, 1), (2, 4), (3, 3), (4, 2), (5, 1), (7, 7), (1, 10), (6, 5)])
@pytest.mark.parametrize("largest", [20, 60, 127])
@pytest.mark.parametrize(("m", "blocked"), [(5, True), (33, True), (33, False)])
def test_tiles_reach_across_short_lines(isa: str, size: tuple[int, int], largest: int, m: int, blocked: bool) -> None:
    """Lines of results shorter than a tile, of one panel and of three, in planes and in blocks of channels."""
    rng = np.random.default_rng(largest)
    x = bytes_of(rng, (2, 20, *(2 * side + 1 for side in size)), "u1")
    w = rng.integers(-largest, largest + 1, (m, 20, 3, 3)).astype("i1")
    attrs = {"strides": (2, 2)}
    arrays = [x, w, np.array(9, "u1"), None]
    node = make_node("ConvInteger", arrays, attrs, constants=[1])
    expected = exact_conv(less_zero(x, arrays[2], 0), w.astype(np.float64), attrs)
    ours = run_op(node, arrays, isa=isa, blocked=blocked, threads=2)[0]
    np.testing.assert_array_equal(ours, expected.astype(np.int32))


@pytest.mark.parametrize("isa", BYTE_ISAS)
@pytest.mark.parametrize("k", [1, 3, 15, 16, 2047, 2048, 2049, 4112])
@pytest.mark.parametrize("types", ["u1", "i1"])
def test_rows_are_summed_for_zero_points_of_weights(isa: str, k: int, types: str) -> None:
    """Each weight counts as its zero point, less which is what rows are summed for; 2048 are summed in 16 bits."""
    ends = np.iinfo(types)
    x = np.full((9, k), ends.max, types)
    x[1::2], x[-1, ::3] = ends.min, 5
    w, zero = np.full((k, 17), 2, types), np.array(ends.min + 9, types)
    node = make_node("MatMulInteger", [x, w, None, zero], {}, constants=[1, 3])
    ours = run_op(node, [x, w, None, zero], isa=isa, threads=2)[0]
    expected = x.astype(np.int64).sum(axis=1, keepdims=True) * (2 - int(zero))
    np.testing.assert_array_equal(ours, np.broadcast_to(expected, (9, 17)))


@pytest.mark.parametrize("isa", BYTE_ISAS)
@pytest.mark.parametrize("channels", [1, 3, 4, 5, 16, 19, 32])
@pytest.mark.parametrize("kernel", [1, 3])
def test_windows_are_summed_for_zero_points_of_weights(isa: str, channels: int, kernel: int) -> None:
    """Of channels that fill no block, and with a padding, which counts as the zero point of x."""
    rng = np.random.default_rng(channels)
    x, w = bytes_of(rng, (2, channels, 7, 9), "u1"), bytes_of(rng, (20, channels, kernel, kernel), "u1")
    arrays = [x, w, np.array(200, "u1"), np.array(90, "u1")]
    attrs = {"pads": (kernel // 2,) * 4}
    node = make_node("ConvInteger", arrays, attrs, constants=[1, 3])
    expected = exact_conv(less_zero(x, arrays[2], 0), less_zero(w, arrays[3], 0), attrs)
    ours = run_op(node, arrays, isa=isa, blocked=True, threads=2)[0]
    np.testing.assert_array_equal(ours, expected.astype(np.int32))


@pytest.mark.parametrize("isa", BYTE_ISAS)
@settings(max_examples=trials(20), deadline=None)
@given(case=CONVS, channels=st.sampled_from([2, 16, 21, 40]), threads=st.sampled_from([1, 3]))
def test_depthwise_conv_sums_exactly(isa: str, case: dict[str, object], channels: int, threads: int) -> None:
    arrays, attrs = conv_case({**case, "c": 1, "m": 1, "group": channels})
    x, w, x_zero, w_zero = arrays
    assert x is not None and w is not None
    expected = exact_conv(less_zero(x, x_zero, 0), less_zero(w, w_zero, 0), attrs)
    node = make_node("ConvInteger", arrays, attrs, constants=[1])
    ours = run_op(node, arrays, isa=isa, blocked=True, threads=threads)[0]
    np.testing.assert_array_equal(ours, expected.astype(np.int32))


@pytest.mark.parametrize("isa", BYTE_ISAS)
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "dilation", "pads"),
    [
        ((7, 7), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)), ((14, 9), (3, 3), (2, 2), (1, 1), (1, 1, 1, 1)),
        ((19, 150), (3, 3), (1, 1), (1, 1), (0, 0, 2, 2)), ((12, 13), (5, 5), (1, 1), (1, 1), (2, 2, 2, 2)),
        ((23, 17), (5, 5), (2, 2), (1, 1), (1, 2, 2, 1)), ((10, 11), (7, 7), (1, 1), (1, 1), (3, 3, 3, 3)),
        ((9, 8), (3, 3), (1, 1), (2, 1), (2, 1, 2, 1)), ((9, 8), (3, 3), (1, 2), (1, 1), (1, 9, 1, 9)),
        ((6, 9), (3, 3), (3, 3), (1, 1), (3, 3, 3, 3)), ((1, 3), (3, 3), (1, 1), (1, 1), (5, 7, 5, 7)),
        ((5, 90), (1, 9), (1, 1), (1, 1), (0, 4, 0, 4)), ((8, 9), (5, 5), (1, 1), (1, 2), (2, 4, 2, 4)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("zero", ["none", "any"])
@pytest.mark.parametrize("types", ["u1", "i1"])
def test_depthwise_conv_reads_windows_where_they_lie(
    isa: str, size: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int],
    pads: tuple[int, ...], zero: str, types: str,
) -> None:  # fmt: skip
    """Windows with code of their own and others, wider than a call; weights that fit into bytes, or not."""
    rng = np.random.default_rng(kernel[0])
    x, w = bytes_of(rng, (2, 19, *size), types), bytes_of(rng, (19, 1, *kernel), "i1")
    x_zero, w_zero = np.array(11, types), np.zeros((), "i1") if zero == "none" else bytes_of(rng, (19,), "i1")
    attrs = {"strides": stride, "dilations": dilation, "pads": pads, "group": 19}
    total = exact_conv(less_zero(x, x_zero, 0), less_zero(w, w_zero, 0), attrs)
    scales = np.asarray(np.float32(0.5)), np.asarray(np.float32(0.25)), np.asarray(np.float32(64))
    y_zero = np.array(3, types)
    arrays = [x, scales[0], x_zero, w, scales[1], w_zero, scales[2], y_zero]
    node = make_node("QLinearConv", arrays, attrs, constants=[3])
    ours = run_op(node, arrays, isa=isa, blocked=True, threads=2)[0]
    np.testing.assert_array_equal(ours, requantised(total, *scales, y_zero))


@pytest.mark.parametrize("isa", BYTE_ISAS)
@settings(max_examples=trials(20), deadline=None)
@given(case=CONVS, y_type=TYPES, each=st.booleans(), bias=st.booleans(), step=st.sampled_from([1.0, 16.0, 4096.0]))
def test_qlinear_conv_rounds_to_even(
    isa: str, case: dict[str, object], y_type: str, each: bool, bias: bool, step: float
) -> None:
    (x, w, x_zero, w_zero), attrs = conv_case(case)
    assert x is not None and w is not None
    rng = np.random.default_rng(5)
    channels = w.shape[0]
    x_zero = x_zero if x_zero is not None else np.zeros((), x.dtype)
    w_zero = w_zero if w_zero is not None else np.zeros((), w.dtype)
    x_scale, y_scale = np.float32(0.5), np.float32(step)  # so that exact ties occur
    w_scale = (2.0 ** rng.integers(-2, 3, channels)).astype(np.float32) if each else np.asarray(np.float32(0.25))
    y_zero = np.array(rng.integers(0, 100), y_type)
    b = rng.integers(-999, 999, channels).astype(np.int32) if bias else None
    arrays = [x, np.asarray(x_scale), x_zero, w, w_scale, w_zero, np.asarray(y_scale), y_zero, b]
    total = exact_conv(less_zero(x, x_zero, 0), less_zero(w, w_zero, 0), attrs)
    total += 0 if b is None else b[:, None, None]
    broadcast_scale = w_scale.reshape(-1, 1, 1) if each else w_scale
    expected = requantised(total, x_scale, broadcast_scale, y_scale, y_zero)
    node = make_node("QLinearConv", arrays, attrs, constants=[3])
    np.testing.assert_array_equal(run_op(node, arrays, isa=isa)[0], expected)


@pytest.mark.parametrize("isa", BYTE_ISAS)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("c", "group"), [(64, 1), (32, 2)])
def test_columns_are_kept_from_chunk_to_chunk(isa: str, threads: int, c: int, group: int) -> None:
    """Four chunks of results, the last one of few, by several groups of panels."""
    rng = np.random.default_rng(4)
    m = 224
    x, w = bytes_of(rng, (2, c, 9, 19), "i1"), bytes_of(rng, (m, c // group, 1, 1), "i1")
    x_zero, w_zero, y_zero = np.array(9, "i1"), bytes_of(rng, (m,), "i1"), np.array(-4, "i1")
    scales = [
        np.asarray(np.float32(0.5)),
        np.exp2(rng.integers(-3, 2, m)).astype(np.float32),
        np.asarray(np.float32(512)),
    ]
    arrays: list[Array | None] = [x, scales[0], x_zero, w, scales[1], w_zero, scales[2], y_zero]
    total = exact_conv(less_zero(x, x_zero, 0), less_zero(w, w_zero, 0), {"group": group})
    node = make_node("QLinearConv", arrays, {"group": group}, constants=[3])
    ours = run_op(node, arrays, isa=isa, blocked=True, threads=threads)[0]
    each = scales[1].reshape(1, m, 1, 1)
    np.testing.assert_array_equal(ours, requantised(total, scales[0], each, scales[2], y_zero))


def fused_sum(y: Array, residual: Array, attrs: dict[str, object], dtype: str) -> Array:
    """y, less its zero point, and the residual as FusedQLinearConv adds them: float64 has products and sums exactly."""
    product, addend, offset = (np.float64(attrs[name]) for name in ("product_scale", "addend_scale", "sum_offset"))  # type: ignore[arg-type]
    added = (residual * addend + offset).astype(np.float32)
    total = np.rint((y * product + added.astype(np.float64)).astype(np.float32)) + attrs["sum_zero"]
    return np.clip(total, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)


@pytest.mark.parametrize("isa", BYTE_ISAS)
@settings(max_examples=trials(25), deadline=None)
@given(
    case=CONVS, y_type=TYPES, blocked=st.booleans(), ties=st.booleans(), threads=st.sampled_from([1, 3]),
    bound=st.sampled_from([1, 100]),
)  # fmt: skip
def test_a_residual_is_added(
    isa: str, case: dict[str, object], y_type: str, blocked: bool, ties: bool, threads: int, bound: int
) -> None:
    """To the bit, with sums that end in a half or not."""
    if case["group"] == case["m"] == 1 or case["c"] == 1:  # no depthwise convolution
        case = {**case, "c": 3}
    (x, w, x_zero, w_zero), attrs = conv_case(case)
    assert x is not None and w is not None
    rng = np.random.default_rng(5)
    x_zero = x_zero if x_zero is not None else np.zeros((), x.dtype)
    w_zero = w_zero if w_zero is not None else np.zeros((), w.dtype)
    total = exact_conv(less_zero(x, x_zero, 0), less_zero(w, w_zero, 0), attrs)
    x_scale, w_scale = np.asarray(np.float32(0.5)), np.asarray(np.float32(0.25))
    y_scale = np.asarray(np.float32(8 * bound))
    factors = np.exp2(rng.integers(-2, 2, 2)) if ties else rng.uniform(0.01, 3, 2)
    offset = rng.integers(-99, 99) / 2 if ties else rng.uniform(-99, 99)
    y_zero, zero = (np.array(rng.integers(0, 100), y_type) for _ in range(2))
    residual = bytes_of(rng, total.shape, y_type)
    y = less_zero(requantised(total, x_scale, w_scale, y_scale, y_zero), y_zero, 0)
    arrays = [x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, None, residual]
    attrs |= {"product_scale": float(np.float32(factors[0])), "addend_scale": float(np.float32(factors[1]))}
    attrs |= {"sum_offset": float(np.float32(offset)), "sum_zero": int(zero)}
    node = make_node("FusedQLinearConv", arrays, attrs, constants=[3])
    blocked = blocked and (case["group"] == 1 or not (case["c"] % 16 or case["m"] % 16))  # type: ignore[operator]
    ours = run_op(node, arrays, isa=isa, blocked=blocked, threads=threads)[0]
    np.testing.assert_array_equal(ours, fused_sum(y, residual, attrs, y_type))


@pytest.mark.parametrize("isa", BYTE_ISAS)
@pytest.mark.parametrize("types", ["u1", "i1"])
@pytest.mark.parametrize(
    "factors", [(0.5, 0.5, -0.5), (0.7310586, 1.1, 3.3), (1.0, 0.062500004, 0.0), (60.0, 3e-3, -9.5)]
)
def test_each_pair_of_bytes_is_added(isa: str, types: str, factors: tuple[float, float, float]) -> None:
    """Sums far beyond bytes saturate, and those close to a half are rounded once."""
    bytes_ = np.arange(256, dtype=np.uint8).view(types)
    x, residual = (np.reshape(each, (1, 16, 64, 64)).copy() for each in np.meshgrid(bytes_, bytes_))
    w = np.eye(16, dtype=np.int8).reshape(16, 16, 1, 1)
    one, zero = np.asarray(np.float32(1)), np.zeros((), types)
    names = ("product_scale", "addend_scale", "sum_offset")
    attrs: dict[str, object] = {name: float(np.float32(each)) for name, each in zip(names, factors, strict=True)}
    attrs["sum_zero"] = 5
    arrays = [x, one, zero, w, one, np.zeros((), "i1"), one, zero, None, residual]
    node = make_node("FusedQLinearConv", arrays, attrs, constants=[3])
    ours = run_op(node, arrays, isa=isa, blocked=True)[0]
    np.testing.assert_array_equal(ours, fused_sum(x.astype(np.float64), residual, attrs, types))


@pytest.mark.parametrize("isa", BYTE_ISAS)
@settings(max_examples=trials(25), deadline=None)
@given(
    m=st.sampled_from([1, 2, 13, 50, 130]), k=st.sampled_from([1, 3, 4, 16, 31, 64, 200]),
    n=st.sampled_from([1, 15, 16, 32, 47, 100]), batch=st.sampled_from([(), (2,), (2, 2)]), shared=st.booleans(),
    constant=st.booleans(), types=st.tuples(TYPES, TYPES), x_zero=st.sampled_from(["none", "middle", "any"]),
    w_zero=st.sampled_from(["none", "middle", "any", "each"]), seed=st.integers(0, 9),
)  # fmt: skip
def test_matmul_integer_sums_exactly(
    isa: str, m: int, k: int, n: int, batch: tuple[int, ...], shared: bool, constant: bool, types: tuple[str, str],
    x_zero: str, w_zero: str, seed: int,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    a, b = bytes_of(rng, (*batch, m, k), types[0]), bytes_of(rng, (*(() if shared else batch), k, n), types[1])
    arrays = [a, b, zero_of(rng, types[0], x_zero, 1), zero_of(rng, types[1], w_zero, n)]
    node = make_node("MatMulInteger", arrays, constants=[1] if constant else [])
    expected = less_zero(a, arrays[2], -1) @ less_zero(b, arrays[3], -1)
    np.testing.assert_array_equal(run_op(node, arrays, isa=isa, threads=2)[0], expected.astype(np.int32))


@pytest.mark.parametrize("isa", BYTE_ISAS)
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("y_type", ["u1", "i1"])
def test_qlinear_matmul_rounds_to_even(isa: str, each: bool, y_type: str) -> None:
    rng = np.random.default_rng(2)
    a, b = bytes_of(rng, (3, 7, 40), "u1"), bytes_of(rng, (40, 19), "i1")
    scale = (2.0 ** rng.integers(-2, 3, 19)).astype(np.float32) if each else np.asarray(np.float32(0.25))
    a_zero, b_zero, y_zero = np.array(7, "u1"), np.array(-3, "i1"), np.array(4, y_type)
    halves = np.asarray(np.float32(0.5)), np.asarray(np.float32(64.0))
    arrays: list[Array | None] = [a, halves[0], a_zero, b, scale, b_zero, halves[1], y_zero]
    total = less_zero(a, a_zero, -1) @ less_zero(b, b_zero, -1)
    node = make_node("QLinearMatMul", arrays, constants=[3])
    expected = requantised(total, halves[0], scale, halves[1], y_zero)
    np.testing.assert_array_equal(run_op(node, arrays, isa=isa)[0], expected)


@pytest.mark.parametrize("isa", BYTE_ISAS)
def test_sums_wrap_around_as_int32_does(isa: str) -> None:
    a, b = np.full((1, 70000), 255, np.uint8), np.full((70000, 1), 255, np.uint8)
    node = make_node("MatMulInteger", [a, b], constants=[1])
    assert run_op(node, [a, b], isa=isa)[0].item() == 70000 * 255 * 255 - 2**32


@pytest.mark.parametrize(("a", "b", "c"), [((5,), (5, 3), (3,)), ((4, 5), (5,), (4,)), ((2, 4, 5), (5,), (2, 4))])
def test_vectors_are_rows_and_columns(a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    arrays = [bytes_of(rng, a, "u1"), bytes_of(rng, b, "i1")]
    ours = run_op(make_node("MatMulInteger", arrays, constants=[1]), arrays)[0]
    assert ours.shape == c
    np.testing.assert_array_equal(ours, arrays[0].astype(np.int32) @ arrays[1].astype(np.int32))


def test_convolves_over_one_spatial_dim() -> None:
    rng = np.random.default_rng(1)
    x, w = bytes_of(rng, (2, 5, 11), "u1"), bytes_of(rng, (7, 5, 3), "i1")
    attrs = {"pads": (1, 2), "strides": (2,), "dilations": (2,)}
    ours = run_op(make_node("ConvInteger", [x, w], attrs, constants=[1]), [x, w])[0]
    expected = exact_conv(x.astype(np.float64), w.astype(np.float64), attrs)
    np.testing.assert_array_equal(ours, expected.astype(np.int32))


def test_each_rejection_has_its_reason() -> None:
    x, w = np.zeros((1, 2, 4, 4), np.uint8), np.zeros((2, 2, 1, 1), np.uint8)
    assert list(supports_integer_conv(make_node("ConvInteger", [x, w]))) == [
        Reject("weights-not-constant", "ConvInteger")
    ]
    zeros = np.zeros(2, np.uint8)
    rows = make_node("MatMulInteger", [x[0, 0, :2], w[:, :, 0, 0].repeat(2, 0), zeros, None])
    assert [reject.reason for reject in supports_integer_matmul(rows)] == ["not-per-tensor"]
