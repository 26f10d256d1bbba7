"""Convolutions that read and write bfloat16: each row gives what it gives in float32, rounded.

The kernels round what they multiply in either case, and sum in the same order, so that the results are the same bits.
"""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.ir.tensor import Array
from atcpy.kernels import table
from atcpy.kernels._kernels import Refused
from atcpy.ops.conv.conv import MAX_BF16_SUM, bf16_operands
from atcpy.ops.conv.winograd import LARGE, SMALL, as_winograd
from tests.bf16 import BF16, rounded
from tests.effort import trials
from tests.harness import load_task, make_node, run_op
from tests.isa import BF16_ISAS

X, RESIDUAL, Y = "i0", "i3", "o0"  # as make_node names them
TYPES = [frozenset(names) for names in ({X}, {Y}, {RESIDUAL}, {X, RESIDUAL}, {X, RESIDUAL, Y})]
ACTIVATIONS: dict[str, dict[str, object]] = {
    "": {},
    "Relu": {"activation": "Relu"},
    "Clip": {"activation": "Clip", "alpha": -0.5, "beta": 0.75},
    "Swish": {"activation": "Swish", "alpha": 1.0},
    "Elu": {"activation": "Elu", "alpha": 0.5},
}
# Shapes of input and weights, attributes. In pairs, channels are even.
CONVS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, object]]] = {
    "padded": ((2, 34, 9, 7), (40, 34, 3, 3), {"pads": (1, 1, 1, 1)}),
    "not padded": ((1, 18, 9, 17), (24, 18, 3, 3), {}),
    "pointwise": ((1, 48, 15, 15), (17, 48, 1, 1), {}),
    "pointwise over rows that end early": ((2, 34, 13, 31), (20, 34, 1, 1), {}),
    "strides": ((1, 24, 11, 12), (33, 24, 3, 3), {"strides": (2, 2), "pads": (1, 0, 1, 1)}),
    "strides of rows": ((1, 24, 11, 12), (33, 24, 3, 3), {"strides": (2, 1)}),
    "pointwise with strides": ((1, 24, 11, 12), (33, 24, 1, 1), {"strides": (2, 3)}),
    "dilations": ((1, 18, 12, 11), (16, 18, 3, 2), {"dilations": (2, 3), "pads": (0, 2, 2, 1)}),
    "groups": ((1, 64, 5, 5), (96, 32, 3, 3), {"group": 2}),
    "many channels": ((1, 800, 2, 3), (33, 800, 3, 3), {"pads": (1, 1, 1, 1)}),
    "many taps": ((1, 2, 80, 80), (3, 2, 70, 70), {}),
    "depthwise": ((1, 37, 15, 31), (37, 1, 3, 3), {"group": 37, "pads": (1, 1, 1, 1)}),
    "depthwise with strides": ((2, 20, 16, 17), (20, 1, 5, 5), {"group": 20, "pads": (2, 2, 2, 2), "strides": (2, 2)}),
    "depthwise with dilations": ((1, 9, 12, 13), (9, 1, 2, 4), {"group": 9, "dilations": (3, 2), "pads": (1, 3, 0, 0)}),
    "first": ((1, 3, 17, 31), (20, 3, 3, 3), {"pads": (1, 1, 1, 1), "strides": (2, 2)}),
}


def check(case: str, activation: str, types: frozenset[str], isa: str, *, tile: int = 0) -> None:
    """Run a convolution on rounded numbers in float32, then with values stored as bfloat16."""
    x_shape, w_shape, attrs = CONVS[case]
    plain = case == "first"
    rewrite = partial(as_winograd, tile=tile) if tile else None
    rng = np.random.default_rng(len(case))
    x = rng.standard_normal(x_shape, np.float32)
    w = (rng.standard_normal(w_shape) / np.prod(w_shape[1:]) ** 0.5).astype(BF16)
    arrays: list[Array | None] = [x if plain else rounded(x), w, rng.standard_normal(w_shape[0], np.float32)]
    attrs = attrs | {"multiplies_bf16": 1}
    shape = make_node("Conv", arrays, attrs, constants=(1, 2)).output.desc.static_shape
    arrays.append(rounded(rng.standard_normal(shape, np.float32)))
    results = []
    for bf16 in (frozenset[str](), types - {X} if plain else types):
        node = make_node("FusedConv", arrays, attrs | ACTIVATIONS[activation], constants=(1, 2))
        rows: list[str] = []
        results += run_op(node, arrays, blocked=not plain, isa=isa, threads=2, rows=rows, bf16=bf16, rewrite=rewrite)
        family = "winograd2d" if tile else "depthwise2d" if w_shape[1] == 1 else "conv2d"
        assert rows[0].startswith(f"{family}_{'bf16' if X in bf16 else 'f32'}_")
    wide, narrow = results
    expected = wide.astype(narrow.dtype)
    np.testing.assert_array_equal(narrow.view(f"u{narrow.itemsize}"), expected.view(f"u{narrow.itemsize}"))


