"""conv2d: every row against the ONNX reference over odd windows, groups, channel tails and layouts."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir import Engine
from atcpy.ir.tensor import Array
from atcpy.kernels import table
from atcpy.kernels._kernels import Refused
from atcpy.ops.conv.conv import lower_conv
from tests.effort import trials
from tests.harness import load_task, make_node, run_op
from tests.isa import ISAS
from tests.ops.exact import onnxruntime_op

ONES = dict.fromkeys(("n", "h", "w", "oh", "ow", "kh", "kw", "sh", "sw", "dh", "dw"), 1)


def run(family: str, params: Mapping[str, table.ParamValue], srcs: Sequence[Array], dst: Array, isa: str) -> None:
    """Run one task."""
    plan = load_task(family, params, srcs, dst, isa=isa)
    plan.start([array.view(np.uint8) for array in srcs], [dst.reshape(-1).view(np.uint8)]).execute(0, 1)


def before_a_fault(array: Array) -> Array:
    """A copy that ends at a page boundary, followed by an unreadable guard page."""
    size = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    pages = mmap.mmap(-1, size + mmap.PAGESIZE)
    behind = ctypes.addressof(ctypes.c_char.from_buffer(pages)) + size
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(behind), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    copy = np.frombuffer(pages, array.dtype, array.size, size - array.nbytes).reshape(array.shape)
    copy[...] = array
    return copy


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[Array, Array, Array | None, dict[str, object]]:
    """Input, weights, bias and attributes of a valid Conv."""
    size = st.integers
    group = draw(st.sampled_from([1, 1, 1, 2, 3, 5]))
    c, m = draw(size(1, 35)), draw(size(1, 35))
    if draw(size(0, 3)) == 0:  # depthwise
        group, c, m = draw(size(2, 40)), 1, 1
    kh, kw, sh, sw = (draw(size(1, 4)) for _ in range(4))
    dh, dw = draw(size(1, 3)), draw(size(1, 2))
    pads = [draw(size(0, 3)) for _ in range(4)]
    h = max(1, (kh - 1) * dh + 1 - pads[0] - pads[2]) + draw(size(0, 9))
    w = max(1, (kw - 1) * dw + 1 - pads[1] - pads[3]) + draw(size(0, 33))
    rng = np.random.default_rng(draw(size(0, 2**32)))
    x = rng.standard_normal((draw(size(1, 2)), c * group, h, w), np.float32)
    weights = rng.standard_normal((m * group, c, kh, kw), np.float32)
    bias = rng.standard_normal(m * group, np.float32) if draw(st.booleans()) else None
    attrs: dict[str, object] = {"strides": (sh, sw), "dilations": (dh, dw), "pads": tuple(pads), "group": group}
    return x, weights, bias, attrs


def check(x: Array, w: Array, bias: Array | None, attrs: dict[str, object], isa: str, *, blocked: bool) -> None:
    """Assert that our Conv agrees with ONNX Runtime's."""
    arrays = [x, w, bias]
    node = make_node("Conv", arrays, attrs, constants=(1, 2))
    expected = onnxruntime_op(node, arrays)[0]
    ours = run_op(node, arrays, blocked=blocked, isa=isa, threads=2)[0]
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (1, 2), (3, 1), (3, 2)])
def test_the_items_of_many_threads_have_the_same_results(isa: str, kernel: int, stride: int) -> None:
    rng = np.random.default_rng(6)
    x, w = rng.standard_normal((2, 40, 31, 29), np.float32), rng.standard_normal((70, 40, kernel, kernel), np.float32)
    node = make_node("Conv", [x, w], {"strides": (stride, stride), "pads": (kernel // 2,) * 4}, constants=(1,))
    alone, many = (run_op(node, [x, w], blocked=True, isa=isa, threads=threads)[0] for threads in (1, 64))
    np.testing.assert_array_equal(many.view(np.uint32), alone.view(np.uint32))


@pytest.mark.parametrize("isa", ISAS)
@settings(max_examples=trials(150), deadline=None)
@given(case=convolutions(), blocked=st.booleans())
def test_agrees_with_onnxruntime(
    isa: str, case: tuple[Array, Array, Array | None, dict[str, object]], blocked: bool
) -> None:
    check(*case, isa, blocked=blocked)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("strides", [(1, 2), (2, 1), (2, 2), (2, 3), (3, 2)], ids=str)
def test_pointwise_filters_with_strides(strides: tuple[int, int], isa: str) -> None:
    rng = np.random.default_rng(5)
    # Planes whose last row and column are read and are not, of one column, and of several rows of results.
    for c, m, group, height, width in ((3, 20, 1, 9, 7), (40, 17, 1, 8, 6), (32, 64, 2, 43, 38), (16, 16, 1, 450, 1)):
        x = rng.standard_normal((2, c, height, width), np.float32)
        w, bias = rng.standard_normal((m, c // group, 1, 1), np.float32), rng.standard_normal(m, np.float32)
        for pads in ((0, 0, 0, 0), (0, 0, 1, 2), (1, 0, 0, 0), (0, 1, 0, 0)):
            attrs: dict[str, object] = {"strides": strides, "group": group, "pads": pads}
            for blocked in (False, True):
                check(x, w, bias, attrs, isa, blocked=blocked)


@pytest.mark.parametrize("isa", ISAS)
def test_pointwise_filters_with_strides_read_nothing_beyond_the_plane(isa: str) -> None:
    sizes = {"h": 5, "w": 7, "oh": 3, "ow": 4, "sh": 2, "sw": 2, "c": 16, "m": 16, "cg": 16, "mg": 16, "src_c0": 16}
    x = before_a_fault(np.arange(5 * 7 * 16, dtype=np.float32))
    w, y = np.eye(16, dtype=np.float32), np.empty((3, 4, 16), np.float32)
    run("conv2d", ONES | sizes | {"group": 1}, (x, w), y, isa)
    np.testing.assert_array_equal(y, x.reshape(5, 7, 16)[::2, ::2])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize("dilation", [1, 2, 3, 16, 17])
@pytest.mark.parametrize(("taps", "stride"), [(40, 16), (16, 16), (17, 16), (15, 16), (3, 16), (9, 2), (5, 3)])
def test_wide_windows_with_strides(taps: int, stride: int, dilation: int, blocked: bool, isa: str) -> None:
    """Which positions of a row the taps hit depends on how the three divide each other."""
    rng = np.random.default_rng(taps)
    length = (taps - 1) * dilation + 1 + 6 * stride
    for down in (False, True):  # of two columns: one would be computed as a row
        x = rng.standard_normal((1, 2, length, 2) if down else (1, 2, 1, length), np.float32)
        w = rng.standard_normal((5, 2, taps, 1) if down else (5, 2, 1, taps), np.float32)
        attrs: dict[str, object] = {"strides": (stride, 1) if down else (1, stride)}
        attrs |= {"dilations": (dilation, 1) if down else (1, dilation)}
        check(x, w, None, attrs, isa, blocked=blocked)


@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize(
    ("kernel", "attrs", "is_row"),
    [
        ((5, 1), {}, True),
        ((3, 1), {"strides": (2, 1), "dilations": (3, 1), "pads": (2, 0, 1, 0)}, True),
        ((3, 1), {"group": 2}, True),
        ((3, 1), {"group": 4}, True),  # depthwise
        ((3, 3), {"pads": (0, 1, 0, 1)}, False),
        ((3, 1), {"pads": (0, 1, 0, 1), "strides": (1, 3)}, False),  # the only window lies in the padding
    ],
    ids=str,
)
def test_an_image_of_one_column_is_computed_as_one_row(
    kernel: tuple[int, int], attrs: dict[str, object], is_row: bool, blocked: bool
) -> None:
    rng = np.random.default_rng(3)
    group = attrs.get("group", 1)
    assert isinstance(group, int)
    x, w = (rng.standard_normal(shape, np.float32) for shape in ((2, 4, 29, 1), (8, 4 // group, *kernel)))
    if group == 4:
        w = w[:4]
    node = make_node("Conv", [x, w], attrs, constants=(1,))
    node.engine = Engine.AICORE
    [call] = lower_conv(node)
    assert ((call.params["h"], call.params["w"]) == (1, 29)) is is_row
    for isa in ISAS:
        check(x, w, None, attrs, isa, blocked=blocked)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("taps", [3, 5])
def test_depthwise_filters_on_rows_of_any_width(taps: int, stride: int, isa: str) -> None:
    rng = np.random.default_rng(taps)
    for width in (1, 2, 7, 8, 14, 15, 31, 34):  # around the widths of tiles, with more results in the padding or fewer
        x, w, bias = (rng.standard_normal(shape, np.float32) for shape in ((1, 20, 3, width), (20, 1, 2, taps), (20,)))
        for left, right in ((0, 0), (1, taps - 2), (taps - 1, taps - 1), (taps, 0), (0, taps + stride)):
            if width + left + right >= taps:
                attrs: dict[str, object] = {"group": 20, "pads": (1, left, 0, right), "strides": (1, stride)}
                check(x, w, bias, attrs, isa, blocked=True)


@pytest.mark.parametrize("attrs", [{"strides": (2**40, 2**46)}, {"dilations": (2**40, 2**46)}], ids=str)
def test_unused_strides_and_dilations_may_be_huge(attrs: dict[str, object]) -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape, np.float32) for shape in ((1, 20, 1, 1), (16, 20, 1, 1)))
    node = make_node("Conv", [x, w], attrs, constants=(1,))
    expected = np.einsum("nc,mc->nm", x[:, :, 0, 0], w[:, :, 0, 0])[:, :, None, None]
    np.testing.assert_allclose(run_op(node, [x, w], blocked=True)[0], expected, atol=1e-5)


def test_a_record_whose_row_size_overflows_is_refused() -> None:
    c = 2**16  # 2^46 positions of 2^12 blocks of 64 bytes: 0 in 64 bits
    arrays = [np.zeros(size, np.float32) for size in (c, 16 * c, 16)]
    params = ONES | {"group": 1, "c": c, "m": 16, "cg": c, "mg": 16, "src_c0": 16, "sw": 2**46}
    with pytest.raises(Refused, match="reach too far"):
        load_task("conv2d", params, arrays[:2], arrays[2])


@pytest.mark.parametrize("family", ["conv2d", "conv_transpose2d"])
@pytest.mark.parametrize(
    ("channels", "fits"),
    [
        ({"c": 32}, True),
        ({"c": 33}, False),
        ({"c": 17}, True),
        ({"c": 16}, False),
        ({"m": 33}, False),
        ({"m": 16}, False),
    ],
)
def test_groups_must_cover_all_channels_and_none_may_be_empty(
    family: str, channels: dict[str, int], fits: bool
) -> None:
    params = ONES | {"group": 2, "c": 32, "m": 32, "cg": 16, "mg": 16} | channels
    if family == "conv2d":
        params["src_c0"] = 16
    x, w, y = (np.zeros(n, np.float32) for n in (48, 2 * 16 * 16, 48))
    if fits:
        load_task(family, params, (x, w), y)
    else:
        with pytest.raises(Refused, match="groups do not fit"):
            load_task(family, params, (x, w), y)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("family", ["conv2d", "conv_transpose2d"])
def test_a_smaller_last_group_is_not_read_past_its_end(family: str, isa: str) -> None:
    window = {"h": 4, "w": 4, "oh": 4, "ow": 4, "kh": 3, "kw": 3, "pt": 1, "pl": 1}  # padding: rows are copied
    params = ONES | window | {"group": 2, "c": 48, "cg": 32, "m": 32, "mg": 16}
    if family == "conv2d":
        params["src_c0"] = 16
    x = before_a_fault(np.ones(48 * 16, np.float32))
    w, y = np.ones(2 * 2 * 9 * 16 * 16, np.float32), np.empty((2, 4, 4, 16), np.float32)
    run(family, params, (x, w), y, isa)
    taps = np.outer([2, 3, 3, 2], [2, 3, 3, 2])
    np.testing.assert_array_equal(y, np.stack([32 * taps, 16 * taps])[..., None].repeat(16, axis=-1))


@pytest.mark.parametrize("isa", ISAS)
def test_a_window_entirely_in_the_padding_gives_the_bias(isa: str) -> None:
    params = ONES | {"kw": 2**13, "pt": 2**46, "c": 16, "m": 16}  # 2⁴⁶ rows of 2¹³ taps: more than 64 bits
    x, w, y = (np.full(size, 7, np.float32) for size in (16, 2**13 * 16, 16))
    bias = np.arange(16, dtype=np.float32)
    run("depthwise2d", params, (x, w, bias), y, isa)
    np.testing.assert_array_equal(y, bias)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("channels", [3, 150])  # 150: the sums are stored between runs of input channels
@pytest.mark.parametrize("results", [*range(1, 10), 17, 24, 40])
def test_a_last_block_of_few_channels_on_rows_of_any_width(results: int, channels: int, isa: str) -> None:
    rng = np.random.default_rng(results)
    w = rng.standard_normal((results, channels, 3, 3), np.float32)
    bias = rng.standard_normal(results, np.float32)
    for width in (1, 2, 3, 14, 15, 16, 17, 28, 29, 32, 33):
        x = rng.standard_normal((1, channels, 3, width + 2), np.float32)
        for blocked in (True, False):
            check(x, w, bias, {}, isa, blocked=blocked)
        added = rng.standard_normal((1, results, 1, width), np.float32)
        node = make_node("FusedConv", [x, w, bias, added], {"activation": "Relu"}, constants=(1, 2))
        convolution = make_node("Conv", [x, w, bias], constants=(1, 2))
        expected = np.maximum(onnxruntime_op(convolution, [x, w, bias])[0] + added, 0)
        for blocked in (True, False):
            ours = run_op(node, [x, w, bias, added], blocked=blocked, isa=isa)[0]
            np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-5 * float(expected.max() + 1))


@pytest.mark.parametrize("isa", ISAS)
def test_few_results_of_more_taps_than_one_call_of_a_micro_kernel_takes(isa: str) -> None:
    rng = np.random.default_rng(8)
    x, w = rng.standard_normal((1, 1, 1, 4100 + 33), np.float32), rng.standard_normal((3, 1, 1, 4100), np.float32)
    check(x, w, rng.standard_normal(3, np.float32), {}, isa, blocked=False)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("width", [16, 17, 31, 32])
def test_few_results_read_nothing_beyond_the_plane(width: int, isa: str) -> None:
    sizes = {"h": 2, "w": width + 1, "oh": 2, "ow": width, "kw": 2, "m": 2, "mg": 2, "c": 1, "cg": 1, "src_c0": 1}
    x = before_a_fault(np.arange(2 * (width + 1), dtype=np.float32))
    w, y = np.ones((2, 16), np.float32), np.zeros((2, width, 16), np.float32)
    run("conv2d", ONES | sizes | {"group": 1}, (x, w), y, isa)
    rows = x.reshape(2, width + 1)
    np.testing.assert_array_equal(y[..., :2], (rows[:, 1:] + rows[:, :-1])[..., None].repeat(2, axis=-1))
