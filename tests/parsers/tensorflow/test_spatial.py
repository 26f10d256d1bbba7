"""Convolution, pooling and normalization by TensorFlow's definitions, channels last."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from atcpy.errors import AtcError
from tests.parsers.tensorflow.graphs import Array, TfBuilder, Type

RNG = np.random.default_rng(0)


def _normal(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def _same(size: int, taps: int, stride: int, rate: int) -> tuple[int, int]:
    total = max((-(-size // stride) - 1) * stride + (taps - 1) * rate + 1 - size, 0)
    return total // 2, total - total // 2


def _windows(x: Array, kernel: Array, strides: Array, rates: Array, pads: list[tuple[int, int]], fill: float) -> Array:
    """Extract windows, [N, S…, C] → [N, S'…, K…, C], by their definition."""
    padded = np.pad(x.astype(float), [(0, 0), *pads, (0, 0)], constant_values=fill)
    room = [size - (k - 1) * r for size, k, r in zip(padded.shape[1:-1], kernel, rates, strict=True)]
    counts = [-(-size // stride) for size, stride in zip(room, strides, strict=True)]
    y = np.empty((x.shape[0], *counts, *kernel, x.shape[-1]))
    for at in product(*map(range, counts)):
        for tap in product(*map(range, kernel)):
            position = [a * s + t * r for a, s, t, r in zip(at, strides, tap, rates, strict=True)]
            y[(slice(None), *at, *tap)] = padded[(slice(None), *position)]
    return y


def _all_pads(x: Array, kernel: Array, strides: Array, rates: Array, padding: str) -> list[tuple[int, int]]:
    if padding == "VALID":
        return [(0, 0)] * len(kernel)
    return [_same(*each) for each in zip(x.shape[1:-1], kernel, strides, rates, strict=True)]


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_windows_of_convolutions_and_pools(tmp_path: Path, padding: str, is_open: bool) -> None:
    """Also with unknown heights and widths, for which SAME pads are computed at run time."""
    x, w, deep = _normal(2, 11, 9, 4), _normal(3, 4, 2, 6), _normal(3, 2, 4, 2)
    g = TfBuilder()
    data = g.input("x", "float32", (None, None, None, 4) if is_open else x.shape)
    names, expected = [], []
    for stride, rate in ((1, 1), (2, 1), (3, 1), (1, 2)):
        four = {"strides": [1, stride, stride, 1], "padding": padding}
        rates = [1, rate, rate, 1]
        names.append(g.add("Conv2D", data, g.const(w), dilations=rates, **four))
        under = _windows(
            x, (3, 4), (stride,) * 2, (rate,) * 2, _all_pads(x, (3, 4), (stride,) * 2, (rate,) * 2, padding), 0
        )
        halves = [
            np.einsum("nyxijc,ijco->nyxo", under[..., h * 2 : h * 2 + 2], w[..., h * 3 : h * 3 + 3]) for h in (0, 1)
        ]
        expected.append(np.concatenate(halves, -1))
        names.append(g.add("DepthwiseConv2dNative", data, g.const(deep), dilations=rates, **four))
        under = _windows(
            x, (3, 2), (stride,) * 2, (rate,) * 2, _all_pads(x, (3, 2), (stride,) * 2, (rate,) * 2, padding), 0
        )
        expected.append(np.einsum("nyxijc,ijcm->nyxcm", under, deep).reshape(*under.shape[:3], 8))
        pads = _all_pads(x, (3, 2), (stride,) * 2, (1, 1), padding)
        names.append(g.add("MaxPool", data, ksize=[1, 3, 2, 1], **four))
        expected.append(_windows(x, (3, 2), (stride,) * 2, (1, 1), pads, -np.inf).max((3, 4)))
        names.append(g.add("AvgPool", data, ksize=[1, 3, 2, 1], **four))
        expected.append(np.nanmean(_windows(x, (3, 2), (stride,) * 2, (1, 1), pads, np.nan), (3, 4)))
    for y, reference in zip(g.run(tmp_path, {"x": x}, *names), expected, strict=True):
        np.testing.assert_allclose(y, reference, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("with_batch", [False, True])
def test_max_pool_indices_are_channels_last(tmp_path: Path, with_batch: bool) -> None:
    x = RNG.integers(0, 9, (2, 5, 7, 3)).astype(np.float32)
    g = TfBuilder()
    attrs = {"ksize": [1, 2, 3, 1], "strides": [1, 2, 2, 1], "padding": "SAME", "Targmax": Type("int32")}
    both = g.add("MaxPoolWithArgmax", g.input("x", "float32", x.shape), include_batch_in_index=with_batch, **attrs)
    y, indices = g.run(tmp_path, {"x": x}, both, f"{both}:1")
    index = np.broadcast_to(np.arange(5 * 7 * 3).reshape(5, 7, 3), x.shape) + 0.0
    under = _windows(x, (2, 3), (2, 2), (1, 1), _all_pads(x, (2, 3), (2, 2), (1, 1), "SAME"), -np.inf)
    where = _windows(index, (2, 3), (2, 2), (1, 1), _all_pads(x, (2, 3), (2, 2), (1, 1), "SAME"), -1)
    flat, where = under.reshape(*under.shape[:3], 6, 3), where.reshape(*under.shape[:3], 6, 3)
    first = np.take_along_axis(where, flat.argmax(3)[:, :, :, None], 3)[:, :, :, 0]
    offset = np.array([0, 105 * with_batch]).reshape(2, 1, 1, 1)
    assert (y == flat.max(3)).all() and indices.dtype == np.int32 and (indices == first + offset).all()


@pytest.mark.parametrize("shape", ["known", "open batch", "open"])
@pytest.mark.parametrize(
    ("padding", "size"), [("SAME", (8, 9)), ("SAME", (7, 10)), ("VALID", (10, 12)), ("VALID", (9, 11))]
)
def test_transposed_convolutions(tmp_path: Path, padding: str, size: tuple[int, int], shape: str) -> None:
    """Conv2DBackpropInput is the adjoint of the convolution: y · conv(z) = x · z for any z."""
    y, w = _normal(2, 4, 5, 3), _normal(3, 3, 6, 3)
    g = TfBuilder()
    known = {"known": y.shape, "open batch": (None, 4, 5, 3)}.get(shape, (None, None, None, 3))
    sizes = g.const([2, *size, 6], "int32") if shape == "known" else g.input("sizes", "int32", (4,))
    if shape == "open batch":
        sizes = g.add("ConcatV2", g.const([2], "int32"), g.const([*size, 6], "int32"), g.const(0, "int32"))
    attrs = {"strides": [1, 2, 2, 1], "padding": padding}
    name = g.add("Conv2DBackpropInput", sizes, g.const(w), g.input("y", "float32", known), **attrs)
    feeds = {"y": y} | ({"sizes": np.array([2, *size, 6], np.int32)} if shape == "open" else {})
    (x,) = g.run(tmp_path, feeds, name)
    z = _normal(2, *size, 6)
    under = _windows(z, (3, 3), (2, 2), (1, 1), _all_pads(z, (3, 3), (2, 2), (1, 1), padding), 0)
    direct = np.einsum("nyxijc,ijco->nyxo", under, w)[:, :4, :5]
    assert x.shape == z.shape and direct.shape == y.shape
    np.testing.assert_allclose((x * z).sum(), (direct * y).sum(), rtol=1e-4, atol=1e-3)


def test_batch_normalization_in_training_mode(tmp_path: Path) -> None:
    x, scale, offset, old = _normal(2, 4, 5, 3), _normal(3), _normal(3), np.abs(_normal(3))
    g = TfBuilder()
    for_all = [g.input("x", "float32", (None, 4, 5, 3)), *map(g.const, (scale, offset, old, old))]
    train = g.add("FusedBatchNormV3", *for_all, exponential_avg_factor=0.25)
    infer = g.add("FusedBatchNormV3", *for_all, is_training=False, epsilon=0.5)
    y, mean, variance, biased, plain = g.run(tmp_path, {"x": x}, train, f"{train}:1", f"{train}:2", f"{train}:4", infer)
    flat = x.reshape(-1, 3).astype(float)
    np.testing.assert_allclose(y, (x - flat.mean(0)) / np.sqrt(flat.var(0) + 1e-4) * scale + offset, atol=1e-5)
    np.testing.assert_allclose(mean, 0.75 * old + 0.25 * flat.mean(0), atol=1e-6)
    np.testing.assert_allclose(variance, 0.75 * old + 0.25 * flat.var(0, ddof=1), atol=1e-6)
    np.testing.assert_allclose(biased, flat.var(0), atol=1e-6)
    np.testing.assert_allclose(plain, (x - old) / np.sqrt(old + 0.5) * scale + offset, atol=1e-5)


def test_channels_first_3d_pooling_and_depth_to_space(tmp_path: Path) -> None:
    x = _normal(1, 4, 6, 8)
    g = TfBuilder()
    data, w = g.input("x", "float32", x.shape), _normal(2, 3, 4, 5)
    volume = g.add("Reshape", data, g.const([1, 4, 6, 4, 2], "int32"))
    ops = [
        g.add("Conv2D", data, g.const(w), strides=[1, 1, 2, 1], padding="EXPLICIT", data_format="NCHW",
              explicit_paddings=[0, 0, 0, 0, 1, 0, 2, 1]),
        g.add("DepthToSpace", data, block_size=2), g.add("SpaceToDepth", data, block_size=2),
        g.add("DepthToSpace", data, block_size=2, data_format="NCHW"),
        g.add("MaxPool3D", volume, ksize=[1, 2, 2, 3, 1], strides=[1, 2, 1, 2, 1], padding="SAME"),
        g.add("LRN", data, depth_radius=2, bias=2.0, alpha=0.5, beta=0.75),
        g.add("MaxPoolV2", data, g.const([1, 2, 2, 1], "int32"), g.const([1, 2, 2, 1], "int32"), padding="VALID"),
    ]  # fmt: skip
    conv, deep, space, first, pooled, normal, second = g.run(tmp_path, {"x": x}, *ops)
    under = _windows(x.transpose(0, 2, 3, 1), (2, 3), (2, 1), (1, 1), [(1, 0), (2, 1)], 0)
    np.testing.assert_allclose(conv, np.einsum("nyxijc,ijco->noyx", under, w), atol=1e-5)
    assert (deep == x.reshape(1, 4, 6, 2, 2, 2).transpose(0, 1, 3, 2, 4, 5).reshape(1, 8, 12, 2)).all()
    assert (space == x.reshape(1, 2, 2, 3, 2, 8).transpose(0, 1, 3, 2, 4, 5).reshape(1, 2, 3, 32)).all()
    assert (first == x.reshape(1, 2, 2, 1, 6, 8).transpose(0, 3, 4, 1, 5, 2).reshape(1, 1, 12, 16)).all()
    cubes = x.reshape(1, 4, 6, 4, 2)
    pads = _all_pads(cubes, (2, 2, 3), (2, 1, 2), (1, 1, 1), "SAME")
    assert (pooled == _windows(cubes, (2, 2, 3), (2, 1, 2), (1, 1, 1), pads, -np.inf).max((4, 5, 6))).all()
    near = [(x[..., max(c - 2, 0) : c + 3] ** 2).sum(-1) for c in range(8)]
    np.testing.assert_allclose(normal, x / (2 + 0.5 * np.stack(near, -1)) ** 0.75, rtol=1e-5)
    assert (second == x.reshape(1, 2, 2, 3, 2, 8).max((2, 4))).all()


@pytest.mark.parametrize("dtype", ["int32", "int16", "uint8", "float16", "float64"])
def test_max_pool_of_other_dtypes(tmp_path: Path, dtype: str) -> None:
    x = RNG.integers(0, 100, (1, 4, 6, 3)).astype(dtype)
    g = TfBuilder()
    name = g.add("MaxPool", g.input("x", dtype, x.shape), ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
    (y,) = g.run(tmp_path, {"x": x}, name)
    assert y.dtype == x.dtype and (y == x.reshape(1, 2, 2, 3, 2, 3).max((2, 4))).all()


def test_fused_convolutions(tmp_path: Path) -> None:
    x, w, b = _normal(1, 5, 4, 3), _normal(1, 1, 3, 2), _normal(2)
    g = TfBuilder()
    attrs = {"strides": [1, 1, 1, 1], "padding": "VALID", "fused_ops": ["BiasAdd", "LeakyRelu"], "leakyrelu_alpha": 0.5}
    (y,) = g.run(
        tmp_path, {"x": x}, g.add("_FusedConv2D", g.input("x", "float32", x.shape), g.const(w), g.const(b), **attrs)
    )
    plain = x @ w[0, 0] + b
    np.testing.assert_allclose(y, np.where(plain < 0, plain / 2, plain), atol=1e-5)


@pytest.mark.parametrize(("padding", "stride", "rate"), [("SAME", 1, 1), ("SAME", 3, 2), ("VALID", 2, 1)])
def test_image_patches_and_morphological_dilation(tmp_path: Path, padding: str, stride: int, rate: int) -> None:
    x, f = _normal(2, 11, 9, 3), _normal(3, 2, 3)
    g = TfBuilder()
    data = g.input("x", "float32", (None, 11, 9, 3))
    attrs = {"strides": [1, stride, 2, 1], "rates": [1, rate, 1, 1], "padding": padding}
    names = [
        g.add("ExtractImagePatches", data, ksizes=[1, 3, 2, 1], **attrs),
        g.add("Dilation2D", data, g.const(f), **attrs),
    ]
    patches, dilated = g.run(tmp_path, {"x": x}, *names)
    pads = _all_pads(x, (3, 2), (stride, 2), (rate, 1), padding)
    under = _windows(x, (3, 2), (stride, 2), (rate, 1), pads, 0)
    np.testing.assert_array_equal(patches, under.reshape(*under.shape[:3], 18).astype(np.float32))
    under = _windows(x, (3, 2), (stride, 2), (rate, 1), pads, -np.inf)
    np.testing.assert_allclose(dilated, (under + f).max((3, 4)), atol=1e-6)


@pytest.mark.parametrize("mode", ["REFLECT", "SYMMETRIC"])
def test_fused_resize_and_pad_convolutions_agree_with_separate_ops(tmp_path: Path, mode: str) -> None:
    rng = np.random.default_rng(11)
    x, w = rng.standard_normal((2, 6, 7, 3)).astype(np.float32), rng.standard_normal((3, 3, 3, 4)).astype(np.float32)
    g = TfBuilder()
    data, kernel = g.input("x", "float32", (None, 6, 7, 3)), g.const(w)
    size, pads = g.const([9, 5], "int32"), g.const([[0, 0], [1, 2], [2, 1], [0, 0]], "int32")
    attrs = {"strides": [1, 2, 1, 1], "padding": "VALID"}
    resized = g.add("ResizeBilinear", data, size, align_corners=True)
    names = [
        g.add("FusedPadConv2D", data, pads, kernel, mode=mode, **attrs),
        g.add("Conv2D", g.add("MirrorPad", data, pads, mode=mode), kernel, **attrs),
        g.add("FusedResizeAndPadConv2D", data, size, pads, kernel, mode=mode, resize_align_corners=True, **attrs),
        g.add("Conv2D", g.add("MirrorPad", resized, pads, mode=mode), kernel, **attrs),
    ]
    padded, plain, both, plain_again = g.run(tmp_path, {"x": x}, *names)
    np.testing.assert_array_equal(padded, plain)
    np.testing.assert_array_equal(both, plain_again)


@pytest.mark.parametrize(
    ("op", "attrs", "code"),
    [
        ("MaxPool", {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 2], "padding": "SAME"}, "E10055"),
        ("MaxPool", {"ksize": [2, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "SAME"}, "E10055"),
        ("AvgPool", {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "FULL"}, "E13014"),
        ("AvgPool", {"ksize": [1, 2, 2], "strides": [1, 1, 1, 1], "padding": "SAME"}, "E13014"),
        ("DepthToSpace", {"block_size": 2, "data_format": "NCHW_VECT_C"}, "E10055"),
        ("MaxPool3D", {"ksize": [1, 2, 2, 1, 1], "strides": [1, 1, 1, 1, 1], "padding": "SAME"}, "EZ8888"),
    ],
)
def test_unsupported_variants_are_refused(tmp_path: Path, op: str, attrs: dict[str, object], code: str) -> None:
    g = TfBuilder()
    with pytest.raises(AtcError) as caught:
        g.run(tmp_path, {}, g.add(op, g.input("x", "float32", (1, 4, 4, 4)), **attrs))
    assert caught.value.code == code


@pytest.mark.parametrize("length", [11, None])
@pytest.mark.parametrize("axis", [1, 2])
def test_1d_windows_agree_with_2d_windows(axis: int, length: int | None, tmp_path: Path) -> None:
    g = TfBuilder()
    line = np.random.default_rng(2).normal(size=(2, 11, 4)).astype(np.float32)
    kernel = np.random.default_rng(3).normal(size=(3, 4, 6)).astype(np.float32)
    x = g.add("ExpandDims", g.input("x", "float32", [None, length, 4]), g.const(axis, "int32"))
    plane = g.input("plane", "float32", [None, *((1, length) if axis == 1 else (length, 1)), 4])
    w, depthwise = (g.const(np.expand_dims(item, axis - 1)) for item in (kernel, kernel[..., :2]))
    ends, f32 = list[str](), {"T": Type("float32")}

    def both(op: str, *more: str, window: int = 0, stride: int = 1, **attrs: object) -> None:
        steps = [1, 1, stride, 1] if axis == 1 else [1, stride, 1, 1]
        sizes = {"ksize": [1, 1, window, 1] if axis == 1 else [1, window, 1, 1]} if window else {}
        names = [g.add(op, data, *more, strides=steps, **sizes, **attrs, **f32) for data in (x, plane)]
        ends.append(g.add("Squeeze", names[0], squeeze_dims=[axis - 4], **f32))
        ends.append(g.add("Squeeze", names[1], squeeze_dims=[axis], **f32))

    both("Conv2D", w, stride=2, padding="SAME")
    both("Conv2D", w, padding="VALID", dilations=[1, 1, 2, 1] if axis == 1 else [1, 2, 1, 1])
    borders = [0, 0, 2, 1] if axis == 1 else [2, 1, 0, 0]
    both("Conv2D", w, padding="EXPLICIT", explicit_paddings=[0, 0, *borders, 0, 0])
    both("DepthwiseConv2dNative", depthwise, stride=2, padding="SAME")
    both("MaxPool", window=3, stride=2, padding="SAME")
    both("AvgPool", window=3, stride=2, padding="VALID")
    results = g.run(tmp_path, {"x": line, "plane": np.expand_dims(line, axis)}, *ends)
    for one, two in zip(results[::2], results[1::2], strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-5)
