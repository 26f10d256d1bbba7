"""Resize of the two spatial dims: nearest and linear.

Sizes and places are those of ONNX Runtime, which computes in float32: ⌊10 · 0.7⌋ is 7, where ONNX's
shape functions say 6; and a tie of `nearest` can go to another pixel than float64 picks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import NC1HWC0, DType, Engine, Format, Node, Reject, TensorDesc, Value
from atcpy.ir.shape import Dim
from atcpy.ops.axes import normal_axes, unnamed_dim
from atcpy.ops.opdef import KernelCall, Known, Layout, OpDef, ParamValue, register_operator
from atcpy.ops.reference import infer_by_onnx
from atcpy.ops.strided import item_bytes, supports_movement

SCALES, SIZES = 2, 3
COORDINATES = frozenset({"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"})
ITEMS = frozenset({1, 2, 4, 8})
MAX_SIDE = 2**24  # what float32 counts exactly


def _is_given(value: Value | None) -> bool:
    """Exporters give an empty tensor for an operand that is left out."""
    return value is not None and value.desc.shape != (0,)


def _scales(node: Node) -> tuple[float, ...] | None:
    """The constant scales in float32, or None if there are none."""
    value = node.input(SCALES)
    if value is None or value.tensor is None:
        return None
    return tuple(float(scale) for scale in value.array.astype(np.float32).reshape(-1)) or None


def infer_resize(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The sizes that operand 3 asks for, or ⌊size · scale⌋."""
    x = node.operand(0).desc
    if x.shape is None or node.str_attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        return infer_by_onnx(node, known)
    rank = len(x.shape)
    if _is_given(node.input(SCALES)) == _is_given(node.input(SIZES)):
        raise ModelInvalid("EZ8888", where=node, what="one of scales and sizes must be given, and not both")
    axes = normal_axes(node, node.ints_attr("axes", range(rank)), rank)
    scales, sizes = _scales(node), known(node.input(SIZES)) if _is_given(node.input(SIZES)) else None
    dims = list(x.shape)
    for index, axis in enumerate(axes):
        if sizes is not None and len(sizes) == len(axes):
            dims[axis] = sizes[index]
        elif scales is not None and len(scales) == len(axes):
            dims[axis] = _scaled(node, axis, x.shape[axis], scales[index])
        elif sizes is None and scales is None:
            dims[axis] = unnamed_dim(node, axis)
        else:
            raise ModelInvalid("EZ8888", where=node, what=f"scales or sizes are not one for each of {len(axes)} dims")
    return [TensorDesc.plain(x.dtype, tuple(dims))]


def _scaled(node: Node, axis: int, size: Dim, scale: float) -> Dim:
    if not 0 < scale < math.inf:
        raise ModelInvalid("EZ8888", where=node, what=f"scale {scale} of dim {axis} must be positive and finite")
    if not isinstance(size, int):
        return size if scale == 1 else unnamed_dim(node, axis)
    return math.floor(np.float32(size) * np.float32(scale))


def supports_resize(node: Node) -> Iterable[Reject]:
    """Four dims of which the last two are resized, by nearest or linearly."""
    yield from supports_movement(node)
    x, y, mode = node.operand(0).desc, node.output.desc, node.str_attr("mode", "nearest")
    if mode not in {"nearest", "linear"}:
        yield Reject("mode", node.name, mode)
    if (mode == "linear" and x.dtype is not DType.FLOAT32) or item_bytes(x.dtype) not in ITEMS:
        yield Reject("dtype", node.name, x.dtype.long)
    coordinates = node.str_attr("coordinate_transformation_mode", "half_pixel")
    if coordinates not in COORDINATES:
        yield Reject("coordinates", node.name, coordinates)
    if node.int_attr("antialias", 0):
        yield Reject("antialias", node.name)
    if node.str_attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        yield Reject("aspect-ratio-kept", node.name)
    if _is_given(node.input(SCALES)) and _scales(node) is None:
        yield Reject("scales-not-constant", node.name)
        return
    if not x.is_static or not y.is_static:
        return
    if len(x.static_shape) != 4:
        yield Reject("rank", node.name, f"{len(x.static_shape)} dims")
    elif x.static_shape[:2] != y.static_shape[:2] or dim_scales(node)[:2] != (1.0, 1.0):
        yield Reject("batch-or-channels-resized", node.name)
    elif 0 in (*x.static_shape, *y.static_shape) or max(*x.static_shape[2:], *y.static_shape[2:]) > MAX_SIDE:
        yield Reject("size", node.name, "a spatial dim is empty or very large")


def dim_scales(node: Node) -> tuple[float, ...]:
    """The scale of each dim: what the model states, else the ratio of the sizes, in float32."""
    x, y = node.operand(0).desc.static_shape, node.output.desc.static_shape
    stated = _scales(node)
    if stated is None:
        return tuple(float(np.float32(b) / np.float32(a)) if a else 1.0 for a, b in zip(x, y, strict=True))
    axes = normal_axes(node, node.ints_attr("axes", range(len(x))), len(x))
    by_axis = dict(zip(axes, stated, strict=True))
    return tuple(by_axis.get(axis, 1.0) for axis in range(len(x)))


def layout_resize(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """In 5D: channels are not touched."""
    if at_hand[0] != NC1HWC0:
        return Reject("no-blocked-input", node.name)
    return Layout((NC1HWC0, *[None] * (node.input_count - 1)), (NC1HWC0,))


def lower_resize(node: Node) -> Iterable[KernelCall]:
    """One launch; the planes of blocks of channels count as a batch."""
    x, y = node.operand(0), node.output
    n, c, h, w = x.desc.memory_shape[:4]
    oh, ow = y.desc.static_shape[2:]
    _, _, scale_h, scale_w = dim_scales(node)
    params: dict[str, ParamValue] = {
        "outer": n * c, "h": h, "w": w, "oh": oh, "ow": ow, "c0": x.desc.format.c0 or 1,
        "item": item_bytes(x.desc.dtype), "scale_h": scale_h, "scale_w": scale_w,
        "mode": node.str_attr("mode", "nearest"),
        "coordinates": node.str_attr("coordinate_transformation_mode", "half_pixel"),
        "rounding": node.str_attr("nearest_mode", "round_prefer_floor"),
    }  # fmt: skip
    yield KernelCall("resize2d", (x,), (y,), params)


def type_in_ge(node: Node) -> str:
    """GE has an op for each mode."""
    nearest = node.str_attr("mode", "nearest") == "nearest"
    return "ResizeNearestNeighborV2" if nearest else "ResizeBilinearV2"


register_operator(
    OpDef(
        name="Resize",
        ge_type=type_in_ge,
        infer=infer_resize,
        engines={Engine.VECTOR: supports_resize},
        layout=layout_resize,
        lower=lower_resize,
    )
)
