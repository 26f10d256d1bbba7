"""qwinograd2d: every row against exact integers, over sizes that leave parts of tiles and panels, and at the limit of
what it computes exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from atcpy.kernels.table import pack_params
from atcpy.ops.core.opdef import KernelCall
from atcpy.ops.quant.qwinograd import LEAST_GAIN, MAX_CHANNELS, as_winograd, computes, gain
from tests.effort import trials
from tests.harness import make_node, run_op
from tests.isa import BYTE_ISAS
from tests.ops.quant.test_qgemm import bytes_of, fused_sum, less_zero, requantised, zero_of

LIMIT = (2**26 - 1) // 255  # of the sum of |w - w_zero| of a column

Rewrite = Callable[[KernelCall], KernelCall]


def as_definition(call: KernelCall) -> KernelCall:
    """The launch of `qgemm` as it is."""
    return call


def as_either(call: KernelCall) -> KernelCall:
    """The launch of `qwinograd2d` that is made where the size of the picture is open."""
    winograd = as_winograd(call)
    return replace(winograd, params=winograd.params | {"falls_back": 1})


@dataclass(frozen=True)
class Case:
    """A convolution of bytes with what becomes of its sums: nothing if it has no `bias`."""

    x: Array
    w: Array
    x_zero: Array | None = None
    w_zero: Array | None = None
    pads: tuple[int, int, int, int] = (1, 1, 1, 1)
    bias: Array | None = None
    y_zero: Array | None = None
    residual: Array | None = None

    def sums(self) -> Array:
        """In float64, which represents them exactly."""
        top, left, bottom, right = self.pads
        x = np.pad(less_zero(self.x, self.x_zero, 0), ((0, 0), (0, 0), (top, bottom), (left, right)))
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
        y: Array = np.einsum("nchwij,mcij->nmhw", windows, less_zero(self.w, self.w_zero, 0), optimize=True)
        return y

    def scales(self) -> tuple[Array, Array, Array]:
        """By which results fill the range of their bytes, and saturate at times."""
        each = np.linspace(0.5, 1.5, len(self.w)).astype(np.float32)
        return np.asarray(np.float32(0.25)), each, np.asarray(np.float32(np.abs(self.sums()).max() / 500 + 0.25))

    def attrs(self) -> dict[str, object]:
        assert self.y_zero is not None
        return {"product_scale": 0.75, "addend_scale": 1.25, "sum_offset": -3.5, "sum_zero": int(self.y_zero) // 2}

    def expected(self) -> Array:
        if self.bias is None or self.y_zero is None:
            return self.sums().astype(np.int32)
        x_scale, w_scale, y_scale = self.scales()
        total = self.sums() + self.bias[:, None, None]
        each = w_scale[:, None, None]
        y = requantised(total, x_scale, each, y_scale, self.y_zero)
        if self.residual is None:
            return y
        return fused_sum(less_zero(y, self.y_zero, 0), self.residual, self.attrs(), self.y_zero.dtype.str[1:])

    def run(self, isa: str, threads: int = 1, rewrite: Rewrite = as_winograd) -> Array:
        if self.bias is None:
            op, arrays = "ConvInteger", [self.x, self.w, self.x_zero, self.w_zero]
            node = make_node(op, arrays, {"pads": self.pads}, constants=[1, 3])
        else:
            x_scale, w_scale, y_scale = self.scales()
            arrays = [self.x, x_scale, self.x_zero, self.w, w_scale, self.w_zero, y_scale, self.y_zero, self.bias]
            attrs: dict[str, object] = {"pads": self.pads}
            if self.residual is not None:
                arrays.append(self.residual)
                attrs |= self.attrs()
            op = "QLinearConv" if self.residual is None else "FusedQLinearConv"
            node = make_node(op, arrays, attrs, constants=[3, 5])
        rows: list[str] = []
        [y] = run_op(node, arrays, blocked=True, isa=isa, threads=threads, rows=rows, rewrite=rewrite)
        family = "qgemm" if rewrite is as_definition else "qwinograd2d"
        assert rows == [f"{family}_any_{'avx512vnni' if isa == 'amx' else isa}"]  # AMX has no products of 16 bits
        return y


def make_case(
    rng: np.random.Generator,
    size: tuple[int, int, int, int, int],
    types: tuple[str, str] = ("u1", "i1"),
    zeros: tuple[str, str] = ("any", "none"),
    pads: tuple[int, int, int, int] = (1, 1, 1, 1),
    y_type: str = "",
    *,
    residual: bool = False,
) -> Case:
    """Of n pictures of c channels, h by w, with filters to m channels. Weights of any size, but for many channels."""
    n, c, m, h, w = size
    weights = bytes_of(rng, (m, c, 3, 3), types[1])
    w_zero = zero_of(rng, types[1], zeros[1], m)
    if c > 100:  # of a mean of 64 and sums within the limit
        weights = (weights // 2 + (64 if types[1] == "u1" else 0)).astype(weights.dtype)
        w_zero = None if types[1] == "i1" else np.array(128, np.uint8)
    case = Case(bytes_of(rng, (n, c, h, w), types[0]), weights, zero_of(rng, types[0], zeros[0], 1), w_zero, pads)
    if y_type == "":
        return case
    shape = (n, m, h + pads[0] + pads[2] - 2, w + pads[1] + pads[3] - 2)
    optional = {name: np.zeros((), dtype) for name, dtype in zip(("x_zero", "w_zero"), types, strict=True)}
    return replace(
        case,
        x_zero=optional["x_zero"] if case.x_zero is None else case.x_zero,
        w_zero=optional["w_zero"] if case.w_zero is None else case.w_zero,
        bias=rng.integers(-9999, 10000, m).astype(np.int32),
        y_zero=np.array(rng.integers(np.iinfo(y_type).min, np.iinfo(y_type).max + 1), y_type),
        residual=bytes_of(rng, shape, y_type) if residual else None,
    )


TYPES = st.sampled_from(["u1", "i1"])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Pictures of 1x1 to 26x26, paddings of 0 to 3 on each side, outputs around whole panels."""
    pads = tuple(draw(st.integers(0, 3)) for _ in range(4))
    h = max(draw(st.integers(1, 26)), 3 - pads[0] - pads[2])
    w = max(draw(st.integers(1, 26)), 3 - pads[1] - pads[3])
    c = 16 * draw(st.integers(1, 5))
    m = draw(st.one_of(st.sampled_from([1, 15, 16, 17, 32, 48]), st.integers(1, 70)))
    return make_case(
        np.random.default_rng(draw(st.integers(0, 2**32))),
        (draw(st.integers(1, 2)), c, m, h, w),
        (draw(TYPES), draw(TYPES)),
        (draw(st.sampled_from(["none", "middle", "any"])), draw(st.sampled_from(["none", "middle", "any", "each"]))),
        (pads[0], pads[1], pads[2], pads[3]),
        draw(st.sampled_from(["", "u1", "i1"])),
        residual=draw(st.booleans()),
    )


