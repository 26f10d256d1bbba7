"""Arrays and the bytes that kernels see: elements of 2 and 4 bits lie packed there."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from atcpy.ir import DType
from atcpy.ir.shape import StaticShape, element_count
from atcpy.ir.tensor import Array
from atcpy.om.weights import pack_bits, unpack_bits

# A buffer is used again between these sizes in bytes: small ones cost nothing, huge ones should not be held.
REUSED_FROM = 1 << 18
REUSED_UNTIL = 1 << 28


def as_bytes(array: Array) -> Array:
    """The bytes of a contiguous array, shared."""
    return array.reshape(-1).view(np.uint8)


def room_for(dtype: DType, shape: StaticShape) -> Array:
    """Memory for a result: the array itself, or bytes where elements are smaller than one."""
    if dtype.bits >= 8:
        return np.empty(shape, dtype.numpy)
    return np.empty(dtype.nbytes(element_count(shape)), np.uint8)


class Rooms:
    """Memory for one result of many runs: what its last readers have let go is handed out again, since the system
    takes as long to give new pages as a kernel to fill them.

    A buffer is free when nobody but this object holds it; a view or a memoryview of it holds it, too.
    """

    def __init__(self, dtype: DType, shape: StaticShape) -> None:
        self._dtype = dtype
        self._shape = shape
        # Two: a loop holds the result of one turn until that of the next is there.
        self._kept: deque[Array] = deque(maxlen=2)
        self._is_large = REUSED_FROM <= dtype.nbytes(element_count(shape)) <= REUSED_UNTIL

    def take(self) -> Array:
        """Memory that nobody else reads or writes."""
        for _ in range(len(self._kept)):
            array, holders = _oldest(self._kept)
            if array is None:
                break
            if holders == _ALONE:
                return array
            self._kept.append(array)
        return room_for(self._dtype, self._shape)

    def keep(self, array: Array) -> None:
        """Offers the memory again to later runs."""
        if self._is_large:
            self._kept.append(array)


def _oldest(kept: deque[Array]) -> tuple[Array | None, int]:
    """Takes an array out, so that no other thread gets it, and counts who else has it."""
    try:
        array = kept.popleft()
    except IndexError:  # another thread took the last one
        return None, -1
    return array, sys.getrefcount(array)


_, _ALONE = _oldest(deque([np.empty(1)]))


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
