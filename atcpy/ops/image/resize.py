"""Resize: any dims by tables of source indices and weights; nearest and linear of two spatial dims by their own kernel.

Sizes and coordinates are those of ONNX Runtime, which computes in float32: ⌊10 · 0.7⌋ is 7, where ONNX's
shape functions say 6; and a tie of `nearest` can go to another pixel than float64 picks.

How integers are rounded the standard leaves open. They are cut off as ONNX Runtime does it, those of 8 and 16 bits
after its own sums in float32: where a sum should be an integer, the last bit decides. With `antialias` they are rounded
to the nearest, as ONNX's reference does; ONNX Runtime does so too, with less precision.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import NC1HWC0, DType, Engine, Format, Node, Reject, Tensor, TensorDesc, Value
from atcpy.ir.shape import Dim, StaticShape
from atcpy.ir.symbolic import is_symbolic, scaled
from atcpy.ir.tensor import Array
from atcpy.ops.core.axes import normal_axes, unnamed_dim
from atcpy.ops.core.opdef import (
    GeTypes,
    KernelCall,
    Known,
    Layout,
    OpDef,
    ParamValue,
    Perm,
    Permuted,
    register_operator,
)
from atcpy.ops.core.reference import evaluate_by_onnx, infer_by_onnx, known_constant
from atcpy.ops.core.shape_values import integers
from atcpy.ops.core.strided import item_bytes, supports_movement
from atcpy.ops.image.interpolate import (
    COORDINATES,
    MODES,
    OUTSIDE,
    ROUNDINGS,
    TENSORFLOW,
    Axis,
    Kind,
    Table,
    pairs_of,
    table_of,
)

ROI, SCALES, SIZES = 1, 2, 3
ITEMS = frozenset({1, 2, 4, 8})
FLOATS = frozenset({DType.FLOAT32, DType.FLOAT64})
MIXED = FLOATS | {DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT32, DType.INT64}
MAX_SIDE = 2**24  # what float32 counts exactly
MAX_DIMS = 5  # dims that the general kernel resizes, those between them included
MAX_PIXEL = 64  # elements of a pixel in the kernel of pictures: as many as those of a block of channels
MAX_LINE = 16384  # pixels of a row whose positions that kernel finds in each call; longer ones have them as a constant
PICTURES = {2: 2, 3: 3, 4: 2, 5: 3}  # by rank: the last dims that ONNX Runtime mixes together


class Sums(StrEnum):
    """How integers are mixed and rounded; the names are those of the kernel."""

    CUT = "cut"
    NEAREST = "nearest"
    CUT_F32 = "cut_f32"


@dataclass(frozen=True, slots=True)
class Walk:
    """What the general kernel does: elements outside of the resized dims, the tables of those from the first to the
    last, elements inside, and how integers are mixed.
    """

    outer: int
    axes: tuple[Axis, ...]
    tables: tuple[Table, ...]
    inner: int
    sums: Sums


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
    if x.shape is None:
        return infer_by_onnx(node, known)
    kind = _kind(node)
    for name, value, possible in (("mode", kind.mode, MODES), ("nearest_mode", kind.rounding, ROUNDINGS)):
        if value not in possible:
            raise ModelInvalid(
                "E13014", where=node, what=f"{name} = {value!r} is none of {', '.join(sorted(possible))}"
            )
    if _policy(node) != "stretch":
        return _infer_with_aspect_ratio(node, known)
    rank = len(x.shape)
    if _is_given(node.input(SCALES)) == _is_given(node.input(SIZES)):
        raise ModelInvalid("EZ8888", where=node, what="one of scales and sizes must be given, and not both")
    axes = _axes(node, rank)
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


def _policy(node: Node) -> str:
    """How the ratio of the sides is kept; scales leave nothing to keep."""
    return node.str_attr("keep_aspect_ratio_policy", "stretch") if _is_given(node.input(SIZES)) else "stretch"


def _infer_with_aspect_ratio(node: Node, known: Known) -> Sequence[TensorDesc]:
    """One scale for all resized dims, the least or the largest that the sizes ask for."""
    x, sizes = node.operand(0).desc, known(node.input(SIZES))
    assert x.shape is not None
    dims = list(x.shape)
    axes = _axes(node, len(dims))
    for axis in axes:
        dims[axis] = unnamed_dim(node, axis)
    if x.is_static and sizes is not None and all(isinstance(size, int) for size in sizes):
        scale = _common_scale(node, x.static_shape, [size for size in sizes if isinstance(size, int)])
        for axis in axes:
            dims[axis] = math.floor(scale * x.static_shape[axis] + 0.5)
    return [TensorDesc.plain(x.dtype, tuple(dims))]


def _common_scale(node: Node, shape: StaticShape, sizes: Sequence[int]) -> float:
    """The scale that keeps the ratio of the sides. Raises ModelInvalid if sizes do not fit the axes."""
    axes, policy = _axes(node, len(shape)), _policy(node)
    if policy not in {"not_larger", "not_smaller"}:
        raise ModelInvalid("E13014", where=node, what=f"keep_aspect_ratio_policy = {policy!r}")
    if len(sizes) != len(axes) or any(shape[axis] < 1 for axis in axes):
        raise ModelInvalid("EZ8888", where=node, what=f"{len(sizes)} sizes for {len(axes)} dims that are not empty")
    ratios = [size / shape[axis] for size, axis in zip(sizes, axes, strict=True)]
    return min(ratios) if policy == "not_larger" else max(ratios)


def _axes(node: Node, rank: int) -> tuple[int, ...]:
    return normal_axes(node, node.ints_attr("axes", range(rank)), rank)


def _scaled(node: Node, axis: int, size: Dim, scale: float) -> Dim:
    if not 0 < scale < math.inf:
        raise ModelInvalid("EZ8888", where=node, what=f"scale {scale} of dim {axis} must be positive and finite")
    if not isinstance(size, int):
        return size if scale == 1 else unnamed_dim(node, axis)
    if is_symbolic(size):
        return size * int(scale) if scale == int(scale) else scaled(size, scale)
    return math.floor(np.float32(size) * np.float32(scale))


def supports_resize(node: Node) -> Iterable[Reject]:
    """Constant scales or known sizes, and a formula that the tables know."""
    yield from supports_movement(node)
    x, y, mode = node.operand(0).desc, node.output.desc, _kind(node).mode
    if item_bytes(x.dtype) not in ITEMS or (mode != "nearest" and x.dtype not in MIXED):
        yield Reject("dtype", node.name, x.dtype.long)
    coordinates = _kind(node).coordinates
    if coordinates not in COORDINATES or (coordinates == "tf_crop_and_resize" and _roi(node) is None):
        yield Reject("coordinates", node.name, coordinates)
    if _is_given(node.input(SCALES)) and _scales(node) is None:
        yield Reject("scales-not-constant", node.name)
        return
    if not x.is_static or not y.is_static:
        return
    if any(dim == 0 or dim > MAX_SIDE for dim in (*x.static_shape, *y.static_shape)):
        yield Reject("size", node.name, "a dim is empty or very large")
    elif image_reason(node) is not None and len(_resized(node)) > MAX_DIMS:
        yield Reject("rank", node.name, f"{len(_resized(node))} dims from the first to the last resized")


def image_reason(node: Node) -> Reject | None:
    """Why the kernel of two spatial dims cannot run on blocks of channels, or None if it can."""
    x, y = node.operand(0).desc, node.output.desc
    if reason := _picture_reason(node):
        return reason
    if len(x.static_shape) != 4:
        return Reject("rank", node.name, f"{len(x.static_shape)} dims")
    if x.static_shape[:2] != y.static_shape[:2] or (not _keeps_sizes(node) and dim_scales(node)[:2] != (1.0, 1.0)):
        return Reject("batch-or-channels-resized", node.name)
    return None


def _picture_reason(node: Node) -> Reject | None:
    """Why the kernel of two spatial dims cannot run, whatever the dims are."""
    x, kind = node.operand(0).desc, _kind(node)
    if kind.antialias and kind.mode != "nearest":
        return Reject("antialias", node.name)
    if kind.mode not in {"nearest", "linear"} or kind.coordinates == "tf_crop_and_resize":
        return Reject("mode", node.name, kind.mode)
    if kind.mode == "linear" and x.dtype is not DType.FLOAT32:
        return Reject("dtype", node.name, x.dtype.long)
    return None


def _picture(node: Node) -> range | None:
    """The one or two dims that are resized as those of a picture, whose pixels are the dims behind; None: by tables."""
    if image_reason(node) is None:
        return range(2, 4)
    if _picture_reason(node) is not None:
        return None
    resized, result = _resized(node), node.output.desc.static_shape
    if not 1 <= len(resized) <= 2 or result[resized.stop - 1] > MAX_LINE:
        return None
    return resized if math.prod(result[resized.stop :]) <= MAX_PIXEL else None


def _keeps_sizes(node: Node) -> bool:
    """Are the scales the ratios of the sizes, and those not told by another rule?"""
    return _scales(node) is None and _policy(node) == "stretch"


def _kind(node: Node) -> Kind:
    return Kind(
        mode=node.str_attr("mode", "nearest"),
        coordinates=node.str_attr("coordinate_transformation_mode", "half_pixel"),
        rounding=node.str_attr("nearest_mode", "round_prefer_floor"),
        antialias=node.int_attr("antialias", 0) != 0,
        exclude_outside=node.int_attr("exclude_outside", 0) != 0,
        cubic_a=node.float_attr("cubic_coeff_a", -0.75),
    )


def _roi(node: Node) -> tuple[tuple[float, float], ...] | None:
    """The part of each dim that is taken, from 0 to 1; None if it is not constant or does not fit."""
    value, shape = node.input(ROI), node.operand(0).desc.shape
    if value is None or value.tensor is None or shape is None:
        return None
    rank = len(shape)
    axes = _axes(node, rank)
    if value.desc.elements != 2 * len(axes):
        return None
    flat = [float(number) for number in value.array.reshape(-1)]
    by_axis = dict(zip(axes, zip(flat[: len(axes)], flat[len(axes) :], strict=True), strict=True))
    return tuple(by_axis.get(axis, (0.0, 1.0)) for axis in range(rank))


def dim_scales(node: Node) -> tuple[float, ...]:
    """The scale of each dim: what the model states, else the ratio of the sizes, in float32."""
    x, y = node.operand(0).desc.static_shape, node.output.desc.static_shape
    axes, stated = _axes(node, len(x)), _scales(node)
    if stated is None and _policy(node) != "stretch":
        sizes = integers(known_constant(node.input(SIZES)))
        assert sizes is not None, f"{node.name}: sizes are known, or the shape would not be"
        stated = (_common_scale(node, x, sizes),) * len(axes)
    if stated is None:
        return tuple(float(np.float32(b) / np.float32(a)) if a else 1.0 for a, b in zip(x, y, strict=True))
    by_axis = dict(zip(axes, stated, strict=True))
    return tuple(by_axis.get(axis, 1.0) for axis in range(len(x)))


def _sums(node: Node) -> Sums:
    kind, dtype = _kind(node), node.operand(0).desc.dtype
    if not dtype.is_int or kind.mode == "nearest":
        return Sums.CUT
    if kind.antialias:
        return Sums.NEAREST
    return Sums.CUT_F32 if kind.mode == "linear" and dtype.bits <= 16 else Sums.CUT


def _axes_of_all(node: Node) -> list[Axis]:
    x, y = node.operand(0).desc.static_shape, node.output.desc.static_shape
    whole = ((0.0, 1.0),) * len(x)
    roi = (_roi(node) or whole) if _kind(node).coordinates == "tf_crop_and_resize" else whole
    return [Axis(*each) for each in zip(x, y, dim_scales(node), *zip(*roi, strict=True), strict=True)]


def _resized(node: Node) -> range:
    """The dims from the first to the last that is resized; all of a picture's where its dims are mixed together."""
    moved = [index for index, axis in enumerate(_axes_of_all(node)) if axis != Axis(axis.size, axis.size, 1.0)]
    if not moved:
        return range(0)
    rank = len(node.operand(0).desc.static_shape)
    together = range(rank - PICTURES.get(rank, 0), rank)
    if _sums(node) is Sums.CUT_F32 and moved[0] in together:
        return together
    return range(moved[0], moved[-1] + 1)


