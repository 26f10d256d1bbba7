"""Constant data. An array is read only when somebody asks for it: weights stay mapped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from atcpy.ir.dtype import DType
from atcpy.ir.shape import StaticShape, element_count

Array = npt.NDArray[Any]
_SMALL_BYTES = 256  # a hash of less takes longer than the elements take room


class Tensor:
    """An immutable constant in its origin format; what it holds never changes, so it may be
    shared by nodes, graphs and threads.
    """

    __slots__ = ("_array", "_digest", "_read", "dtype", "shape")

    def __init__(self, dtype: DType, shape: StaticShape, read: Callable[[], Array]) -> None:
        self.dtype = dtype
        self.shape = shape
        self._read = read
        self._array: Array | None = None
        self._digest: bytes | None = None

    @staticmethod
    def of(array: npt.ArrayLike, dtype: DType | None = None) -> Tensor:
        """A constant with the elements of `array`, which must not be written to any more."""
        elements = np.asarray(array) if dtype is None else np.asarray(array, dtype.numpy)
        tensor = Tensor(dtype or DType.from_numpy(elements.dtype), elements.shape, lambda: elements)
        tensor._array = elements
        return tensor

    @property
    def array(self) -> Array:
        """The elements, read on first use; do not write to them."""
        if self._array is None:
            self._array = self._read()
        return self._array

    @property
    def nbytes(self) -> int:
        """Bytes of the elements in memory."""
        return self.dtype.nbytes(element_count(self.shape))

    @property
    def digest(self) -> bytes:
        """A hash of type, shape and elements, or these themselves: equal constants have equal digests."""
        if self._digest is None:
            kind = f"{self.dtype.short}{self.shape}".encode()
            if self.dtype is DType.STRING:
                elements = "\0".join(repr(item) for item in self.array.reshape(-1)).encode()
                self._digest = xxhash.xxh3_128_digest(kind + elements)
            elif self.nbytes <= _SMALL_BYTES:
                self._digest = kind + self.array.tobytes()
            else:
                digest = xxhash.xxh3_128(kind)
                digest.update(np.ascontiguousarray(self.array).reshape(-1).view(np.uint8).data)
                self._digest = digest.digest()
        return self._digest

    def equals(self, other: Tensor) -> bool:
        """True if type, shape and every bit agree."""
        if self is other:
            return True
        if (self.dtype, self.shape, self.digest) != (other.dtype, other.shape, other.digest):
            return False
        if self.dtype is DType.STRING:
            return bool(np.array_equal(self.array, other.array))
        return self.array.tobytes() == other.array.tobytes()

    def __repr__(self) -> str:
        return f"Tensor({self.dtype.short}{list(self.shape)})"
