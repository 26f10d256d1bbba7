"""winograd2d: every row against float64 and against the scalar row, over sizes that leave parts of tiles and blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir.tensor import Array
from atcpy.ops.conv.winograd import SMALL, SMALLEST_GAIN, STRIDED_GAIN, as_winograd, gain, tiles_of
from atcpy.ops.core.opdef import KernelCall
from tests import bf16
from tests.bf16 import BF16
from tests.effort import trials
from tests.harness import make_node, run_op
from tests.isa import BF16_ISAS, ISAS

ACTIVATIONS = {
    "": lambda y: y,
    "Relu": lambda y: np.maximum(y, 0),
    "Clip": lambda y: np.clip(y, -0.5, 0.75),
    "Swish": lambda y: y / (1 + np.exp(0.5 * y)),
}
ALPHA_BETA = {"alpha": -0.5, "beta": 0.75}

Rewrite = Callable[[KernelCall], KernelCall]


def as_definition(call: KernelCall) -> KernelCall:
    """The launch of `conv2d` as it is."""
    return call


def as_either(call: KernelCall) -> KernelCall:
    """The launch of `winograd2d` that is made where the size of the picture is open."""
    [tile] = tiles_of(call)
    winograd = as_winograd(call, tile)
    return replace(winograd, params=winograd.params | {"falls_back": 1})


def as_strided(call: KernelCall) -> KernelCall:
    """The launch of `winograd2d` at stride 2."""
    return as_winograd(call, SMALL)


@dataclass(frozen=True)
class Case:
    """A convolution with what follows it."""

    x: Array
    w: Array
    bias: Array | None
    residual: Array | None
    pads: tuple[int, int, int, int]
    activation: str
    stride: int = 1

    def run(self, isa: str, threads: int = 1, rewrite: Rewrite | None = None) -> Array:
        arrays = [self.x, self.w, self.bias, self.residual]
        attrs = {"pads": self.pads, "strides": (self.stride,) * 2, "activation": self.activation, **ALPHA_BETA}
        if rewrite is None:
            rewrite = as_winograd if self.stride == 1 else as_strided
        node = make_node("FusedConv", arrays, attrs, constants=(1, 2))
        rows: list[str] = []
        [y] = run_op(node, arrays, blocked=True, isa=isa, threads=threads, rows=rows, rewrite=rewrite)
        assert rows == [f"{'conv2d' if rewrite is as_definition else 'winograd2d'}_f32_{isa}"]
        return y

    def sums(self) -> Array:
        """What is activated, in float64."""
        top, left, bottom, right = self.pads
        x = np.pad(self.x.astype("f8"), ((0, 0), (0, 0), (top, bottom), (left, right)))
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[:, :, :: self.stride, :: self.stride]
        y: Array = np.einsum("nchwij,mcij->nmhw", windows, self.w.astype("f8"), optimize=True)
        y = y if self.bias is None else y + self.bias[:, None, None]
        return y if self.residual is None else y + self.residual

    def expected(self) -> Array:
        y: Array = ACTIVATIONS[self.activation](self.sums())
        return y


def make_case(
    rng: np.random.Generator,
    result: tuple[int, int, int, int],
    c: int,
    pads: tuple[int, int, int, int] = (1, 1, 1, 1),
    activation: str = "",
    *,
    bias: bool = True,
    residual: bool = False,
    stride: int = 1,
    unread: int = 0,
) -> Case:
    """Of `unread` rows and columns that no window reaches."""
    n, m, oh, ow = result
    h, w = ((size - 1) * stride + 3 + unread for size in (oh, ow))
    shape = (n, c, max(1, h - pads[0] - pads[2]), max(1, w - pads[1] - pads[3]))
    return Case(
        rng.standard_normal(shape, np.float32),
        rng.standard_normal((m, c, 3, 3), np.float32),
        rng.standard_normal(m, np.float32) if bias else None,
        rng.standard_normal(result, np.float32) if residual else None,
        pads,
        activation,
        stride,
    )


@st.composite
def cases(draw: st.DrawFn, strides: tuple[int, ...] = (1,)) -> Case:
    """Results of 1x1 to 30x30, paddings of 0 to 2 on each side, channels around whole blocks."""
    stride = draw(st.sampled_from(strides))
    top, left, bottom, right = (draw(st.integers(0, 2)) for _ in range(4))
    sizes = st.one_of(st.integers(1, 9), st.integers(10, 30))
    # A stride over one result is no stride.
    oh, ow = max(draw(sizes), stride, top + bottom - 1), max(draw(sizes), stride, left + right - 1)
    c, m = (draw(st.one_of(st.sampled_from([1, 8, 15, 16, 17, 32, 48]), st.integers(1, 70))) for _ in range(2))
    return make_case(
        np.random.default_rng(draw(st.integers(0, 2**32))),
        (draw(st.integers(1, 2)), m, oh, ow),
        c,
        (top, left, bottom, right),
        draw(st.sampled_from(list(ACTIVATIONS))),
        bias=draw(st.booleans()),
        residual=draw(st.booleans()),
        stride=stride,
        unread=draw(st.integers(0, stride - 1)),
    )


@settings(max_examples=trials(240), deadline=None)
@given(case=cases(strides=(1, 1, 2)))
def test_agrees_with_float64_and_with_the_scalar_row(case: Case) -> None:
    expected, scale = case.expected(), float(np.abs(case.sums()).max())
    ours = {isa: case.run(isa) for isa in ISAS}
    for y in ours.values():
        np.testing.assert_allclose(y, expected, rtol=0, atol=1e-5 * scale)
        np.testing.assert_allclose(y, ours["scalar"], rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("c", [64, 256, 512])
def test_the_error_is_below_1e_4_of_the_scale(c: int, isa: str) -> None:
    case = make_case(np.random.default_rng(c), (1, 32, 14, 14), c)
    expected = case.expected()
    assert np.abs(case.run(isa) - expected).max() <= 1e-4 * np.abs(expected).max()


# Of more channels than one run sums, where L2 has 512 KB or 1 MB; their filters are kept from chunk to chunk.
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("c", "m"), [(33, 70), (70, 40), (160, 40)])
@pytest.mark.parametrize("isa", ISAS)
def test_results_do_not_depend_on_the_number_of_threads(isa: str, c: int, m: int, stride: int) -> None:
    case = make_case(np.random.default_rng(5), (2, m, 27, 22), c, activation="Swish", residual=True, stride=stride)
    alone = case.run(isa)
    for threads in (2, 5, 64):
        np.testing.assert_array_equal(case.run(isa, threads).view(np.uint32), alone.view(np.uint32))


@pytest.mark.parametrize("isa", ISAS)
def test_equal_pictures_of_a_batch_have_equal_results(isa: str) -> None:
    case = make_case(np.random.default_rng(8), (3, 40, 19, 21), 24)  # 30 tiles each; chunks of others
    case.x[1:] = case.x[0]
    y = case.run(isa)
    for other in y[1:]:
        np.testing.assert_array_equal(other.view(np.uint32), y[0].view(np.uint32))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_stay_in_the_tiles_that_read_them(value: float, isa: str) -> None:
    case = make_case(np.random.default_rng(6), (1, 20, 12, 12), 20)
    finite = case.run(isa)
    case.x[0, 3, 6, 6] = value  # of the tile in the middle alone: the others read up to column 4, and from 7 on
    y = case.run(isa)
    assert not np.isfinite(y[:, :, 5:8, 5:8]).any()  # by the definition, too
    outside = np.ones((12, 12), bool)
    outside[4:8, 4:8] = False
    np.testing.assert_array_equal(y[..., outside], finite[..., outside])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_stay_in_the_strided_tiles_that_read_them(value: float, isa: str) -> None:
    case = make_case(np.random.default_rng(6), (1, 20, 12, 12), 20, stride=2)
    finite = case.run(isa)
    case.x[0, 3, 10, 9] = value  # of the tile of results 4 and 5 alone: others read up to input 7, and from 11 on
    y = case.run(isa)
    assert not np.isfinite(y[:, :, 5, 5]).any()  # by the definition, too
    outside = np.ones((12, 12), bool)
    outside[4:6, 4:6] = False
    np.testing.assert_array_equal(y[..., outside], finite[..., outside])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("c", [64, 512])
def test_strided_tiles_err_as_much_as_the_definition(c: int, isa: str) -> None:
    case = make_case(np.random.default_rng(c), (1, 32, 14, 14), c, stride=2)
    exact, definition = case.expected(), case.run(isa, rewrite=as_definition)
    assert (case.run(isa) - exact).std() < 1.2 * (definition - exact).std()


@pytest.mark.parametrize("isa", ISAS)
def test_windows_that_lie_in_the_padding_give_the_bias(isa: str) -> None:
    case = make_case(np.random.default_rng(7), (1, 18, 9, 11), 17)
    far = Case(case.x, case.w, case.bias, None, (12, 14, 12, 14), "")
    y = far.run(isa)
    assert case.bias is not None
    outside = np.ones(y.shape[2:], bool)
    outside[8:24, 8:28] = False  # tiles that read the image
    np.testing.assert_array_equal(y[..., outside], np.broadcast_to(case.bias[None, :, None], y[..., outside].shape))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("c", "m"), [(16, 16), (40, 20), (64, 32), (3, 70)])
def test_few_tiles_are_computed_by_the_definition_if_the_size_was_open(c: int, m: int, stride: int, isa: str) -> None:
    """To the bit, and others by Winograd's algorithm; both occur, but where channels are too few."""
    seen: list[bool] = []
    for oh, ow in (
        (1, 1) if stride == 1 else (3, 3),
        (5, 3),
        *((size, size) for size in range(4, 20)),
        (9, 30),
        (30, 30),
    ):
        case = make_case(np.random.default_rng(oh), (1, m, oh, ow), c, activation="Relu", residual=True, stride=stride)
        gains: list[float] = []

        def noted(call: KernelCall, found: list[float] = gains) -> KernelCall:
            found.append(gain(call, *tiles_of(call)))
            return as_either(call)

        y = case.run(isa, 3, noted)
        seen.append(gains[0] < (SMALLEST_GAIN if stride == 1 else STRIDED_GAIN))
        other = case.run(isa, 3, as_definition if seen[-1] else None)
        np.testing.assert_array_equal(y.view(np.uint32), other.view(np.uint32), err_msg=f"{oh}x{ow}")
    gains_little = c == 3 or (stride == 2 and c < 64)
    assert seen[0] and seen[-1] is gains_little


