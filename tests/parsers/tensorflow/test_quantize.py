"""Quantization, bit for bit in the order of TensorFlow's kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from atcpy.errors import AtcError
from tests.parsers.tensorflow.graphs import Array, TfBuilder, Type

F32 = np.float32
X = (np.random.default_rng(0).standard_normal((2, 9, 8, 5)) * 3).astype(F32)


def _fake_quant(x: Array, low: Array, high: Array, bits: int, narrow: bool) -> Array:
    """The definition in float64 with the kernel's float32 range; NaN marks values near a rounding border."""
    first, last = F32(narrow), F32(2**bits - 1)
    scale = ((high - low) / (last - first)).astype(F32)
    zero = np.clip(np.floor(first - low / scale + F32(0.5)), first, last)
    low, high = ((first - zero) * scale).astype(float), ((last - zero) * scale).astype(float)
    steps = (np.clip(x, low, high) - low) / scale
    y = np.floor(steps + 0.5) * scale + low
    y[np.abs(steps % 1 - 0.5) < 2e-3] = np.nan
    return y


def _agrees(y: Array, expected: Array) -> None:
    compared = ~np.isnan(expected)
    assert compared.mean() > 0.97
    np.testing.assert_allclose(y[compared], expected[compared], rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_fake_quant(tmp_path: Path, bits: int, narrow: bool) -> None:
    g = TfBuilder()
    data = g.input("x", "float32", (None, 9, 8, 5))
    attrs = {"num_bits": bits, "narrow_range": narrow}
    ranges = [(-6.0, 6.0), (-0.37, 1.91), (0.5, 4.0), (-5.0, -1.0), (0.0, 4.3), (-3.0, 0.0)]
    each = (np.array([-1, -2, -0.5, 0, -4], F32), np.array([1, 0.5, 4, 2, 0], F32))
    names = [g.add("FakeQuantWithMinMaxArgs", data, min=low, max=high, **attrs) for low, high in ranges]
    names += [g.add("FakeQuantWithMinMaxVars", data, *map(g.const, map(F32, r)), **attrs) for r in ranges]
    names += [g.add("FakeQuantWithMinMaxVarsPerChannel", data, *map(g.const, each), **attrs)]
    *ys, last = g.run(tmp_path, {"x": X}, *names)
    for y, (low, high) in zip(ys, ranges * 2, strict=True):
        _agrees(y, _fake_quant(X, F32(low), F32(high), bits, narrow))
    _agrees(last, _fake_quant(X, *each, bits, narrow))


def test_fake_quant_with_a_computed_range(tmp_path: Path) -> None:
    g = TfBuilder()
    low, high = g.input("low", "float32", ()), g.input("high", "float32", ())
    name = g.add("FakeQuantWithMinMaxVars", g.input("x", "float32", X.shape), low, high)
    (y,) = g.run(tmp_path, {"x": X, "low": F32(-2), "high": F32(1.5)}, name)
    _agrees(y, _fake_quant(X, F32(-2), F32(1.5), 8, False))
    (y,) = g.run(tmp_path, {"x": X, "low": F32(0), "high": F32(0)}, name)
    assert (y == 0).all()


@pytest.mark.parametrize("range_given", [False, True])
@pytest.mark.parametrize("signed", [False, True])
def test_quantize_and_dequantize(tmp_path: Path, signed: bool, range_given: bool) -> None:
    g = TfBuilder()
    x = X if signed else np.abs(X)
    data, names, expected = g.input("x", "float32", x.shape), [], []
    for bits, narrow, mode in ((8, False, "HALF_TO_EVEN"), (4, True, "HALF_UP"), (5, False, "HALF_UP")):
        attrs = {"signed_input": signed, "range_given": range_given, "narrow_range": narrow}
        low, high = (F32(-1.7 if signed else 0), F32(2.2)) if range_given else (x.min(), x.max())
        limits = [g.const(F32(-1.7 if signed else 0)), g.const(F32(2.2))]
        for op in ("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4"):
            names.append(g.add(op, data, *limits, num_bits=bits, round_mode=mode, **attrs))
        names.append(g.add("QuantizeAndDequantizeV3", data, *limits, g.const(bits, "int32"), **attrs))
        first, last = (-(2 ** (bits - 1)) + narrow, 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        scale = min(last / high, first / low if low < 0 else np.inf)
        steps = np.clip(x.astype(float), first / scale, last / scale) * scale
        y = np.rint(steps) / scale
        y[np.abs(steps % 1 - 0.5) < 1e-3] = np.nan
        expected += [y] * 3
    for y, reference in zip(g.run(tmp_path, {"x": x}, *names), expected, strict=True):
        _agrees(y, reference)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint16"])
def test_quantize_to_integers_and_dequantize(tmp_path: Path, dtype: str) -> None:
    g = TfBuilder()
    data, info = g.input("x", "float32", X.shape), np.iinfo(dtype)
    low, high = g.const(F32(-2.5)), g.const(F32(3.3))
    names = []
    for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
        name = g.add("QuantizeV2", data, low, high, T=Type(dtype), mode=mode)
        names += [name, f"{name}:1", f"{name}:2"]
        names.append(
            g.add("Dequantize", name, f"{name}:1", f"{name}:2", T=Type(dtype), mode=mode, dtype=Type("float32"))
        )
    results = g.run(tmp_path, {"x": X}, *names)
    for index, mode in enumerate(("MIN_COMBINED", "MIN_FIRST", "SCALED")):
        q, begin, end, back = results[4 * index : 4 * index + 4]
        assert q.dtype == dtype and q.max() == info.max and (mode == "SCALED" or q.min() == info.min)
        inside = np.clip(X, begin, end) if mode != "SCALED" or info.min else np.clip(X, 0, end)
        step = float(end - begin) / (int(info.max) - int(info.min))
        np.testing.assert_allclose(back, inside, atol=0.51 * step if mode != "MIN_FIRST" else 1.01 * step)


@pytest.mark.parametrize(("attrs", "code"), [({"num_bits": 1}, "E13014"), ({"num_bits": 17}, "E13014")])
def test_unsupported_variants_are_refused(tmp_path: Path, attrs: dict[str, object], code: str) -> None:
    g = TfBuilder()
    with pytest.raises(AtcError) as caught:
        g.run(tmp_path, {}, g.add("FakeQuantWithMinMaxArgs", g.input("x", "float32", (3,)), **attrs))
    assert caught.value.code == code


def _zero(low: float, high: float, first: int) -> int:
    """FloatToQuantizedUnclamped of 0, by its definition."""
    if low == high:
        return first
    scale = 256 / (float(F32(high) - F32(low)) * (256 / 255))
    return first - int(np.copysign(np.floor(abs(float(F32(low)) * scale) + 0.5), low))


@pytest.mark.parametrize("is_constant", [False, True])
def test_products_of_quantized_matrices(tmp_path: Path, is_constant: bool) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(0, 256, (3, 5)).astype(np.uint8)
    w = rng.integers(0, 256, (5, 4)).astype(np.uint8)
    g, feeds = TfBuilder(), {"x": x, "xt": x.T.copy()}
    data, transposed = g.input("x", "uint8", x.shape), g.input("xt", "uint8", x.T.shape)
    expected = []
    both = [((-1.0, 3.0), (-2.0, 2.1)), ((1.0, 3.0), (-7.0, -2.0)), ((0.0, 6.0), (2.0, 2.0))]
    for index, ranges in enumerate(both):
        ends = [F32(number) for pair in ranges for number in pair]
        names = [f"r{index}{end}" for end in range(4)]
        if is_constant:
            names = [g.const(number) for number in ends]
        else:
            feeds.update(zip([g.input(name, "float32", ()) for name in names], ends, strict=True))
        level = np.prod([(high - low) / F32(255) for low, high in (ends[:2], ends[2:])], dtype=F32)
        for dtype, first in (("uint8", 0), ("int8", -128)):
            number = len(expected)
            inputs = [transposed if number % 2 else data, g.const(w.view(dtype)), *names]
            g.add("QuantizedMatMul", *inputs, name=f"y{number}", transpose_a=bool(number % 2), Toutput=Type("int32"))
            left = x.astype(np.int64) - _zero(*ranges[0], 0)
            expected.append((left @ (w.view(dtype).astype(np.int64) - _zero(*ranges[1], first)), level))
    results = iter(g.run(tmp_path, feeds, *[f"y{number}:{end}" for number in range(len(expected)) for end in range(3)]))
    for product, level in expected:
        y = next(results)
        assert y.dtype == np.int32 and np.array_equal(y, product)
        np.testing.assert_allclose([next(results), next(results)], [-level * 2.0**31, level * 2.0**31], 1e-6)


def test_products_of_another_type(tmp_path: Path) -> None:
    g = TfBuilder()
    x, numbers = g.input("x", "uint8", (2, 2)), [g.const(F32(i)) for i in range(4)]
    g.add("QuantizedMatMul", x, x, *numbers, name="y", Toutput=Type("int16"))
    with pytest.raises(AtcError, match=r"(?s)results of type int16.*take qint32"):
        g.converted(tmp_path, "y")