@settings(max_examples=trials(150), deadline=None)
@given(case=cases(), threads=st.sampled_from([1, 3]))
def test_each_row_is_exact(case: Case, threads: int) -> None:
    expected = case.expected()
    for isa in BYTE_ISAS:
        np.testing.assert_array_equal(case.run(isa, threads), expected, err_msg=isa)


# Chunks of many tiles, filters that are kept from chunk to chunk and those that are not, parts of tiles.
@pytest.mark.parametrize(
    "size", [(1, 16, 16, 61, 50), (2, 48, 70, 27, 22), (1, 64, 64, 56, 56), (3, 256, 40, 14, 14), (1, 144, 33, 29, 31)]
)
@pytest.mark.parametrize("isa", BYTE_ISAS)
def test_results_do_not_depend_on_the_number_of_threads(isa: str, size: tuple[int, int, int, int, int]) -> None:
    case = make_case(np.random.default_rng(5), size, y_type="u1", residual=True)
    expected = case.expected()
    for threads in (1, 2, 5, 64):
        np.testing.assert_array_equal(case.run(isa, threads), expected)


def test_more_pairs_of_panels_than_are_kept() -> None:
    """65, in several chunks: their transformed filters are made anew for each."""
    case = make_case(np.random.default_rng(5), (1, 16, 2049, 61, 50))
    np.testing.assert_array_equal(case.run(BYTE_ISAS[-1]), case.expected())


