"""Images: new sizes, colours, contrast."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.formula import Formula, counting, size
from atcpy.parsers.tensorflow.op import Op, maps

_TO_FIRST, _TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)


# --- sizes by the op of the standard -------------------------------------------------------------------


@maps("ResizeBilinear", "ResizeBicubic", "ResizeNearestNeighbor")
def resize(op: Op) -> Value:
    """Resize, with TensorFlow's rounding of places"""
    corners, centers = op.bool_attr("align_corners"), op.bool_attr("half_pixel_centers")
    if corners and centers:
        raise ModelInvalid("E13014", "align_corners and half_pixel_centers are both set", where=op.where)
    attrs: dict[str, object]
    match op.node.op:
        case "ResizeNearestNeighbor":
            attrs = {"mode": "nearest", "nearest_mode": "round_prefer_ceil" if corners else "floor"}
        case "ResizeBilinear":
            attrs = {"mode": "linear"}
        case _ if centers:
            attrs = {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1}
        case _:
            attrs = {"mode": "cubic", "cubic_coeff_a": -0.75}
    places = "tf_align_corners" if corners else "tf_asymmetric"
    if centers:
        places = "tf_half_pixel_for_nn" if attrs["mode"] == "nearest" else "tf_half_pixel"
    x = op.transpose(_image(op), _TO_FIRST)
    if attrs["mode"] != "nearest":
        x = op.cast(x, DType.FLOAT32)
    return op.transpose(_resized(op, x, {"coordinate_transformation_mode": places, **attrs}), _TO_LAST)


def _image(op: Op) -> Value:
    """Input 0. Raises ModelInvalid if it has not four dims."""
    if op.rank(0) != 4:
        raise ModelInvalid("EZ8888", f"an image of {op.rank(0)} dims", where=op.where)
    return op.input(0)


def _resized(op: Op, x: Value, attrs: dict[str, object]) -> Value:
    """Resize of the last two of four dims to the sizes of input 1; by a number for each dim where these are known, for
    such a node lets Transposes pass.
    """
    asked, shape = op.known(op.input(1)), op.shape_of(x)
    if asked is not None and len(asked) != 2:
        raise ModelInvalid("EZ8888", f"{len(asked)} sizes for two dims", where=op.where)
    to = [item for item in asked or () if isinstance(item, int)]
    of = [item for item in shape[2:] if isinstance(item, int)]
    if any(item < 1 for item in to):
        raise ModelInvalid("E13014", f"an image of {to}", where=op.where)
    if len(to) == 2 and all(isinstance(item, int) for item in shape[:2]):
        return op.add("Resize", x, None, None, op.const([*(int(str(item)) for item in shape[:2]), *to]), **attrs)
    if len(to) == len(of) == 2 and 0 not in of:
        scales = [1, 1, *map(_scale, of, to)]
        return op.add("Resize", x, None, op.const(scales, DType.FLOAT32), **attrs)
    return op.add("Resize", x, None, None, op.cast(op.input(1), DType.INT64), axes=(2, 3), **attrs)


def _scale(of: int, to: int) -> float:
    """A float32 by which a size becomes the other one, rounded down."""
    scale = np.float32(to) / np.float32(of)
    if math.floor(np.float32(of) * scale) < to:
        scale = np.nextafter(scale, np.float32(np.inf))
    return float(scale)


# --- sizes by matrices of weights ------------------------------------------------------------------------


@maps("ResizeArea")
def resize_area(op: Op) -> Value:
    """MatMul with the part that each pixel has in each result, for rows and columns"""

    def weights(axis: int, length: Formula, result: Formula) -> Formula:
        sizes = [part.cast(DType.FLOAT32) for part in (length, result)]
        scale = sizes[0] / sizes[1]
        if op.bool_attr("align_corners"):
            inner = (sizes[0] - 1) / (sizes[1] - 1).most(1)
            scale = inner.where(sizes[1] > 1, scale)
        begin = counting(op, length.value)
        end = (begin + 1).where(begin < sizes[0] - 1, float(np.finfo(np.float32).max))
        at = counting(op, result.value).unsqueeze(1)
        return (end.least((at + 1) * scale) - begin.most(at * scale)).most(0) / scale

    return _mixed(op, weights)


def _lanczos(radius: float) -> Callable[[Formula], Formula]:
    def kernel(x: Formula) -> Formula:
        turn = x * math.pi
        wave = turn.sin() * (turn / radius).sin() * radius / (turn * turn).most(1e-30)
        one = wave * 0 + 1
        return one.where(x <= 1e-3, wave.where(x <= radius, 0))

    return kernel


def _gaussian(x: Formula) -> Formula:
    return (x * x * (-1 / (2 * 0.5**2))).exp().where(x < 1.5, 0)


def _box(x: Formula) -> Formula:
    return (x * 0 + 1).where(x < 0.5, (x * 0 + 0.5).where(x.equals(0.5), 0))


def _keys_cubic(x: Formula) -> Formula:
    far = ((x * -0.5 + 2.5) * x - 4) * x + 2
    near = (x * 1.5 - 2.5) * x * x + 1
    return near.where(x < 1, far.where(x < 2, 0))


def _mitchell_cubic(x: Formula) -> Formula:
    far = ((x * (-7 / 18) + 2) * x - 10 / 3) * x + 16 / 9
    near = (x * (7 / 6) - 2) * x * x + 8 / 9
    return near.where(x < 1, far.where(x < 2, 0))


