"""Limits on sizes and memory, and the sizes of gears: what options, compiler and runtime share."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import cycle

from atcpy.errors import ResourceLimit, Where

ANY_SIZE = -1
MAX_DIM = 2**40
MAX_RANK = 64


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """The bytes that may be used; asked before an allocation, not after."""

    limit_bytes: int

    def check(self, needed_bytes: int, what: str, *, where: Where | None = None) -> None:
        """Raise R0001 if `what` needs more than the limit."""
        if needed_bytes > self.limit_bytes:
            raise ResourceLimit(
                "R0001",
                f"{what} needs {needed_bytes} bytes, the limit is {self.limit_bytes}",
                where=where,
                hint="raise --memory-limit, or make the shapes smaller",
            )


class GearKind(IntEnum):
    """Which sizes the gears of a package list; the numbers are GE's `mbatch_dynamic_type`."""

    BATCH = 1
    IMAGE = 2
    DIMS = 3


@dataclass(frozen=True, slots=True)
class Gears:
    """The sizes that the open dims of the inputs may have together, a row for each gear.

    The open dims of all inputs, in order, take the numbers of a row in turn: a batch is one number for all of them, an
    image is two for each input, and otherwise there are as many numbers as open dims.
    """

    kind: GearKind
    rows: tuple[tuple[int, ...], ...]

    def shapes(self, inputs: Sequence[Sequence[int]]) -> Iterator[tuple[tuple[int, ...], ...]]:
        """Yield the shapes of the inputs in each gear; an open dim of `inputs` is -1."""
        for row in self.rows:
            sizes = cycle(row)
            yield tuple(tuple(next(sizes) if dim == ANY_SIZE else dim for dim in dims) for dims in inputs)


def misfit(
    dims: Sequence[int | str] | None,
    ranges: Sequence[tuple[int, int]],
    shape: tuple[int, ...],
    sizes: dict[str, int],
) -> str:
    """Why a shape does not fit dims, or nothing; `sizes` collects those of the names that were met. `ranges` are the
    lowest and the highest size of each dim, -1 where there is no highest.
    """
    if dims is None:
        return ""
    if len(shape) != len(dims):
        return " "
    for size, expected in zip(shape, dims, strict=True):
        if isinstance(expected, int):
            if size != expected:
                return " "
        elif sizes.setdefault(expected, size) != size:
            return f": {expected} is {sizes[expected]} elsewhere"
    for axis, (low, high) in enumerate(ranges):
        if shape[axis] < low or (high >= 0 and shape[axis] > high):
            return f": dimension {axis} may be {low} to {high}"
    return ""
