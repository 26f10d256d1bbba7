"""Tables of separable interpolation: the source indices along a dim that each result combines, and their weights.

The source coordinate of a result is computed in float32, with ONNX Runtime's formulas; the weights are computed in
float64. Where integers are rounded to the nearest, coordinates are of float64, too; where narrow ones are mixed as ONNX
Runtime does it, weights are of float32 (`pairs_of`). The coordinates `tf_…` are ours: those of ONNX as TensorFlow's
kernels round them, which take the ratio of the sizes first, and look up the weights of `cubic` for 1024 distances.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from atcpy.ir.tensor import Array

OUTSIDE = -1  # the index that stands for `extrapolation_value`
MODES = frozenset({"nearest", "linear", "cubic"})
TENSORFLOW = frozenset({"tf_half_pixel", "tf_half_pixel_for_nn", "tf_align_corners", "tf_asymmetric"})
CUBIC_STEPS = 1024  # distances for which TensorFlow tabulates weights
COORDINATES = TENSORFLOW | frozenset(
    {
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
        "tf_crop_and_resize",
    }
)  # fmt: skip
ROUNDINGS = frozenset({"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})
F32 = np.float32
Real = type[np.floating[Any]]
Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Kind:
    """How Resize interpolates: its attributes."""

    mode: str
    coordinates: str
    rounding: str
    antialias: bool
    exclude_outside: bool
    cubic_a: float


@dataclass(frozen=True, slots=True)
class Axis:
    """One dim: its sizes, the scale, and the part of it that is taken, from 0 to 1."""

    size: int
    result: int
    scale: float
    start: float = 0.0
    end: float = 1.0


@dataclass(frozen=True, slots=True)
class Table:
    """Source indices and weights of each result, both [result, taps]."""

    indices: Indices
    weights: Floats


def table_of(axis: Axis, kind: Kind, real: Real = F32) -> Table:
    """The table of one dim; coordinates are numbers of the type `real`."""
    cropped = kind.coordinates == "tf_crop_and_resize"
    if axis.scale == 1 and axis.size == axis.result and not cropped:
        return _one_tap(np.arange(axis.size))
    at = _coordinates(axis, kind.coordinates, real).astype(np.float64)
    table = _taps(at, axis, kind)
    if cropped:
        table.indices[(at < 0) | (at > axis.size - 1)] = OUTSIDE
    return table


def pairs_of(axis: Axis, kind: Kind) -> Table:
    """The table of one dim of integers that ONNX Runtime mixes linearly: two indices of each result, also where its
    coordinate is an index; at a border both are the same, and each counts half. The weights are numbers of float32.
    """
    cropped = kind.coordinates == "tf_crop_and_resize"
    is_kept = axis.scale == 1 and axis.size == axis.result and not cropped
    at = np.arange(axis.size, dtype=F32) if is_kept else _coordinates(axis, kind.coordinates, F32)
    inside = np.clip(at, F32(0), F32(axis.size - 1))
    first = inside.astype(np.int32)
    indices = np.stack([first, np.minimum(first + 1, axis.size - 1)], 1).astype(np.int32)
    weights = np.abs(inside[:, None] - indices[:, ::-1].astype(F32))
    weights[indices[:, 0] == indices[:, 1]] = F32(0.5)
    if cropped:
        indices[(at < 0) | (at > axis.size - 1)] = OUTSIDE
    return Table(indices, weights.astype(np.float64))


def _one_tap(indices: Array) -> Table:
    return Table(indices.astype(np.int32)[:, None], np.ones((len(indices), 1)))


def _coordinates(axis: Axis, kind: str, real: Real) -> Any:
    """Where results lie in the source, in its pixels: an array of `real`."""
    at = np.arange(axis.result, dtype=real)
    size, result, scale = real(axis.size), real(axis.result), real(axis.scale)
    middle = (at + real(0.5)) / scale - real(0.5)
    match kind:
        case "half_pixel":
            return middle
        case "half_pixel_symmetric":
            offset = size / 2 * (1 - result / (scale * size))
            return (float(offset) + (np.arange(axis.result) + 0.5) / float(scale) - 0.5).astype(real)  # as ONNX Runtime
        case "pytorch_half_pixel":
            return middle if axis.result > 1 else 0 * at
        case "align_corners":
            return at * (size - 1) / (result - 1) if axis.result > 1 else 0 * at
        case "tf_crop_and_resize":
            start, end = real(axis.start), real(axis.end)
            if axis.result == 1:
                return 0 * at + real(0.5) * (start + end) * (size - 1)
            return start * (size - 1) + at * ((end - start) * (size - 1) / (result - 1))
        case "tf_half_pixel":
            return (at + real(0.5)) * (size / result) - real(0.5)
        case "tf_half_pixel_for_nn":
            return (at + real(0.5)) * (size / result)
        case "tf_align_corners":
            return at * ((size - 1) / (result - 1)) if axis.result > 1 else 0 * at
        case "tf_asymmetric":
            return at * (size / result)
        case _:
            return at / scale


def _taps(at: Floats, axis: Axis, kind: Kind) -> Table:
    last = axis.size - 1
    if kind.mode == "nearest":
        return _one_tap(np.clip(_rounded(at, kind.rounding), 0, last))
    whole = np.floor(at)
    shrink = min(axis.scale, 1.0) if kind.antialias else 1.0
    radius = 1 if kind.mode == "linear" else 2
    first = int(np.floor(-radius / shrink)) + 1
    offsets = np.arange(first, 1 - first + 1)
    beyond = at - whole
    if kind.mode == "cubic" and kind.coordinates in TENSORFLOW:
        beyond = np.rint(beyond * CUBIC_STEPS) / CUBIC_STEPS
    distances = np.abs(offsets - beyond[:, None]) * shrink
    weights = np.clip(1 - distances, 0, 1) if kind.mode == "linear" else _cubic(distances, kind.cubic_a)
    indices = whole[:, None] + offsets
    if kind.exclude_outside:
        weights[(indices < 0) | (indices > last)] = 0
    if kind.exclude_outside or kind.antialias:
        weights /= weights.sum(1, keepdims=True)
    return Table(np.clip(indices, 0, last).astype(np.int32), weights)


def _cubic(x: Floats, a: float) -> Floats:
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _rounded(at: Floats, rounding: str) -> Floats:
    match rounding:
        case "round_prefer_floor":
            return np.ceil(at - 0.5)
        case "round_prefer_ceil":
            return np.floor(at + 0.5)
        case "floor":
            return np.floor(at)
        case _:
            return np.ceil(at)