_KERNELS: dict[str, Callable[[Formula], Formula]] = {
    "lanczos1": _lanczos(1),
    "lanczos3": _lanczos(3),
    "lanczos5": _lanczos(5),
    "gaussian": _gaussian,
    "box": _box,
    "triangle": lambda x: (1 - x).most(0),
    "keyscubic": _keys_cubic,
    "mitchellcubic": _mitchell_cubic,
}


@maps("ScaleAndTranslate")
def scale_and_translate(op: Op) -> Value:
    """MatMul with the filter's weights, for rows and columns"""
    kernel = _KERNELS.get(op.text_attr("kernel_type"))
    if kernel is None:
        raise ModelInvalid("E13014", f"kernel_type: {op.text_attr('kernel_type')}", where=op.where)

    def weights(axis: int, length: Formula, result: Formula) -> Formula:
        scale, shift = (Formula(op, op.add("Gather", op.input(place), op.const(axis))) for place in (2, 3))
        inverse = 1 / scale
        at = (counting(op, result.value).unsqueeze(1) + 0.5) * inverse - inverse * shift
        stretch = inverse.most(1) if op.bool_attr("antialias") else inverse * 0 + 1
        each = kernel(abs(counting(op, length.value) + 0.5 - at) * (1 / stretch))
        total = Formula(op, op.add("ReduceSum", each.value, op.const([1]), keepdims=1))
        is_small = abs(total) < 1000 * float(np.finfo(np.float32).tiny)
        each = each / (total * 0 + 1).where(is_small, total)
        outside = (at < 0) | (at > length.cast(DType.FLOAT32))
        return (each * 0).where(outside, each)

    return _mixed(op, weights)


def _mixed(op: Op, weights: Callable[[int, Formula, Formula], Formula]) -> Value:
    """Rows and columns of images, mixed by a matrix each: by axis, the size, and the size asked for by input 1."""
    x = op.transpose(op.cast(_image(op), DType.FLOAT32), _TO_FIRST)
    asked = op.cast(op.input(1), DType.INT64)
    matrices = []
    for axis in range(2):
        to = (op.known(op.input(1)) or (None, None))[axis]
        result = op.const(to) if isinstance(to, int) else op.add("Gather", asked, op.const(axis))
        matrices.append(weights(axis, size(op, x, axis + 2), Formula(op, result)).value)
    rows = op.add("MatMul", matrices[0], x)
    return op.transpose(op.add("MatMul", rows, op.transpose(matrices[1], (1, 0))), _TO_LAST)


# --- colours -----------------------------------------------------------------------------------------------


@maps("RGBToHSV")
def rgb_to_hsv(op: Op) -> Value:
    """Its formula"""
    return _from_rgb(op, op.input(0))[0]


@maps("HSVToRGB")
def hsv_to_rgb(op: Op) -> Value:
    """Its formula"""
    return _to_rgb(op, op.input(0))


@maps("AdjustHue")
def adjust_hue(op: Op) -> Value:
    """By way of hue, saturation and value"""
    _, h, s, v = _from_rgb(op, op.cast(op.input(0), DType.FLOAT32))
    turned = h + Formula(op, op.input(1))
    return op.cast(_joined_rgb(op, turned - turned.floor(), s, v), op.dtype(0))


@maps("AdjustSaturation")
def adjust_saturation(op: Op) -> Value:
    """By way of hue, saturation and value"""
    _, h, s, v = _from_rgb(op, op.cast(op.input(0), DType.FLOAT32))
    return op.cast(_joined_rgb(op, h, (s * Formula(op, op.input(1))).clip(0, 1), v), op.dtype(0))


@maps("AdjustContrastv2")
def adjust_contrast(op: Op) -> Value:
    """(x − mean) · factor + mean, the mean being that of each image's channel"""
    x = op.cast(op.input(0), DType.FLOAT32)
    mean = Formula(op, op.add("ReduceMean", x, op.const([-3, -2]), keepdims=1))
    changed = (Formula(op, x) - mean) * Formula(op, op.input(1)) + mean
    return op.cast(changed.value, op.dtype(0))


def _channels(op: Op, x: Value) -> list[Formula]:
    return [Formula(op, part) for part in op.add_many("Split", x, outputs=3, axis=-1, num_outputs=3)]


def _from_rgb(op: Op, x: Value) -> tuple[Value, Formula, Formula, Formula]:
    """Hue, saturation and value, joined and each for itself."""
    r, g, b = _channels(op, x)
    v = r.most(g).most(b)
    span = v - r.least(g).least(b)
    is_grey = span <= 0
    scale = 1 / (span * 0 + 1).where(is_grey, span) * (1 / 6)
    h = ((b - r) * scale + 2 / 6).where(g.equals(v), (r - g) * scale + 4 / 6)
    h = ((g - b) * scale).where(r.equals(v), h)
    h = (h * 0).where(is_grey, h)
    h = (h + 1).where(h < 0, h)
    s = (span / (v * 0 + 1).where(v <= 0, v)).where(v > 0, 0)
    return op.add("Concat", h.value, s.value, v.value, axis=-1), h, s, v


def _to_rgb(op: Op, x: Value) -> Value:
    return _joined_rgb(op, *_channels(op, x))


def _joined_rgb(op: Op, h: Formula, s: Formula, v: Formula) -> Value:
    turn = h * 6
    parts = [(abs(turn - 3) - 1), (2 - abs(turn - 2)), (2 - abs(turn - 4))]
    colours = [((1 - s) + s * part.clip(0, 1)) * v for part in parts]
    return op.add("Concat", *[colour.value for colour in colours], axis=-1)
