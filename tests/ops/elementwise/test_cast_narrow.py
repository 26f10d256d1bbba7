"""Cast to and from elements of 8 bits and less: the tables of the standard, and the ONNX reference."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from atcpy.errors import ModelInvalid
from atcpy.ir import NC1HWC0, ND, DType, Reject
from atcpy.ir.tensor import Array
from atcpy.ops import find_opdef
from atcpy.ops.elementwise.cast import CAST_DTYPES, KERNEL_DTYPES, widened
from tests.harness import make_node, reference_op, run_op
from tests.isa import LOOP_ISAS

NARROW = sorted(CAST_DTYPES - KERNEL_DTYPES, key=lambda dtype: dtype.onnx)
FLOATS8 = [DType.FLOAT8E4M3FN, DType.FLOAT8E4M3FNUZ, DType.FLOAT8E5M2, DType.FLOAT8E5M2FNUZ]
WHOLE = sorted(KERNEL_DTYPES, key=lambda dtype: dtype.onnx)


def cast(x: Array, to: DType, isa: str = "scalar", threads: int = 1, **attrs: object) -> Array:
    return run_op(make_node("Cast", [x], {"to": to.onnx, **attrs}), [x], isa=isa, threads=threads)[0]


def patterns(dtype: DType) -> Array:
    """Every bit pattern of the dtype, as a numpy array."""
    codes = np.arange(1 << dtype.bits, dtype=np.uint8)
    if dtype in {DType.INT4, DType.INT2}:
        codes |= np.where(codes >> dtype.bits - 1, 256 - (1 << dtype.bits), 0).astype(np.uint8)
    return codes.view(dtype.numpy)


def bits(array: Array) -> Array:
    return np.ascontiguousarray(array).view(np.uint8)


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("source", NARROW, ids=lambda dtype: dtype.short)
def test_every_pattern_widens_exactly(source: DType, isa: str) -> None:
    x = patterns(source)
    for to in (DType.FLOAT32, DType.FLOAT64, DType.BFLOAT16):
        np.testing.assert_array_equal(cast(x, to, isa).astype(np.float64), x.astype(np.float64))
    finite = x[np.isfinite(x.astype(np.float32)) & (np.abs(x.astype(np.float32)) < 2**31)]
    np.testing.assert_array_equal(cast(finite, DType.INT64, isa), finite.astype(np.float32).astype(np.int64))


@pytest.mark.parametrize("to", NARROW, ids=lambda dtype: dtype.short)
@pytest.mark.parametrize("source", [*WHOLE, *NARROW], ids=lambda dtype: dtype.short)
def test_agrees_with_the_reference(source: DType, to: DType) -> None:
    both = {source, to}
    small = [0, 1, 1, 0, 1, 0, 0] if DType.BOOL in both or min(source.bits, to.bits) == 2 else [0, 1, 2, 3, 7, 5, 4]
    x = np.array([1, 2, 4][: to.bits - 1] if source is DType.FLOAT8E8M0 else small).astype(source.numpy)
    wide = widened(x)
    expected = reference_op(make_node("Cast", [wide], {"to": to.onnx}), [wide])[0]
    for isa in LOOP_ISAS:
        np.testing.assert_array_equal(bits(cast(x, to, isa)), bits(expected))


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("source", [np.float16, np.float32, np.float64], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("to", [*FLOATS8, DType.FLOAT4E2M1], ids=lambda dtype: dtype.short)
def test_rounds_to_the_nearest(to: DType, source: type, isa: str) -> None:
    values = patterns(to).astype(np.float64)
    ordered = np.unique(values[np.isfinite(values)])
    halves = (ordered[1:] + ordered[:-1]) / 2
    x = np.concatenate([ordered, halves, np.nextafter(halves, np.inf), np.nextafter(halves, -np.inf), [1e9, -1e9]])
    x = x.astype(source).astype(np.float64)
    x = x[np.isfinite(x)]
    # The nearest value, ties to the even bit pattern.
    even_first = sorted((code for code in range(1 << to.bits) if np.isfinite(values[code])), key=lambda code: code % 2)
    expected = values[even_first][np.abs(x[:, None] - values[even_first]).argmin(1)]
    np.testing.assert_array_equal(cast(x.astype(source), to, isa).astype(np.float64), expected)


SPECIAL = np.array([np.inf, -np.inf, np.nan, -np.nan, 1e9, -1e9, 0.0, -0.0], np.float32)
UNSATURATED = {  # the second table of Cast
    DType.FLOAT8E4M3FN: [0x7F, 0xFF, 0x7F, 0xFF, 0x7F, 0xFF, 0, 0x80],
    DType.FLOAT8E4M3FNUZ: [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0],
    DType.FLOAT8E5M2: [0x7C, 0xFC, 0x7E, 0xFE, 0x7C, 0xFC, 0, 0x80],
    DType.FLOAT8E5M2FNUZ: [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0],
}
LARGEST = dict(zip(FLOATS8, [0x7E, 0x7F, 0x7B, 0x7F], strict=True))


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("to", FLOATS8, ids=lambda dtype: dtype.short)
def test_values_out_of_range(to: DType, isa: str) -> None:
    np.testing.assert_array_equal(bits(cast(SPECIAL, to, isa, saturate=0)), UNSATURATED[to])
    saturated = bits(cast(SPECIAL, to, isa))
    largest = LARGEST[to]
    np.testing.assert_array_equal(saturated[[0, 1, 4, 5]], [largest, largest | 0x80] * 2)
    np.testing.assert_array_equal(saturated[[2, 3, 6, 7]], np.array(UNSATURATED[to])[[2, 3, 6, 7]])


POWERS = np.array([1.0, 1.25, 1.5, 1.75, 2.0, 124.0, 2.0**-126, 3e-39, 2.0**127], np.float32)


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("source", [np.float32, np.float64], ids=["f32", "f64"])
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("up", [127, 128, 128, 128, 128, 134, 1, 0, 254]),
        ("down", [127, 127, 127, 127, 128, 133, 1, 0, 254]),
        ("nearest", [127, 127, 128, 128, 128, 134, 1, 0, 254]),
    ],
)
def test_powers_of_two(mode: str, expected: list[int], source: type, isa: str) -> None:
    np.testing.assert_array_equal(bits(cast(POWERS.astype(source), DType.FLOAT8E8M0, isa, round_mode=mode)), expected)
    inner = POWERS[:6]
    reference = numpy_helper.to_float8e8m0(inner, True, mode)
    np.testing.assert_array_equal(bits(cast(inner, DType.FLOAT8E8M0, isa, round_mode=mode)), bits(reference)[:6])


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize(("saturate", "expected"), [(1, [0, 255, 254, 254, 0]), (0, [255, 255, 255, 255, 255])])
def test_powers_of_two_out_of_range(saturate: int, expected: list[int], isa: str) -> None:
    x = np.array([0, np.nan, np.inf, 3e38, 1e-45], np.float32)
    np.testing.assert_array_equal(bits(cast(x, DType.FLOAT8E8M0, isa, saturate=saturate)), expected)


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
@pytest.mark.parametrize("saturate", [0, 1])
def test_constant_folding_agrees_with_the_kernel(mode: str, saturate: int) -> None:
    rng = np.random.default_rng(4)
    x = np.concatenate([SPECIAL, POWERS, np.exp(rng.uniform(-100, 90, 500)).astype(np.float32)])
    node = make_node("Cast", [x], {"to": DType.FLOAT8E8M0.onnx, "round_mode": mode, "saturate": saturate})
    opdef = find_opdef(node)
    assert opdef is not None and opdef.evaluate is not None
    np.testing.assert_array_equal(bits(opdef.evaluate(node, [x])[0]), bits(run_op(node, [x])[0]))


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("dtype", NARROW, ids=lambda dtype: dtype.short)
@pytest.mark.parametrize("n", [0, 1, 3, 5, 511, 513, 3 * (1 << 14) + 5])
def test_many_work_items_and_tails(n: int, dtype: DType, isa: str) -> None:
    values = np.unique(patterns(dtype).astype(np.float32))
    x = np.resize(values[np.isfinite(values)], n)
    packed = cast(x, dtype, isa, threads=2)
    np.testing.assert_array_equal(packed.astype(np.float32), x)
    np.testing.assert_array_equal(cast(packed, DType.FLOAT32, isa, threads=2), x)


def test_integers_keep_their_low_bits() -> None:
    x = np.array([-9, -1, 8, 17, 100, -128], np.int16)
    np.testing.assert_array_equal(cast(x, DType.INT4).astype(np.int8), [7, -1, -8, 1, 4, 0])
    np.testing.assert_array_equal(cast(x, DType.UINT4).astype(np.int8), [7, 15, 8, 1, 4, 0])
    np.testing.assert_array_equal(cast(x, DType.INT2).astype(np.int8), [-1, -1, 0, 1, 0, 0])
    np.testing.assert_array_equal(cast(x, DType.UINT2).astype(np.int8), [3, 3, 0, 1, 0, 0])


def test_cast_like_honours_its_attributes() -> None:
    arrays = [np.array([1e9], np.float32), np.zeros(1, DType.FLOAT8E5M2.numpy)]
    assert bits(run_op(make_node("CastLike", arrays, {"saturate": 0}), arrays)[0]) == 0x7C
    assert bits(run_op(make_node("CastLike", arrays), arrays)[0]) == 0x7B


def test_sub_byte_elements_stay_in_plain_format() -> None:
    node = make_node("Cast", [np.zeros((1, 2, 3, 3), np.float32)], {"to": onnx.TensorProto.INT4})
    opdef = find_opdef(node)
    assert opdef is not None and opdef.layout is not None
    layout = opdef.layout(node, (NC1HWC0,))
    assert isinstance(layout, Reject) and layout.reason == "dtype"
    assert isinstance(opdef.layout(make_node("Cast", [np.zeros(3)], {"to": 1}), (ND,)), Reject)


def test_an_unknown_round_mode_is_refused() -> None:
    with pytest.raises(ModelInvalid, match="round_mode"):
        cast(POWERS, DType.FLOAT8E8M0, round_mode="sideways")
