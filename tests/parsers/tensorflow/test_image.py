"""Resizing and colours of images by TensorFlow's formulas, with coordinates in float32 as in its kernels."""

from __future__ import annotations

import colorsys
from pathlib import Path

import numpy as np
import pytest

from atcpy.errors import AtcError, ModelInvalid
from tests.parsers.tensorflow.graphs import Array, TfBuilder

F32 = np.float32
SIZES = [(10, 14), (3, 11), (1, 1), (7, 10), (41, 30)]


def _coordinates(of: int, to: int, corners: bool, centers: bool) -> Array:
    ratio = F32(of - 1) / F32(to - 1) if corners and to > 1 else F32(of) / F32(to)
    at = np.arange(to, dtype=F32)
    return (at + F32(0.5)) * ratio - F32(0.5) if centers else at * ratio


def _nearest(of: int, to: int, corners: bool, centers: bool) -> Array:
    at = _coordinates(of, to, corners, False)
    if centers:
        at = (np.arange(to, dtype=F32) + F32(0.5)) * (F32(of) / F32(to))
    whole = np.floor(at + F32(0.5)) if corners else np.floor(at)
    y = np.zeros((to, of))
    y[np.arange(to), np.clip(whole, 0, of - 1).astype(int)] = 1
    return y


def _linear(of: int, to: int, corners: bool, centers: bool) -> Array:
    at = _coordinates(of, to, corners, centers)
    y = np.zeros((to, of))
    for row, coordinate in enumerate(at):
        low = np.floor(coordinate)
        for pixel, part in (
            (low, 1 - (coordinate - low)),
            (np.ceil(coordinate) if coordinate > low else low, coordinate - low),
        ):
            y[row, int(np.clip(pixel, 0, of - 1))] += part
    return y


def _cubic(of: int, to: int, corners: bool, centers: bool) -> Array:
    a, y = -0.5 if centers else -0.75, np.zeros((to, of))
    for row, coordinate in enumerate(_coordinates(of, to, corners, centers)):
        low = np.floor(coordinate)
        beyond = np.rint((coordinate - low) * 1024) / 1024
        for tap in range(-1, 3):
            d = abs(tap - beyond)
            part = ((a + 2) * d - (a + 3)) * d * d + 1 if d <= 1 else ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
            if not centers or 0 <= low + tap < of:
                y[row, int(np.clip(low + tap, 0, of - 1))] += part
    return y / y.sum(1, keepdims=True) if centers else y


WEIGHTS = {"ResizeNearestNeighbor": _nearest, "ResizeBilinear": _linear, "ResizeBicubic": _cubic}


@pytest.mark.parametrize("known", ["all", "size", "open", "none"])
@pytest.mark.parametrize(("corners", "centers"), [(False, False), (True, False), (False, True)])
def test_resize(tmp_path: Path, corners: bool, centers: bool, known: str) -> None:
    x = np.random.default_rng(1).standard_normal((2, 7, 10, 3)).astype(F32)
    g = TfBuilder()
    shape = {"all": (2, 7, 10, 3), "size": (None, 7, 10, 3)}.get(known, (None, None, None, 3))
    data, names, expected = g.input("x", "float32", shape), [], []
    sizes = SIZES if known != "none" else [(41, 30)]
    size = [g.const(s, "int32") if known != "none" else g.input("size", "int32", (2,)) for s in sizes]
    for op, weights in WEIGHTS.items():
        for (height, width), to in zip(sizes, size, strict=True):
            names.append(g.add(op, data, to, align_corners=corners, half_pixel_centers=centers))
            rows, columns = weights(7, height, corners, centers), weights(10, width, corners, centers)
            expected.append(np.einsum("yh,xw,nhwc->nyxc", rows, columns, x))
    feeds = {"x": x} | ({"size": np.array([41, 30], np.int32)} if known == "none" else {})
    for y, reference in zip(g.run(tmp_path, feeds, *names), expected, strict=True):
        np.testing.assert_allclose(y, reference, atol=2e-6)


