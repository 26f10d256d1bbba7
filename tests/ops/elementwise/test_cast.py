"""Cast: every pair of dtypes against numpy, conversions that ONNX leaves undefined, and exact rounding."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Sym
from atcpy.ir.tensor import Array
from atcpy.ops import find_opdef
from atcpy.ops.core.shape_values import UNNAMED
from atcpy.ops.elementwise.cast import KERNEL_DTYPES
from tests.harness import make_node, run_op
from tests.isa import LOOP_ISAS

TYPES = sorted(KERNEL_DTYPES, key=lambda dtype: dtype.onnx)


def cast(x: Array, to: DType, isa: str = "scalar") -> Array:
    return run_op(make_node("Cast", [x], {"to": to.onnx}), [x], isa=isa)[0]


def samples(dtype: DType) -> Array:
    """Numbers that every dtype can represent and the limits of `dtype`; several vectors long."""
    if dtype is DType.BOOL:
        return np.array([True, False] * 20)
    common = list(range(0, 120, 3)) + ([] if dtype.name.startswith("UINT") else [-1, -2, -77])
    if dtype.is_int:
        limits = np.iinfo(dtype.numpy)
        common += [int(limits.min), int(limits.max), int(limits.max) - 1]
    elif dtype.is_float:
        common += [0.5, 1.75, -0.0, -3.999, 1e-3, 6e4]
    return np.array(common).astype(dtype.numpy) if dtype.is_float else np.array(common, dtype.numpy)


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("to", TYPES, ids=lambda dtype: dtype.short)
@pytest.mark.parametrize("source", TYPES, ids=lambda dtype: dtype.short)
def test_agrees_with_numpy(source: DType, to: DType, isa: str) -> None:
    x = samples(source)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64) if source in {DType.FLOAT16, DType.BFLOAT16} and to.is_int else x
        if source.is_float and to.is_int:
            wide = wide[(wide > -1) | (not to.name.startswith("UINT"))]
            wide = wide[(wide <= np.iinfo(to.numpy).max)]
            x = wide.astype(source.numpy)
        expected = wide.astype(to.numpy)
    ours = cast(x, to, isa)
    assert ours.dtype == to.numpy
    np.testing.assert_array_equal(ours.view(np.uint8), expected.view(np.uint8))


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 1e-40, 3e38, -3e38, 65504, 65519.9, 65520, 1e-8, 6e-8])


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("source", [np.float32, np.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("to", [DType.FLOAT16, DType.BFLOAT16], ids=lambda dtype: dtype.short)
def test_rounding_to_sixteen_bits(to: DType, source: type, isa: str) -> None:
    rng = np.random.default_rng(9)
    with np.errstate(invalid="ignore"):  # signalling NaN
        patterns = np.arange(2**16, dtype=np.uint16).view(to.numpy).astype(np.float64)
    finite = patterns[np.isfinite(patterns)]
    ordered = np.unique(finite)
    halves = (ordered[1:] + ordered[:-1]) / 2  # exact ties
    x = np.concatenate([SPECIAL, finite, halves, np.nextafter(halves, np.inf), np.nextafter(halves, -np.inf)])
    with np.errstate(all="ignore"):
        x = np.concatenate([x, rng.standard_normal(999) * 1e-5]).astype(source)
        expected = x.astype(to.numpy)
        if to is DType.BFLOAT16 and source is np.float64:
            expected = nearest_even(x, ordered).astype(to.numpy)  # ml_dtypes rounds twice
    ours = cast(x, to, isa)
    np.testing.assert_array_equal(np.isnan(ours.astype(np.float32)), np.isnan(x))
    real = ~np.isnan(x)
    np.testing.assert_array_equal(ours[real].view(np.uint16), expected[real].view(np.uint16))


def nearest_even(x: Array, ordered: Array) -> Array:
    """Round to the nearest of `ordered`, ties to even, and to infinity past the largest."""
    step = ordered[-1] - ordered[-2]
    extended = np.concatenate([[ordered[0] - step], ordered, [ordered[-1] + step]])
    index = np.clip(np.searchsorted(extended, x), 1, len(extended) - 1)
    below, above = extended[index - 1], extended[index]
    inside = np.concatenate([ordered, [ordered[-1]]])
    is_even = above.astype(ml_dtypes.bfloat16).view(np.uint16) % 2 == 0
    take_above = (above - x < x - below) | ((above - x == x - below) & is_even)
    result = np.where(take_above, above, below)
    result = np.where(np.abs(result) > inside[-1], np.copysign(np.inf, x), result)
    result = np.where(np.isinf(x), x, result)
    return np.where(result == 0, np.copysign(0.0, x), result)


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("half", [DType.FLOAT16, DType.BFLOAT16], ids=lambda dtype: dtype.short)
def test_every_sixteen_bit_number_widens_exactly(half: DType, isa: str) -> None:
    x = np.arange(2**16, dtype=np.uint16).view(half.numpy)
    np.testing.assert_array_equal(cast(x, DType.FLOAT32, isa), x.astype(np.float32))


OPEN = [np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9, -3e9]


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("source", [np.float32, np.float64], ids=["f32", "f64"])
@pytest.mark.parametrize(
    ("to", "expected"),
    [
        (DType.INT32, [-(2**31)] * 7),
        (DType.INT64, [*[-(2**63)] * 5, 3_000_000_000, -3_000_000_000]),
        (DType.UINT8, [0] * 7),
        (DType.INT16, [0] * 7),
        (DType.UINT32, [0, 0, 0, 0, 0, 3_000_000_000, 2**32 - 3_000_000_000]),
        (DType.BOOL, [True] * 7),
    ],
    ids=lambda case: case.short if isinstance(case, DType) else "",
)
def test_undefined_conversions_are_the_same_on_each_isa(to: DType, expected: list[int], source: type, isa: str) -> None:
    x = np.array(OPEN * 5, source)
    np.testing.assert_array_equal(cast(x, to, isa), np.array(expected * 5, to.numpy))


@pytest.mark.parametrize("isa", LOOP_ISAS)
def test_many_work_items(isa: str) -> None:
    x = np.arange(3 * (1 << 14) + 7, dtype=np.int64)
    np.testing.assert_array_equal(cast(x, DType.FLOAT32, isa), x.astype(np.float32))


def test_cast_like_casts_to_the_type_of_its_second_input() -> None:
    arrays = [np.array([1.5, -2.5], np.float32), np.zeros(3, np.int64)]
    np.testing.assert_array_equal(run_op(make_node("CastLike", arrays), arrays)[0], np.array([1, -2]))


def test_blocks_of_channels() -> None:
    x = np.random.default_rng(0).normal(0, 9, (2, 5, 3, 2)).astype(np.float32)
    node = make_node("Cast", [x], {"to": DType.INT32.onnx})
    np.testing.assert_array_equal(run_op(node, [x], blocked=True)[0], x.astype(np.int32))
    assert node.output.desc.storage_shape == (2, 1, 3, 2, 16)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2)], ids=str)
def test_small_and_empty(shape: tuple[int, ...]) -> None:
    assert cast(np.ones(shape, np.int32), DType.FLOAT32).shape == shape


def test_symbolic_sizes_propagate_through_a_cast() -> None:
    elements = (Sym("batch"), 3, -1)
    for to, expected in [(DType.INT32, elements), (DType.UINT8, None), (DType.BOOL, (UNNAMED, 1, 1))]:
        node = make_node("Cast", [np.zeros(3, np.int64)], {"to": to.onnx})
        opdef = find_opdef(node)
        assert opdef is not None and opdef.propagate is not None
        assert opdef.propagate(node, lambda value: elements) == expected


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ModelInvalid, match="99"):
        make_node("Cast", [np.zeros(1)], {"to": 99})


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_within_32_bits_and_beyond(dtype: type, isa: str) -> None:
    """Of 64-bit integers, blocks of 32 go by way of 32 bits where they fit."""
    edges = [
        2.0**31,
        -(2.0**31),
        2.0**31 - 128,
        -(2.0**31) - 256,
        2.0**62,
        2.0**63,
        -(2.0**63),
        np.inf,
        -np.inf,
        np.nan,
    ]
    x = (np.random.default_rng(1).standard_normal(32 * 12 + 5) * 1000).astype(dtype)
    x[: 32 * 10 : 33] = np.array(edges, dtype)[: len(x[: 32 * 10 : 33])]
    fits = (x >= -(2.0**63)) & (x < 2.0**63)
    expected = np.where(fits, np.where(fits, x, 0).astype(np.int64), np.iinfo(np.int64).min)
    [y] = run_op(make_node("Cast", [x], {"to": 7}), [x], isa=isa)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("to", [DType.FLOAT32, DType.FLOAT64], ids=lambda dtype: dtype.short)
def test_int64_rounds_once_within_52_bits_and_beyond(to: DType, isa: str) -> None:
    rng = np.random.default_rng(5)
    # Halves of the last bit of float32.
    ties = [(2 * m + 1) << shift for shift in (0, 5, 28, 38) for m in (2**23, 2**24 - 1, 2**23 + 12345)]
    near = [tie + d for tie in (*ties, 2**51, 2**52, 2**53, 2**62) for d in (-1, 0, 1)]
    small = [x for x in near if x < 2**51]
    limits = [-(2**51), 2**51 - 1, 2**63 - 1, -(2**63), -(2**51) - 1, 2**51]
    blocks = [[*small, *[-x for x in small]], [*near, *[-x for x in near]], limits, *[[x] for x in limits]]
    for block in (*blocks, [2**51 + 2**28 + 1], [2**51 + 3], [-(2**51) - 3], [2**52 + 1]):
        for n in (31, 32, 33, 95):
            x = rng.choice(np.array(block), n)
            np.testing.assert_array_equal(cast(x, to, isa), x.astype(to.numpy))
