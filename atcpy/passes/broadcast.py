"""How far constants reach: over the last dims of a tensor, or one number a channel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atcpy.ir import Value
from atcpy.ir.shape import Shape
from atcpy.ir.tensor import Array


def spread_over_last(value: Value, dims: tuple[int, ...]) -> Array:
    """A constant spread over the last dims of a tensor; ValueError if it differs beyond them."""
    array = value.array
    if array.shape == dims:
        return array
    while array.ndim > len(dims) and array.shape[0] == 1:
        array = array[0]
    return array.reshape(dims) if array.shape == dims else np.broadcast_to(array, dims)


def reaches_last_only(value: Value, dims: tuple[int, ...]) -> bool:
    """True if a constant differs along the last dims of a tensor only."""
    try:
        spread_over_last(value, dims)
    except ValueError:
        return False
    return True


def along(value: Value, shape: Shape | None, axes: Sequence[int]) -> Array | None:
    """A constant spread over these dims of a tensor that it is combined with, in their order; None if it differs along
    others, adds dims, or their sizes are not known.
    """
    array = value.array
    if shape is None or array.ndim > len(shape):
        return None
    array = array.reshape(*[1] * (len(shape) - array.ndim), *array.shape)
    sizes = [shape[axis] for axis in axes]
    known = tuple(size for size in sizes if isinstance(size, int))
    if len(known) < len(sizes) or any(size != 1 for axis, size in enumerate(array.shape) if axis not in axes):
        return None
    outside = [axis for axis in range(array.ndim) if axis not in axes]
    array = array.transpose(*outside, *axes).reshape([array.shape[axis] for axis in axes])
    fits = all(have in (1, want) for have, want in zip(array.shape, known, strict=True))
    return np.broadcast_to(array, known) if fits else None


def one_a_channel(value: Value, shape: Shape | None) -> Array:
    """A constant as the vector of its numbers a channel of a tensor of this shape, channels being dim 1; ValueError if
    it differs along another dim.
    """
    channels = None if shape is None or len(shape) < 2 else shape[1]
    if shape is None or not isinstance(channels, int):
        raise ValueError("no channels are known")
    if len(value.desc.static_shape) > len(shape):
        raise ValueError("the constant has more dims than the tensor")
    dims = (channels, *[1] * (len(shape) - 2))
    return np.ascontiguousarray(np.broadcast_to(spread_over_last(value, dims).reshape(-1), (channels,)))


def is_one_a_channel(value: Value, shape: Shape | None) -> bool:
    """True if a constant differs from channel to channel only."""
    try:
        one_a_channel(value, shape)
    except ValueError:
        return False
    return True
