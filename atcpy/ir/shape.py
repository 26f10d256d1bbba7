"""Shapes: tuples of sizes, where a size is an integer or a named symbol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from atcpy.sizes import MAX_DIM, MAX_RANK


@dataclass(frozen=True, slots=True)
class Sym:
    """A size that is known by name only, such as `batch`; equal names are equal sizes. `factors` are those of a
    product that was named after them.
    """

    name: str
    factors: tuple[int | Sym, ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        return self.name


MAX_BYTES = 2**47  # what sizes of 64 bits hold with room to be multiplied

Dim = int | Sym
Shape = tuple[Dim, ...]
StaticShape = tuple[int, ...]


def is_static(shape: Shape | None) -> TypeGuard[StaticShape]:
    """True if the rank and every size are known."""
    if shape is None:
        return False
    for dim in shape:  # noqa: SIM110  asked more often than anything else: `all` would take three times as long
        if isinstance(dim, Sym):
            return False
    return True


def fits_limits(shape: Shape) -> bool:
    """Is the shape within the limits on rank and dims? Sizes that are symbols may be anything."""
    for dim in shape:  # as above
        if isinstance(dim, int) and not 0 <= dim <= MAX_DIM:
            return False
    return len(shape) <= MAX_RANK


def element_count(shape: StaticShape) -> int:
    """The number of elements of a known shape; 1 for a scalar."""
    count = 1
    for dim in shape:
        count *= dim
    return count


def format_shape(shape: Sequence[object] | None) -> str:
    """`[1,batch,8]`, or `[*]` for an unknown rank."""
    return "[*]" if shape is None else "[" + ",".join(str(dim) for dim in shape) + "]"