def test_channels_are_limited() -> None:
    case = Case(np.full((1, MAX_CHANNELS, 3, 4), 9, "u1"), np.ones((1, MAX_CHANNELS, 3, 3), "i1"))
    np.testing.assert_array_equal(case.run(BYTE_ISAS[-1]), case.expected())
    more = MAX_CHANNELS + 16
    with pytest.raises(_kernels.Refused, match="or too many"):
        Case(np.full((1, more, 3, 4), 9, "u1"), np.ones((1, more, 3, 3), "i1")).run(BYTE_ISAS[-1])


def at_limit(beyond: int, x: int, x_zero: int, sign: int = 1, x_type: str = "u1") -> Case:
    """Weights whose magnitudes add up to the limit and `beyond` more, all of one sign, and the largest differences."""
    w = np.zeros(240 * 9, np.int64)
    w[:] = (LIMIT + beyond) // w.size
    w[: (LIMIT + beyond) % w.size] += 1
    assert w.sum() == LIMIT + beyond and w.max() <= 127
    weights = np.stack([w, w[::-1]]).reshape(2, 240, 3, 3) * sign
    return Case(np.full((1, 240, 7, 9), x, x_type), weights.astype("i1"), np.array(x_zero, x_type))


@pytest.mark.parametrize("isa", BYTE_ISAS)
@pytest.mark.parametrize("x_type", ["u1", "i1"])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("x", "x_zero"), [(255, 0), (0, 255), (255, 254), (0, 1), (255, 127), (0, 128)])
def test_sums_are_exact_up_to_the_limit(isa: str, x_type: str, sign: int, x: int, x_zero: int) -> None:
    least = np.iinfo(x_type).min
    case = at_limit(0, least + x, least + x_zero, sign, x_type)
    np.testing.assert_array_equal(case.run(isa), case.expected())


@pytest.mark.parametrize("isa", BYTE_ISAS)
@pytest.mark.parametrize("column", [0, 7, 15])
def test_one_column_alone_has_a_zero_point(isa: str, column: int) -> None:
    case = make_case(np.random.default_rng(3), (1, 32, 16, 6, 7))
    zeros = np.zeros(16, np.int8)
    zeros[column] = -5
    case = replace(case, w_zero=zeros)
    np.testing.assert_array_equal(case.run(isa), case.expected())


@pytest.mark.parametrize("isa", BYTE_ISAS)
def test_sums_beyond_the_limit_are_off_by_whole_ranges(isa: str) -> None:
    case = at_limit(1, 255, 0)
    off = case.run(isa).astype(np.int64) - case.expected()
    assert set(np.unique(off)) == {0, -(2**26)}
    assert off[0, 0, 3, 3] != 0  # a window that is not in the padding


def launch(case: Case) -> KernelCall:
    found: list[KernelCall] = []

    def noted(call: KernelCall) -> KernelCall:
        found.append(call)
        return call

    case.run(BYTE_ISAS[0], rewrite=lambda call: as_winograd(noted(call)))
    return found[0]


@pytest.mark.parametrize(("beyond", "is_exact"), [(0, True), (1, False)])
@pytest.mark.parametrize("sign", [1, -1])
def test_launches_are_replaced_up_to_the_limit(beyond: int, sign: int, is_exact: bool) -> None:
    assert computes(launch(at_limit(beyond, 255, 0, sign))) is is_exact


