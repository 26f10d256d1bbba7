"""Images: new sizes, colours, contrast."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Value
from atcpy.ir.arithmetic import Expr, arange, dim
from atcpy.parsers.tensorflow.op import OpBuilder, maps

_TO_FIRST, _TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)


# --- sizes by the op of the standard -------------------------------------------------------------------


@maps("ResizeBilinear", "ResizeBicubic", "ResizeNearestNeighbor")
def resize(b: OpBuilder) -> Value:
    """Resize, with TensorFlow's rounding of coordinates"""
    corners, centers = b.bool_attr("align_corners"), b.bool_attr("half_pixel_centers")
    if corners and centers:
        raise b.invalid("align_corners and half_pixel_centers are both set")
    attrs: dict[str, object]
    match b.node.op:
        case "ResizeNearestNeighbor":
            attrs = {"mode": "nearest", "nearest_mode": "round_prefer_ceil" if corners else "floor"}
        case "ResizeBilinear":
            attrs = {"mode": "linear"}
        case _ if centers:
            attrs = {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1}
        case _:
            attrs = {"mode": "cubic", "cubic_coeff_a": -0.75}
    mode = "tf_align_corners" if corners else "tf_asymmetric"
    if centers:
        mode = "tf_half_pixel_for_nn" if attrs["mode"] == "nearest" else "tf_half_pixel"
    x = b.transpose(_image(b), _TO_FIRST)
    if attrs["mode"] != "nearest":
        x = b.cast(x, DType.FLOAT32)
    return b.transpose(_resized(b, x, {"coordinate_transformation_mode": mode, **attrs}), _TO_LAST)


def _image(b: OpBuilder) -> Value:
    """Input 0. Raises ModelInvalid if it has not four dims."""
    if b.rank(0) != 4:
        raise ModelInvalid("EZ8888", f"an image of {b.rank(0)} dims", where=b.where)
    return b.input(0)


def _resized(b: OpBuilder, x: Value, attrs: dict[str, object]) -> Value:
    """Resize of the last two of four dims to the sizes of input 1; by a number for each dim where these are known, for
    such a node lets Transposes pass.
    """
    asked, shape = _known_sizes(b), b.shape_of(x)
    to = [item for item in asked or () if isinstance(item, int)]
    of = [item for item in shape[2:] if isinstance(item, int)]
    if any(item < 1 for item in to):
        raise b.invalid(f"an image of {to}")
    if len(to) == 2 and all(isinstance(item, int) for item in shape[:2]):
        return b.op("Resize", x, None, None, b.const([*(int(str(item)) for item in shape[:2]), *to]), **attrs)
    if len(to) == len(of) == 2 and 0 not in of:
        scales = [1, 1, *map(_scale, of, to)]
        return b.op("Resize", x, None, b.const(scales, DType.FLOAT32), **attrs)
    return b.op("Resize", x, None, None, b.int64_input(1), axes=(2, 3), **attrs)


def _known_sizes(b: OpBuilder) -> tuple[object, ...] | None:
    """The height and the width that input 1 asks for, as far as they are known."""
    sizes = b.known(b.input(1))
    if sizes is not None and len(sizes) != 2:
        raise ModelInvalid("EZ8888", f"{len(sizes)} sizes for two dims", where=b.where)
    return sizes


def _scale(of: int, to: int) -> float:
    """A float32 by which a size becomes the other one, rounded down."""
    scale = np.float32(to) / np.float32(of)
    if math.floor(np.float32(of) * scale) < to:
        scale = np.nextafter(scale, np.float32(np.inf))
    return float(scale)


# --- sizes by matrices of weights ------------------------------------------------------------------------


@maps("ResizeArea")
def resize_area(b: OpBuilder) -> Value:
    """MatMul with the part that each pixel has in each result, for rows and columns"""

    def weights(axis: int, length: Expr, result: Expr) -> Expr:
        sizes = [part.cast(DType.FLOAT32) for part in (length, result)]
        scale = sizes[0] / sizes[1]
        if b.bool_attr("align_corners"):
            inner = (sizes[0] - 1) / (sizes[1] - 1).max(1)
            scale = inner.where(sizes[1] > 1, scale)
        begin = arange(b, length.value)
        end = (begin + 1).where(begin < sizes[0] - 1, float(np.finfo(np.float32).max))
        at = arange(b, result.value).unsqueeze(1)
        return (end.min((at + 1) * scale) - begin.max(at * scale)).max(0) / scale

    return _mixed(b, weights)


def _lanczos(radius: float) -> Callable[[Expr], Expr]:
    def kernel(x: Expr) -> Expr:
        angle = x * math.pi
        wave = angle.sin() * (angle / radius).sin() * radius / (angle * angle).max(1e-30)
        one = wave * 0 + 1
        return one.where(x <= 1e-3, wave.where(x <= radius, 0))

    return kernel


def _gaussian(x: Expr) -> Expr:
    return (x * x * (-1 / (2 * 0.5**2))).exp().where(x < 1.5, 0)


def _box(x: Expr) -> Expr:
    return (x * 0 + 1).where(x < 0.5, (x * 0 + 0.5).where(x.equals(0.5), 0))


def _keys_cubic(x: Expr) -> Expr:
    far = ((x * -0.5 + 2.5) * x - 4) * x + 2
    near = (x * 1.5 - 2.5) * x * x + 1
    return near.where(x < 1, far.where(x < 2, 0))


def _mitchell_cubic(x: Expr) -> Expr:
    far = ((x * (-7 / 18) + 2) * x - 10 / 3) * x + 16 / 9
    near = (x * (7 / 6) - 2) * x * x + 8 / 9
    return near.where(x < 1, far.where(x < 2, 0))