@pytest.mark.parametrize("isa", ISAS)
def test_the_tiles_of_a_batch_are_counted_together(isa: str) -> None:
    case = make_case(np.random.default_rng(3), (9, 32, 4, 4), 64)
    one = replace(case, x=case.x[:1])
    assert np.array_equal(one.run(isa, 1, as_either), one.run(isa, 1, as_definition))
    assert np.array_equal(case.run(isa, 1, as_either), case.run(isa))


# --- tiles of 2x2, whose factors are rounded to bfloat16 -----------------------------------------

B_T = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], np.float64)
G = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
A_T = np.array([[1, 1, 1, 0], [0, 1, -1, -1]], np.float64)


rounded = partial(bf16.rounded, dtype=np.float64)


def in_pairs(case: Case) -> Case:
    """The same with weights of bfloat16, and inputs so short that sums of 16 are exact in float32."""
    return replace(case, x=rounded(case.x).astype(np.float32), w=case.w.astype(BF16))


def run_small(case: Case, isa: str, threads: int = 1) -> Array:
    arrays = [case.x, case.w, case.bias, case.residual]
    attrs = {"pads": case.pads, "activation": case.activation, "multiplies_bf16": 1, **ALPHA_BETA}
    node, rows = make_node("FusedConv", arrays, attrs, constants=(1, 2)), list[str]()
    rewrite = partial(as_winograd, tile=SMALL)
    [y] = run_op(node, arrays, blocked=True, isa=isa, threads=threads, rows=rows, rewrite=rewrite)
    assert rows == [f"winograd2d_f32_{'avx512bf16' if isa == 'amx' else isa}"]  # which AMX would not speed up
    return y


