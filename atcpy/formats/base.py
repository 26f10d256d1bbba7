"""What a storage format is: four verbs, and the identifier that descs carry."""

from __future__ import annotations

from abc import ABC, abstractmethod

from atcpy.ir.format import Format
from atcpy.ir.shape import StaticShape
from atcpy.ir.tensor import Array


class StorageFormat(ABC):
    """A way to lay a tensor out in memory. Padding elements are zero when packed, and their values
    mean nothing afterwards: no kernel may let one reach a real element.
    """

    id: Format

    @abstractmethod
    def accepts(self, shape: StaticShape) -> bool:
        """True if tensors of this shape can be stored so."""

    @abstractmethod
    def storage_shape(self, shape: StaticShape) -> StaticShape:
        """Dims in memory of a tensor of the given dims."""

    @abstractmethod
    def pack(self, array: Array) -> Array:
        """The elements in memory order: an array of `storage_shape`, contiguous."""

    @abstractmethod
    def unpack(self, packed: Array, shape: StaticShape) -> Array:
        """The tensor of the given dims that `packed` holds; the inverse of `pack`."""

    @abstractmethod
    def index(self, shape: StaticShape, position: StaticShape) -> int:
        """Where in memory, counted in elements, the element at `position` lies."""


def ceil_div(a: int, b: int) -> int:
    """⌈a / b⌉ for non-negative a."""
    return -(-a // b)
