"""Conversion between arrays and the memory of kernels, where elements of 2 and 4 bits are packed."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from atcpy.errors import PackageCorrupt
from atcpy.ir import DType
from atcpy.ir.shape import StaticShape, element_count
from atcpy.ir.tensor import Array
from atcpy.om.bits import pack_bits, unpack_bits

if TYPE_CHECKING:
    from atcpy.ir import CountedOutput

# Only buffers between these sizes are reused: small ones cost nothing, huge ones should be returned to the system.
MIN_REUSED_BYTES = 1 << 15
MAX_REUSED_BYTES = 1 << 28
MAX_UNUSED = 4  # times as large as a result may its buffer be


def as_array(value: Any) -> Array:
    """An array, in the memory of the value where that is one of its forms or has DLPack."""
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        return np.from_dlpack(value)
    return np.asarray(value)


def as_bytes(array: Array) -> Array:
    """The bytes of a contiguous array, shared."""
    return array.reshape(-1).view(np.uint8)


class BufferPool:
    """Memory for one result of many runs: arrays of its type, or bytes if elements are smaller than a byte. Buffers
    that callers have released are reused, since the system takes as long to provide new pages as a kernel takes to fill
    them.

    A buffer is free when only the pool refers to it; a view or a memoryview of it counts as a reference. Pools of
    results of different sizes may share `buffers`, as bytes of which results are views.
    """

    def __init__(self, dtype: DType, shape: StaticShape, buffers: deque[Array] | None = None) -> None:
        self._nbytes = dtype.nbytes(element_count(shape))
        self._shape: StaticShape = shape if dtype.bits >= 8 else (self._nbytes,)
        self._numpy: np.dtype[Any] = dtype.numpy if dtype.bits >= 8 else np.dtype(np.uint8)
        self.is_reused = MIN_REUSED_BYTES <= self._nbytes <= MAX_REUSED_BYTES
        self._is_shared = self.is_reused and buffers is not None
        self._buffers = new_buffers() if buffers is None else buffers

    def take(self) -> Array:
        """Return memory that nothing else refers to: clear, or with an earlier result. What the process kept there
        must not come out, whatever a package leaves unwritten.
        """
        if not self.is_reused:
            return np.zeros(self._shape, self._numpy)
        buffer = self._released()
        if buffer is None:
            spare = self._nbytes // 4
            buffer = np.zeros(self._nbytes + spare, np.uint8) if self._is_shared else np.zeros(self._shape, self._numpy)
        self._buffers.append(buffer)
        return self._result(buffer)

    def _released(self) -> Array | None:
        """A buffer that nobody uses and that fits, taken out of the pool."""
        for _ in range(len(self._buffers)):
            buffer, references = _newest(self._buffers)
            if buffer is None:
                break
            if references == _UNSHARED and self._nbytes <= buffer.nbytes <= MAX_UNUSED * self._nbytes:
                return buffer
            self._buffers.appendleft(buffer)
        return None

    def _result(self, buffer: Array) -> Array:
        return buffer[: self._nbytes].view(self._numpy).reshape(self._shape) if self._is_shared else buffer


def new_buffers() -> deque[Array]:
    """Buffers for a pool, or for several: two, since a loop keeps one result until the next is there."""
    return deque(maxlen=2)


def _newest(buffers: deque[Array]) -> tuple[Array | None, int]:
    """Remove the array that was used last, which caches may still have, so that no other thread gets it, and count the
    references to it.
    """
    try:
        array = buffers.pop()
    except IndexError:  # another thread took the last one
        return None, -1
    return array, sys.getrefcount(array)


_, _UNSHARED = _newest(deque([np.empty(1)]))


def readable(array: Array, dtype: DType) -> Array:
    """An array whose memory C can read: this one if it is contiguous, else a copy."""
    if dtype.bits < 8:
        return pack_bits(array, dtype)
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else np.require(array, requirements=["C", "A"])


def to_memory(array: Array, dtype: DType) -> Array:
    """The bytes of an array of any strides; not copied if they are contiguous."""
    return as_bytes(readable(array, dtype))


def from_memory(raw: Array, dtype: DType, shape: StaticShape) -> Array:
    """The array in these bytes, not copied; elements of 2 and 4 bits get a byte each."""
    flat = raw if dtype.bits >= 8 else unpack_bits(raw, dtype, element_count(shape))
    return flat.view(dtype.numpy).reshape(shape)


def cut(results: Sequence[Array], counted: CountedOutput) -> Array:
    """Cut a result out of a larger buffer, at whose beginning it is. Raises PackageCorrupt (P0005) if it is not."""
    buffer, count = results[counted.output], results[counted.count].item()
    if not counted.axes:
        return buffer
    if counted.axes == (0,) and 0 <= count <= len(buffer):
        part = buffer[:count]
    else:
        shape = [count if axis in counted.axes else size for axis, size in enumerate(buffer.shape)]
        size = prod(shape)
        if count < 0 or size > buffer.size:
            raise PackageCorrupt("P0005", f"a result of shape {shape} is cut out of {buffer.size} elements")
        part = buffer.reshape(-1)[:size].reshape(shape)
    # It keeps the buffer, if it is large and most of it.
    is_kept = part.nbytes >= MIN_REUSED_BYTES and buffer.nbytes <= MAX_UNUSED * part.nbytes
    return part if is_kept else part.copy()


def owned(results: Sequence[Any], borrowed: Sequence[Any]) -> list[Any]:
    """Results that own their memory: copies of those that are inputs, views, constants or another result."""
    seen: set[int] = set()
    _collect_ids(borrowed, seen)
    return [_owned(result, seen) for result in results]


def _collect_ids(value: Any, seen: set[int]) -> None:
    if isinstance(value, np.ndarray):
        seen.add(id(value))
    elif isinstance(value, list | tuple):
        for item in value:
            _collect_ids(item, seen)


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