def small_tiles(case: Case) -> Array:
    """What is activated: F(2x2, 3x3) in float64, but for the rounding of transformed inputs and filters."""
    top, left, bottom, right = case.pads
    n, _, h, w = case.x.shape
    oh, ow = h + top + bottom - 2, w + left + right - 2
    odd = ((0, 0), (0, 0), (top, bottom + oh % 2), (left, right + ow % 2))
    x = np.pad(case.x.astype("f8"), odd)
    tiles = np.lib.stride_tricks.sliding_window_view(x, (4, 4), (2, 3))[:, :, ::2, ::2]
    inputs = rounded(np.einsum("ai,nchwij,bj->nchwab", B_T, tiles, B_T))
    filters = rounded(np.einsum("ai,mcij,bj->mcab", G, case.w.astype("f8"), G))
    sums = np.einsum("nchwab,mcab->nmhwab", inputs, filters, optimize=True)
    y: Array = np.einsum("ia,nmhwab,jb->nmhiwj", A_T, sums, A_T)
    y = y.reshape(n, case.w.shape[0], oh + oh % 2, ow + ow % 2)[:, :, :oh, :ow]
    y = y if case.bias is None else y + case.bias[:, None, None]
    return y if case.residual is None else y + case.residual


@settings(max_examples=trials(120), deadline=None)
@given(case=cases().filter(lambda case: case.x.shape[1] % 2 == 0).map(in_pairs))
def test_small_tiles_multiply_rounded_factors(case: Case) -> None:
    sums = small_tiles(case)
    for isa in BF16_ISAS:
        y, expected = run_small(case, isa), ACTIVATIONS[case.activation](sums)
        np.testing.assert_allclose(y, expected, rtol=0, atol=1e-5 * np.abs(sums).max(), err_msg=isa)


