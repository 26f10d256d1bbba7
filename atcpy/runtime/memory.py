"""Arrays and the bytes that kernels see: elements of 2 and 4 bits lie packed there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atcpy.ir import DType
from atcpy.ir.shape import StaticShape, element_count
from atcpy.ir.tensor import Array
from atcpy.om.weights import pack_bits, unpack_bits


def as_bytes(array: Array) -> Array:
    """The bytes of a contiguous array, shared."""
    return array.reshape(-1).view(np.uint8)


def room_for(dtype: DType, shape: StaticShape) -> Array:
    """Memory for a result: the array itself, or bytes where elements are smaller than one."""
    if dtype.bits >= 8:
        return np.empty(shape, dtype.numpy)
    return np.empty(dtype.nbytes(element_count(shape)), np.uint8)


def to_memory(array: Array, dtype: DType) -> Array:
    """The bytes of an array of any strides, shared where they lie in order."""
    if dtype.bits < 8:
        return pack_bits(array, dtype)
    if array.flags.c_contiguous and array.flags.aligned:
        return as_bytes(array)
    return as_bytes(np.require(array, requirements=["C", "A"]))


def from_memory(raw: Array, dtype: DType, shape: StaticShape) -> Array:
    """The array that bytes hold, shared; elements of 2 and 4 bits get a byte each."""
    flat = raw if dtype.bits >= 8 else unpack_bits(raw, dtype, element_count(shape))
    return flat.view(dtype.numpy).reshape(shape)


def owned(results: Sequence[Any], lent: Sequence[Any]) -> list[Any]:
    """Results in memory of their own: copies of those that are inputs, views, constants or another result."""
    seen: set[int] = set()
    _note(lent, seen)
    return [_owned(result, seen) for result in results]


def _note(value: Any, seen: set[int]) -> None:
    if isinstance(value, np.ndarray):
        seen.add(id(value))
    elif isinstance(value, list | tuple):
        for item in value:
            _note(item, seen)


def _owned(value: Any, seen: set[int]) -> Any:
    if isinstance(value, list):
        return [_owned(item, seen) for item in value]
    if isinstance(value, dict):
        return dict(value)
    if not isinstance(value, np.ndarray):
        return value
    if id(value) in seen or not value.flags.owndata or not value.flags.writeable:
        value = value.copy()
    seen.add(id(value))
    return value
