"""What a storage format is: four verbs, and the identifier that descs carry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import ClassVar

from atcpy.ir.format import Format, FormatKind
from atcpy.ir.shape import StaticShape
from atcpy.ir.tensor import Array


class StorageFormat(ABC):
    """A way to lay a tensor out in memory. Padding elements are zero when packed, and their values
    mean nothing afterwards: no kernel may let one reach a real element.

    A class names its identifier, and the block sizes and groups that the tests of the law try:

        class NC1HWC0(StorageFormat, kind=FormatKind.NC1HWC0, c0=(16, 32, 64)): ...
    """

    tried: ClassVar[tuple[Format, ...]]

    def __init_subclass__(cls, *, kind: FormatKind, c0: Sequence[int], groups: Sequence[int] = (1,)) -> None:
        assert kind not in _REGISTRY, f"format {kind.name} is registered twice"
        _REGISTRY[kind] = cls
        cls.tried = tuple(Format(kind, size, number) for size in c0 for number in groups)

    def __init__(self, form: Format) -> None:
        self.id = form

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


_REGISTRY: dict[FormatKind, type[StorageFormat]] = {}


@cache
def find_format(form: Format) -> StorageFormat:
    """The class behind an identifier; KeyError for a plain format, which needs none."""
    return _REGISTRY[form.kind](form)


def tried_formats() -> list[Format]:
    """Every format with the block sizes and groups that its class wants tried."""
    return [form for kind in sorted(_REGISTRY, key=lambda kind: kind.value) for form in _REGISTRY[kind].tried]


def ceil_div(a: int, b: int) -> int:
    """⌈a / b⌉ for non-negative a."""
    return -(-a // b)