@pytest.mark.parametrize("isa", BF16_ISAS)
@pytest.mark.parametrize("c", [64, 512])
def test_small_tiles_err_at_most_twice_as_much_as_the_definition(c: int, isa: str) -> None:
    case = make_case(np.random.default_rng(c), (1, 32, 14, 14), c)
    exact = case.expected()
    definition = replace(case, x=rounded(case.x), w=rounded(case.w)).expected()
    y = run_small(replace(case, w=case.w.astype(BF16)), isa)
    assert (y - exact).std() < 2 * (definition - exact).std()


@pytest.mark.parametrize(("c", "m"), [(34, 70), (160, 40), (1088, 24)])  # of which the last are summed in runs
@pytest.mark.parametrize("isa", BF16_ISAS)
def test_small_tiles_do_not_depend_on_the_number_of_threads(isa: str, c: int, m: int) -> None:
    case = in_pairs(make_case(np.random.default_rng(5), (2, m, 17, 22), c, activation="Swish", residual=True))
    alone = run_small(case, isa)
    sums = small_tiles(case)
    np.testing.assert_allclose(alone, ACTIVATIONS["Swish"](sums), rtol=0, atol=1e-5 * np.abs(sums).max())
    for threads in (2, 5, 64):
        np.testing.assert_array_equal(run_small(case, isa, threads).view(np.uint32), alone.view(np.uint32))


@pytest.mark.parametrize("isa", BF16_ISAS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_stay_in_the_small_tiles_that_read_them(value: float, isa: str) -> None:
    case = in_pairs(make_case(np.random.default_rng(6), (1, 20, 12, 12), 20))
    finite = run_small(case, isa)
    case.x[0, 3, 6, 6] = value  # read by the tiles of rows and columns 4 and 5, 6 and 7
    y = run_small(case, isa)
    assert not np.isfinite(y[:, :, 5:8, 5:8]).any()  # by the definition, too
    outside = np.ones((12, 12), bool)
    outside[4:8, 4:8] = False
    np.testing.assert_array_equal(y[..., outside], finite[..., outside])