def _walk(node: Node) -> Walk:
    x, kind, sums, resized = node.operand(0).desc.static_shape, _kind(node), _sums(node), _resized(node)
    axes = tuple(_axes_of_all(node)[index] for index in resized)
    if not axes:
        return Walk(math.prod(x), (), (), 1, sums)
    if sums is Sums.CUT_F32:
        tables = tuple(pairs_of(axis, kind) for axis in axes)
    else:
        if sums is Sums.NEAREST and _keeps_sizes(node):
            axes = tuple(replace(axis, scale=axis.result / axis.size) for axis in axes)
        real = np.float64 if sums is Sums.NEAREST else np.float32
        kinds = [replace(kind, antialias=kind.antialias and axis.scale < 1) for axis in axes]
        tables = tuple(table_of(axis, each, real) for axis, each in zip(axes, kinds, strict=True))
    return Walk(math.prod(x[: resized.start]), axes, tables, math.prod(x[resized.stop :]), sums)


def layout_resize(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """In 5D: channels are not touched."""
    if at_hand[0] != NC1HWC0:
        return Reject("no-blocked-input", node.name)
    return image_reason(node) or Layout((NC1HWC0, *[None] * (node.input_count - 1)), (NC1HWC0,))


def lower_resize(node: Node) -> Iterable[KernelCall]:
    """One launch; the planes of blocks of channels count as a batch, and a line as a picture of one row."""
    picture = _picture(node)
    if picture is None:
        yield lower_by_tables(node)
        return
    x, y = node.operand(0), node.output
    shape, result = x.desc.memory_shape, y.desc.memory_shape
    scales = tuple(0.0 for _ in picture) if _keeps_sizes(node) else dim_scales(node)[picture.start : picture.stop]
    missing = 2 - len(picture)
    h, w = (1,) * missing + tuple(shape[picture.start : picture.stop])
    oh, ow = (1,) * missing + tuple(result[picture.start : picture.stop])
    scale_h, scale_w = (0.0,) * missing + scales
    params: dict[str, ParamValue] = {
        "outer": math.prod(shape[: picture.start]), "h": h, "w": w, "oh": oh, "ow": ow,
        "c0": math.prod(shape[picture.stop :]), "item": item_bytes(x.desc.dtype),
        "scale_h": scale_h, "scale_w": scale_w,
        "mode": node.str_attr("mode", "nearest"),
        "coordinates": node.str_attr("coordinate_transformation_mode", "half_pixel"),
        "rounding": node.str_attr("nearest_mode", "round_prefer_floor"),
    }  # fmt: skip
    yield KernelCall("resize2d", (x,), (y,), params)


def evaluate_resize(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """By the standard's definition; by tables where the coordinates are ours, and where integers are rounded."""
    x, y, kind = node.operand(0).desc, node.output.desc, _kind(node)
    is_ours = kind.coordinates in TENSORFLOW or (x.dtype.is_int and kind.mode != "nearest")
    if not is_ours or not x.is_static or not y.is_static or any(supports_resize(node)):
        return evaluate_by_onnx(node, arrays)
    array = arrays[0]
    assert array is not None
    if 0 in (*array.shape, *y.static_shape):
        return [np.zeros(y.static_shape, array.dtype)]
    walk = _walk(node)
    cells = array.reshape(walk.outer, *[axis.size for axis in walk.axes], walk.inner)
    mixed = _mixed_in_float32(cells, walk) if walk.sums is Sums.CUT_F32 else _mixed(cells, walk, kind)
    if x.dtype.is_int and kind.mode != "nearest":
        mixed = _as_integers(mixed, walk.sums, array.dtype)
    for axis, table in enumerate(walk.tables, 1):
        outside = table.indices[:, 0] == OUTSIDE
        mixed[(slice(None),) * axis + (outside,)] = node.float_attr("extrapolation_value", 0.0)
    return [mixed.reshape(y.static_shape).astype(array.dtype)]


def _mixed(cells: Array, walk: Walk, kind: Kind) -> Array:
    """Dim by dim in float64; of `nearest` the elements as they are."""
    for axis, table in enumerate(walk.tables, 1):
        taps = np.moveaxis(np.take(cells, table.indices, axis), axis + 1, -1)
        weights = table.weights.reshape(-1, *[1] * (cells.ndim - axis - 1), table.weights.shape[1])
        cells = taps[..., 0] if kind.mode == "nearest" else (taps * weights).sum(-1)
    return cells


def _mixed_in_float32(cells: Array, walk: Walk) -> Array:
    """Products one after the other, the last dim first, each of the weights from the last dim on."""
    total = np.zeros((), np.float32)
    for number, taps in enumerate(itertools.product(*(range(table.indices.shape[1]) for table in walk.tables))):
        weights, picked = np.ones((1,), np.float32), cells
        for axis, (table, tap) in enumerate(zip(walk.tables, taps, strict=True), 1):
            picked = picked.take(table.indices[:, tap], axis)
        for table, tap in zip(reversed(walk.tables), reversed(taps), strict=True):
            weights = weights * table.weights[:, tap].astype(np.float32).reshape(-1, *[1] * weights.ndim)
        product = weights * picked.astype(np.float32)
        total = product if number == 0 else total + product
    return total if walk.tables else cells


def _as_integers(mixed: Array, sums: Sums, dtype: np.dtype[Any]) -> Array:
    """Round, and stay within the bounds of the type."""
    info = np.iinfo(dtype)
    rounded = (np.rint if sums is Sums.NEAREST else np.trunc)(mixed)
    inside = np.clip(rounded, float(info.min), np.nextafter(float(info.max), 0))
    return np.where(rounded >= float(info.max), info.max, inside.astype(dtype)).astype(dtype)


def lower_by_tables(node: Node) -> KernelCall:
    """One launch of `interp`, whose tables are constants."""
    x, kind, walk = node.operand(0), _kind(node), _walk(node)
    missing = MAX_DIMS - len(walk.tables)
    tables = [table_of(Axis(1, 1, 1.0), kind)] * missing + list(walk.tables)
    indices = np.concatenate([table.indices.reshape(-1) for table in tables])
    src = [x, _table(node, "places", indices)]
    if kind.mode != "nearest":
        is_float32 = x.desc.dtype is DType.FLOAT32 or walk.sums is Sums.CUT_F32
        weights = np.concatenate([table.weights.reshape(-1) for table in tables])
        src.append(_table(node, "weights", weights.astype(np.float32 if is_float32 else np.float64)))
    fill = np.zeros(8, np.uint8)
    bits = np.asarray([node.float_attr("extrapolation_value", 0.0)]).astype(x.desc.dtype.numpy).view(np.uint8)
    fill[: bits.size] = bits
    params: dict[str, ParamValue] = {
        "outer": walk.outer, "inner": walk.inner, "item": item_bytes(x.desc.dtype), "sums": str(walk.sums),
        "fill": int(fill.view(np.int64)[0]),
        "in": [1] * missing + [axis.size for axis in walk.axes],
        "out": [1] * missing + [axis.result for axis in walk.axes],
        "taps": [table.indices.shape[1] for table in tables],
    }  # fmt: skip
    return KernelCall("interp", tuple(src), (node.output,), params)


def _table(node: Node, name: str, table: Array) -> Value:
    assert node.graph is not None
    value = node.graph.add_const(Tensor.of(table), f"{node.name}_{name}", before=node)
    value.producer.sources, value.producer.engine = node.sources, Engine.GE_LOCAL
    return value


def permute_resize(node: Node, perm: Perm) -> Permuted | None:
    """One number a dim; the first two dims must stay as they are, for that is what runtimes can do."""
    x, y = node.operand(0).desc.shape, node.output.desc.shape
    if x is None or y is None or node.attrs.get("axes") or any(x[axis] != y[axis] for axis in perm[:2]):
        return None
    if node.str_attr("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        return None
    index = 3 if node.input(3) is not None else 2
    numbers = node.input(index)
    if numbers is None or numbers.tensor is None or numbers.desc.elements != len(perm):
        return None
    return Permuted({}, {index: numbers.array[list(perm)]})


_GE_TYPES = {"nearest": "ResizeNearestNeighborV2", "linear": "ResizeBilinearV2"}


def type_in_ge(node: Node) -> str:
    """GE has an op for each mode."""
    return _GE_TYPES.get(node.str_attr("mode", "nearest"), "Resize")


register_operator(
    OpDef(
        name="Resize",
        operand_shapes=lambda node: {SCALES: "scaled", SIZES: "sized"},
        ge_type=GeTypes(("Resize", *_GE_TYPES.values()), type_in_ge),
        infer=infer_resize,
        evaluate=evaluate_resize,
        engines={Engine.VECTOR: supports_resize},
        layout=layout_resize,
        lower=lower_resize,
        data=(0,),
        permute=permute_resize,
    )
)