def test_resize_rounds_coordinates_to_float32(tmp_path: Path) -> None:
    """41 · (1/41) is less than 1 in float32."""
    x = np.arange(10, dtype=F32).reshape(1, 1, 10, 1)
    g = TfBuilder()
    near_name = g.add("ResizeNearestNeighbor", g.input("x", "float32", x.shape), g.const([1, 410], "int32"))
    wide = g.add("ResizeBilinear", "x", g.const([1, 517], "int32"), half_pixel_centers=True)
    near, mixed = g.run(tmp_path, {"x": x}, near_name, wide)
    assert near[0, 0, 41, 0] == 0 and near[0, 0, 42, 0] == 1
    np.testing.assert_array_equal(mixed[0, 0, 300:302, 0], _coordinates(10, 517, False, True)[300:302])


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "float64"])
def test_resize_of_other_dtypes(tmp_path: Path, dtype: str) -> None:
    x = np.random.default_rng(2).integers(0, 200, (1, 5, 6, 3)).astype(dtype)
    g = TfBuilder()
    data, size = g.input("x", dtype, x.shape), g.const([4, 9], "int32")
    linear, near = g.run(
        tmp_path, {"x": x}, g.add("ResizeBilinear", data, size), g.add("ResizeNearestNeighbor", data, size)
    )
    parts = [[weights(of, to, False, False) for of, to in ((5, 4), (6, 9))] for weights in (_linear, _nearest)]
    expected = [np.einsum("yh,xw,nhwc->nyxc", *part, x.astype(float)) for part in parts]
    assert linear.dtype == np.float32 and near.dtype == dtype and (near == expected[1]).all()
    np.testing.assert_allclose(linear, expected[0], rtol=1e-5)


@pytest.mark.parametrize("corners", [pytest.param(False, marks=pytest.mark.slow), True])
def test_resize_area(tmp_path: Path, corners: bool) -> None:
    x = np.random.default_rng(3).integers(0, 200, (2, 7, 10, 3)).astype(np.uint8)
    g = TfBuilder()
    data = g.input("x", "uint8", (None, None, None, 3))
    ys = g.run(
        tmp_path, {"x": x}, *[g.add("ResizeArea", data, g.const(s, "int32"), align_corners=corners) for s in SIZES]
    )
    for y, (height, width) in zip(ys, SIZES, strict=True):
        parts = []
        for of, to in ((7, height), (10, width)):
            scale = (of - 1) / (to - 1) if corners and to > 1 else of / to
            fine = np.arange(to * 1000 + 0.0).reshape(to, 1000) / 1000 * scale + scale / 2000
            pixel = np.minimum(np.floor(fine), of - 1)[..., None] == np.arange(of)
            parts.append(pixel.mean(1))
        np.testing.assert_allclose(y, np.einsum("yh,xw,nhwc->nyxc", *parts, x.astype(float)), atol=1.5)


@pytest.mark.parametrize("op", ["ResizeArea", "ResizeBilinear"])
@pytest.mark.parametrize("sizes", [[], [4], [4, 5, 6]])
def test_sizes_other_than_height_and_width_are_refused(op: str, sizes: list[int], tmp_path: Path) -> None:
    g = TfBuilder()
    g.add(op, g.input("x", "float32", (1, 4, 4, 2)), g.const(np.array(sizes, np.int32)), name="y")
    with pytest.raises(ModelInvalid) as caught:
        g.run(tmp_path, {}, "y")
    assert (caught.value.code, caught.value.where.node) == ("EZ8888", "y")