def test_zero_points_of_weights_count_for_the_limit() -> None:
    case = make_case(np.random.default_rng(0), (1, 128, 20, 6, 6), ("u1", "u1"), ("any", "none"))
    weights = np.full_like(case.w, 200)
    for zero, is_exact in ((None, True), (np.array(200, "u1"), True), (np.array(255, "u1"), True)):
        assert computes(launch(replace(case, w=weights, w_zero=zero))) is is_exact
    each = np.full(20, 200, np.uint8)
    wide = replace(case, x=case.x.repeat(2, 1), w=weights.repeat(2, 1))  # 256 · 9 · 115 is beyond the limit
    assert computes(launch(replace(wide, w_zero=each)))
    each[19] = 85
    assert not computes(launch(replace(wide, w_zero=each)))
    each[19] = 86
    assert computes(launch(replace(wide, w_zero=each)))


def test_weights_and_their_zero_points_are_constants() -> None:
    call = launch(make_case(np.random.default_rng(0), (1, 32, 20, 6, 6), zeros=("any", "any")))
    x, _, w, w_zero, *rest = call.src
    assert computes(call) and w_zero is not None and w is not None
    assert not computes(replace(call, src=(x, None, w, x, *rest)))  # x is no constant
    assert not computes(replace(call, src=(x, None, x, w_zero, *rest)))
    assert computes(replace(call, src=(x, x, w, None, *rest)))


@pytest.mark.parametrize(
    "change",
    [
        {"result": "f32"}, {"kh": 1}, {"kw": 5}, {"sh": 2}, {"sw": 2}, {"dh": 2}, {"dw": 2}, {"group": 2},
        {"src_c0": 1}, {"k_c0": 4}, {"dst_c0": 1}, {"w_packed": 0}, {"c": 24}, {"c": MAX_CHANNELS + 16},
    ],
    ids=str,
)  # fmt: skip
def test_other_launches_are_left_alone(change: dict[str, int | str]) -> None:
    call = launch(make_case(np.random.default_rng(0), (1, 32, 20, 6, 6)))
    assert computes(call)
    assert computes(replace(call, params=call.params | {"c": MAX_CHANNELS}))
    assert not computes(replace(call, params=call.params | change))
    assert not computes(replace(call, family="qdepthwise"))


@pytest.mark.parametrize("isa", BYTE_ISAS)
@pytest.mark.parametrize("size", [(1, 48, 20, 5, 6), (1, 64, 33, 30, 31)])
def test_sizes_that_were_open_have_the_same_results(isa: str, size: tuple[int, int, int, int, int]) -> None:
    case = make_case(np.random.default_rng(1), size, y_type="u1", residual=True)
    np.testing.assert_array_equal(case.run(isa, 2, as_either), case.expected())


def cost_of(call: KernelCall) -> tuple[int, int]:
    return _kernels.task_cost(call.family, pack_params(call.family, call.params))


@pytest.mark.parametrize(("c", "m"), [(16, 16), (48, 20), (64, 33), (128, 128), (144, 130), (256, 256)])
@pytest.mark.parametrize("n", [1, 3, 13])
def test_few_tiles_are_computed_by_the_definition_if_the_size_was_open(n: int, c: int, m: int) -> None:
    """Where the estimate of the compiler says so: the kernel has it, too. Its cost shows which way it takes."""
    call = launch(make_case(np.random.default_rng(1), (n, c, m, 3, 3)))
    seen = set()
    for oh, ow in [(1, 1), (3, 5), (6, 7), *((side, side) for side in range(4, 41)), (7, 60), (120, 3)]:
        sized = replace(call, params=call.params | {"oh": oh, "ow": ow})
        falls_back = gain(sized) < LEAST_GAIN
        seen.add(falls_back)
        assert cost_of(as_either(sized)) == cost_of(sized if falls_back else as_winograd(sized)), (oh, ow)
    assert True in seen and (c == 16 or False in seen)