_KERNELS: dict[str, Callable[[Expr], Expr]] = {
    "lanczos1": _lanczos(1),
    "lanczos3": _lanczos(3),
    "lanczos5": _lanczos(5),
    "gaussian": _gaussian,
    "box": _box,
    "triangle": lambda x: (1 - x).max(0),
    "keyscubic": _keys_cubic,
    "mitchellcubic": _mitchell_cubic,
}


@maps("ScaleAndTranslate")
def scale_and_translate(b: OpBuilder) -> Value:
    """MatMul with the filter's weights, for rows and columns"""
    kernel = _KERNELS.get(b.text_attr("kernel_type"))
    if kernel is None:
        raise b.invalid(f"kernel_type: {b.text_attr('kernel_type')}")

    def weights(axis: int, length: Expr, result: Expr) -> Expr:
        scale, shift = (Expr(b, b.op("Gather", b.input(index), b.const(axis))) for index in (2, 3))
        inverse = 1 / scale
        at = (arange(b, result.value).unsqueeze(1) + 0.5) * inverse - inverse * shift
        stretch = inverse.max(1) if b.bool_attr("antialias") else inverse * 0 + 1
        each = kernel(abs(arange(b, length.value) + 0.5 - at) * (1 / stretch))
        total = Expr(b, b.op("ReduceSum", each.value, b.const([1]), keepdims=1))
        is_small = abs(total) < 1000 * float(np.finfo(np.float32).tiny)
        each = each / (total * 0 + 1).where(is_small, total)
        outside = (at < 0) | (at > length.cast(DType.FLOAT32))
        return (each * 0).where(outside, each)

    return _mixed(b, weights)


def _mixed(b: OpBuilder, weights: Callable[[int, Expr, Expr], Expr]) -> Value:
    """Rows and columns of images, mixed by a matrix each: by axis, the size, and the size asked for by input 1."""
    x = b.transpose(b.cast(_image(b), DType.FLOAT32), _TO_FIRST)
    asked = b.int64_input(1)
    known = _known_sizes(b) or (None, None)
    matrices = []
    for axis, to in enumerate(known):
        result = b.const(to) if isinstance(to, int) else b.op("Gather", asked, b.const(axis))
        matrices.append(weights(axis, dim(b, x, axis + 2), Expr(b, result)).value)
    rows = b.op("MatMul", matrices[0], x)
    return b.transpose(b.op("MatMul", rows, b.transpose(matrices[1], (1, 0))), _TO_LAST)


# --- colours -----------------------------------------------------------------------------------------------


@maps("RGBToHSV")
def rgb_to_hsv(b: OpBuilder) -> Value:
    """Its formula"""
    return _from_rgb(b, b.input(0))[0]


@maps("HSVToRGB")
def hsv_to_rgb(b: OpBuilder) -> Value:
    """Its formula"""
    return _to_rgb(b, b.input(0))


@maps("AdjustHue")
def adjust_hue(b: OpBuilder) -> Value:
    """By way of hue, saturation and value"""
    _, h, s, v = _from_rgb(b, b.cast(b.input(0), DType.FLOAT32))
    turned = h + Expr(b, b.input(1))
    return b.cast(_joined_rgb(b, turned - turned.floor(), s, v), b.dtype(0))


@maps("AdjustSaturation")
def adjust_saturation(b: OpBuilder) -> Value:
    """By way of hue, saturation and value"""
    _, h, s, v = _from_rgb(b, b.cast(b.input(0), DType.FLOAT32))
    return b.cast(_joined_rgb(b, h, (s * Expr(b, b.input(1))).clip(0, 1), v), b.dtype(0))


@maps("AdjustContrastv2")
def adjust_contrast(b: OpBuilder) -> Value:
    """(x − mean) · factor + mean, the mean being that of each image's channel"""
    x = b.cast(b.input(0), DType.FLOAT32)
    mean = Expr(b, b.op("ReduceMean", x, b.const([-3, -2]), keepdims=1))
    changed = (Expr(b, x) - mean) * Expr(b, b.input(1)) + mean
    return b.cast(changed.value, b.dtype(0))


def _channels(b: OpBuilder, x: Value) -> list[Expr]:
    return [Expr(b, part) for part in b.ops("Split", x, outputs=3, axis=-1, num_outputs=3)]


def _from_rgb(b: OpBuilder, x: Value) -> tuple[Value, Expr, Expr, Expr]:
    """Hue, saturation and value, joined and each for itself."""
    red, green, blue = _channels(b, x)
    v = red.max(green).max(blue)
    span = v - red.min(green).min(blue)
    is_grey = span <= 0
    scale = 1 / (span * 0 + 1).where(is_grey, span) * (1 / 6)
    h = ((blue - red) * scale + 2 / 6).where(green.equals(v), (red - green) * scale + 4 / 6)
    h = ((green - blue) * scale).where(red.equals(v), h)
    h = (h * 0).where(is_grey, h)
    h = (h + 1).where(h < 0, h)
    s = (span / (v * 0 + 1).where(v <= 0, v)).where(v > 0, 0)
    return b.op("Concat", h.value, s.value, v.value, axis=-1), h, s, v


def _to_rgb(b: OpBuilder, x: Value) -> Value:
    return _joined_rgb(b, *_channels(b, x))


def _joined_rgb(b: OpBuilder, h: Expr, s: Expr, v: Expr) -> Value:
    sector = h * 6
    parts = [(abs(sector - 3) - 1), (2 - abs(sector - 2)), (2 - abs(sector - 4))]
    colours = [((1 - s) + s * part.clip(0, 1)) * v for part in parts]
    return b.op("Concat", *[colour.value for colour in colours], axis=-1)