KERNELS = {
    "lanczos3": (3, lambda d: np.sinc(d) * np.sinc(d / 3)),
    "triangle": (1, lambda d: 1 - d),
    "keyscubic": (2, lambda d: np.where(d < 1, 1.5 * d**3 - 2.5 * d**2 + 1, -0.5 * d**3 + 2.5 * d**2 - 4 * d + 2)),
    "mitchellcubic": (
        2, lambda d: np.where(d < 1, 7 / 6 * d**3 - 2 * d**2 + 8 / 9, -7 / 18 * d**3 + 2 * d**2 - 10 / 3 * d + 16 / 9),
    ),
    "gaussian": (1.5, lambda d: np.exp(-2 * d * d)),
}  # fmt: skip


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_scale_and_translate(tmp_path: Path, kernel: str, antialias: bool) -> None:
    x = np.random.default_rng(4).standard_normal((2, 11, 13, 3)).astype(F32)
    radius, formula = KERNELS[kernel]
    cases = [((5, 7), (5 / 11, 7 / 13), (0, 0)), ((8, 20), (1.7, 0.6), (1.5, -3.2))]
    g = TfBuilder()
    data = g.input("x", "float32", x.shape)
    names = [
        g.add("ScaleAndTranslate", data, g.const(size, "int32"), g.const(scale, "float32"), g.const(shift, "float32"),
              kernel_type=kernel, antialias=antialias)
        for size, scale, shift in cases
    ]  # fmt: skip
    for y, (size, scale, shift) in zip(g.run(tmp_path, {"x": x}, *names), cases, strict=True):
        parts = []
        for of, to, factor, moved in zip((11, 13), size, scale, shift, strict=True):
            at = (np.arange(to) + 0.5 - moved) / factor
            d = np.abs(np.arange(of) + 0.5 - at[:, None]) / (max(1 / factor, 1) if antialias else 1)
            part = np.where(d < radius, formula(d), 0)
            part /= np.maximum(np.abs(part.sum(1, keepdims=True)), 1e-30)
            parts.append(np.where(((at < 0) | (at > of))[:, None], 0, part))
        np.testing.assert_allclose(y, np.einsum("yh,xw,nhwc->nyxc", *parts, x.astype(float)), atol=1e-5)


def test_colours(tmp_path: Path) -> None:
    x = np.random.default_rng(5).integers(0, 4, (1, 8, 9, 3)).astype(F32) / 3
    g = TfBuilder()
    data = g.input("x", "float32", (None, 8, 9, 3))
    half = g.const(F32(0.3))
    names = [g.add("RGBToHSV", data), g.add("HSVToRGB", data), g.add("AdjustHue", data, half),
             g.add("AdjustSaturation", data, half), g.add("AdjustContrastv2", data, half)]  # fmt: skip
    hsv, rgb, hue, saturation, contrast = g.run(tmp_path, {"x": x}, *names)
    flat = x.reshape(-1, 3)
    rotated = [colorsys.hsv_to_rgb((h + 0.3) % 1, s, v) for h, s, v in (colorsys.rgb_to_hsv(*each) for each in flat)]
    faded = [colorsys.hsv_to_rgb(h, 0.3 * s, v) for h, s, v in (colorsys.rgb_to_hsv(*each) for each in flat)]
    np.testing.assert_allclose(hsv.reshape(-1, 3), [colorsys.rgb_to_hsv(*each) for each in flat], atol=1e-6)
    np.testing.assert_allclose(rgb.reshape(-1, 3), [colorsys.hsv_to_rgb(*each) for each in flat], atol=1e-6)
    np.testing.assert_allclose(hue.reshape(-1, 3), rotated, atol=1e-6)
    np.testing.assert_allclose(saturation.reshape(-1, 3), faded, atol=1e-6)
    mean = x.mean((1, 2), keepdims=True)
    np.testing.assert_allclose(contrast, (x - mean) * 0.3 + mean, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "size", "attrs"),
    [
        ("ResizeBilinear", [4, 0], {}),
        ("ResizeBilinear", [4, 4], {"align_corners": True, "half_pixel_centers": True}),
        ("ScaleAndTranslate", [4, 4], {"kernel_type": "sinc"}),
    ],
)
def test_unsupported_variants_are_refused(tmp_path: Path, op: str, size: list[int], attrs: dict[str, object]) -> None:
    g = TfBuilder()
    more = [g.const(np.ones(2, F32))] * 2 if op == "ScaleAndTranslate" else []
    with pytest.raises(AtcError) as caught:
        g.run(tmp_path, {}, g.add(op, g.input("x", "float32", (1, 4, 4, 4)), g.const(size, "int32"), *more, **attrs))
    assert caught.value.code == "E13014"