@pytest.mark.parametrize("isa", BF16_ISAS)
@pytest.mark.parametrize("case", CONVS)
def test_results_are_those_of_float32_rounded(case: str, isa: str) -> None:
    for types in TYPES:
        check(case, "Relu", types, isa)


@pytest.mark.parametrize("isa", BF16_ISAS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_results_are_rounded_when_they_are_activated(activation: str, isa: str) -> None:
    for case, types in product(("padded", "pointwise", "depthwise", "depthwise with dilations", "first"), TYPES[-2:]):
        check(case, activation, types | {Y}, isa)


@pytest.mark.parametrize("isa", BF16_ISAS)
@pytest.mark.parametrize("activation", ["Clip", "Swish"])
def test_winograd_reads_and_writes_bfloat16(activation: str, isa: str) -> None:
    for case, types, tile in product(("padded", "not padded"), TYPES, (LARGE, SMALL)):
        check(case, activation, types, isa, tile=tile)


@pytest.mark.parametrize("isa", BF16_ISAS)
@settings(max_examples=trials(25))
@given(
    c=st.sampled_from([2, 14, 16, 18, 32, 48]), m=st.sampled_from([1, 8, 16, 17, 40]), h=st.sampled_from([1, 3, 15]),
    w=st.sampled_from([1, 3, 13, 14, 15, 29]), kernel=st.sampled_from([1, 2, 3]), stride=st.sampled_from([1, 2, 3]),
)  # fmt: skip
def test_any_size(isa: str, c: int, m: int, h: int, w: int, kernel: int, stride: int) -> None:
    if kernel > min(h, w) or c <= 4:  # few channels stay in NCHW
        return
    rng = np.random.default_rng(c + m)
    x, weights = rounded(rng.standard_normal((1, c, h, w), np.float32)), rng.standard_normal((m, c, kernel, kernel))
    arrays = [x, weights.astype(BF16)]
    attrs = {"strides": (stride, stride), "pads": (kernel // 2,) * 4, "multiplies_bf16": 1}
    [wide], [narrow] = (
        run_op(make_node("Conv", arrays, attrs, constants=(1,)), arrays, blocked=True, isa=isa, bf16=bf16)
        for bf16 in ((), (X, Y))
    )
    np.testing.assert_array_equal(narrow, wide.astype(BF16))


@pytest.mark.parametrize("isa", BF16_ISAS)
@pytest.mark.parametrize("case", ["padded", "depthwise", "pointwise"])
def test_nan_and_infinity_stay(case: str, isa: str) -> None:
    x_shape, w_shape, attrs = CONVS[case]
    attrs = attrs | {"multiplies_bf16": 1}
    x = np.random.default_rng(5).standard_normal(x_shape, np.float32)
    x[0, 0, 2, 3], x[0, 4, 6, 5] = np.nan, -np.inf
    arrays = [x, np.ones(w_shape, BF16)]
    results = [
        run_op(make_node("Conv", arrays, attrs, constants=(1,)), arrays, blocked=True, isa=isa, bf16=bf16)[0]
        for bf16 in ((), (X, Y))
    ]
    wide, narrow = (result.astype(np.float32) for result in results)
    np.testing.assert_array_equal(np.isnan(narrow), np.isnan(wide))
    np.testing.assert_array_equal(np.isinf(narrow), np.isinf(wide))


@pytest.mark.parametrize("isa", BF16_ISAS)
def test_threads_do_not_change_results(isa: str) -> None:
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal((1, 64, 40, 40), np.float32), rng.standard_normal((96, 64, 1, 1)).astype(BF16)]
    node = [make_node("Conv", arrays, {"multiplies_bf16": 1}, constants=(1,)) for _ in range(2)]
    one, two = (
        run_op(node[count - 1], arrays, blocked=True, isa=isa, threads=count, bf16=(X, Y))[0] for count in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("x_shape", "w_shape", "pairs", "inputs", "output"),
    [
        ((1, 32, 4, 4), (8, 32, 1, 1), True, {0}, True),
        ((1, 31, 4, 4), (8, 31, 1, 1), True, set(), True),  # half a pair
        ((1, 32, 4, 4), (8, 32, 1, 1), False, set(), True),
        ((1, 8192, 3, 3), (8, 8192, 3, 3), True, {0}, False),  # MAX_BF16_SUM
        ((1, 32, 4, 4), (32, 1, 3, 3), True, {0}, True),
    ],
)
def test_what_a_convolution_takes(
    x_shape: tuple[int, ...], w_shape: tuple[int, ...], pairs: bool, inputs: set[int], output: bool
) -> None:
    x, w = np.zeros(x_shape, np.float32), np.zeros(w_shape, BF16)
    attrs: dict[str, object] = {"group": x_shape[1] // w_shape[1], "pads": (1, 1, 1, 1), "multiplies_bf16": int(pairs)}
    node = make_node("Conv", [x, w], attrs, constants=(1,))
    run_op(node, [x, w], blocked=True)
    found = bf16_operands(node)
    assert (found.inputs, found.output) == (inputs, output)


# --- what the checker refuses --------------------------------------------------------------------

WINDOW: dict[str, table.ParamValue] = {
    "n": 2, "c": 40, "h": 5, "w": 6, "m": 20, "oh": 3, "ow": 4, "kh": 3, "kw": 3, "sh": 1, "sw": 1, "dh": 1, "dw": 1,
}  # fmt: skip
GROUP: dict[str, table.ParamValue] = {"group": 1, "cg": 40, "mg": 20}
NARROW: dict[str, table.ParamValue] = {"x_type": "bf16", "residual_type": "bf16", "y_type": "bf16"}
PAIRS: dict[str, table.ParamValue] = {"weights": "bf16_vnni2"}
# Parameters, and elements of x, weights, bias, residual and result.
BASES: dict[str, tuple[dict[str, table.ParamValue], list[int]]] = {
    "conv2d": (WINDOW | GROUP | PAIRS | {"src_c0": 16}, [2880, 2 * 3 * 9 * 256, 20, 768, 768]),
    "winograd2d": (WINDOW | GROUP | PAIRS | {"tile": 4}, [2880, 2 * 3 * 9 * 256, 20, 768, 768]),
    "depthwise2d": (WINDOW | {"m": 40, "weights": "bf16"}, [2880, 3 * 9 * 16, 40, 1152, 1152]),
}


def load(family: str, change: dict[str, table.ParamValue], *, short: int = -1, wide: int = -1) -> None:
    """Make a plan whose operands are as large as they must be, but for one that lacks an element, or is float32."""
    params, sizes = BASES[family]
    arrays = [np.zeros(size - (index == short), np.float32 if index in (2, wide) else BF16) for index, size in
              enumerate(sizes)]  # fmt: skip
    load_task(family, params | NARROW | change, arrays[:-1], arrays[-1])


@pytest.mark.parametrize("family", BASES)
def test_operands_of_bfloat16_are_checked(family: str) -> None:
    load(family, {})
    for index in range(5):
        with pytest.raises(Refused, match="too small"):
            load(family, {}, short=index)
    for index in (0, 3, 4):
        with pytest.raises(Refused, match="of another type"):
            load(family, {}, wide=index)
    for name, index in (("x_type", 0), ("residual_type", 3), ("y_type", 4)):
        with pytest.raises(Refused, match="of another type"):
            load(family, {name: "f32"})
        with pytest.raises(Refused, match="of another type"):
            load(family, {name: "f32"}, wide=(index + 1) % 5)


def test_half_pairs_of_bfloat16_are_refused() -> None:
    with pytest.raises(Refused, match="of odd channels"):
        load("conv2d", {"c": 39, "cg": 39})


def test_bfloat16_is_refused_for_weights_that_are_not_in_pairs() -> None:
    with pytest.raises(Refused, match="not in pairs"):
        load("conv2d", {"weights": "bf16"})


def test_bfloat16_is_refused_for_an_input_of_nchw() -> None:
    with pytest.raises(Refused, match="not in pairs"):
        load("conv2d", {"src_c0": 1, "sw": 2, "kw": 2})
    load("conv2d", {"sw": 2, "kw": 2})


def test_long_sums_are_refused_for_results_of_bfloat16() -> None:
    channels = MAX_BF16_SUM
    params = WINDOW | GROUP | PAIRS | {"n": 1, "h": 1, "w": 1, "oh": 1, "ow": 1, "kh": 1, "kw": 1, "src_c0": 16}
    for c, fits in ((channels, True), (channels + 2, False)):
        blocks = -(-c // 16)
        arrays = [np.zeros(size, BF16) for size in (blocks * 16, 2 * blocks * 256, 32)]
        changed = params | {"c": c, "cg": c, "x_type": "bf16", "y_type": "bf16"}
        if fits:
            load_task("conv2d", changed, arrays[:2], arrays[2])
            continue
        with pytest.raises(Refused, match="sum too many products"):
            load_task("conv2d", changed, arrays[:2], arrays[2])
        load_task("conv2d", changed | {"y_type": "f32"}, arrays[:2], np.zeros(32, np.float32))
