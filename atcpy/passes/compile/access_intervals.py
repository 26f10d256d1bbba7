"""Accesses to a buffer: which launch reads or writes which bytes, and whether two buffers can share memory."""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

from atcpy.ir.symbolic import same

_FIRST = attrgetter("first")
_NEVER = sys.maxsize


class Access(NamedTuple):
    """Bytes [first, end) of a buffer that launch `number` reads or writes."""

    number: int
    first: int
    end: int
    writes: bool

    @property
    def moment(self) -> tuple[int, bool]:
        """A launch reads before it writes."""
        return self.number, self.writes


class AccessIntervals:
    """The accesses to a buffer of `size` bytes. Accesses to a part of it are sorted by their first byte, so that those
    that overlap a range are found by bisection.
    """

    __slots__ = ("_longest", "_parts", "_whole", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._whole: list[Access] = []
        self._parts: list[Access] = []
        self._longest = 0

    def __len__(self) -> int:
        return len(self._whole) + len(self._parts)

    def add(self, accesses: Iterable[Access]) -> None:
        """Add accesses."""
        for access in accesses:
            if same(access.end - access.first, self.size):
                self._whole.append(access)
            else:
                self._longest = max(self._longest, access.end - access.first)
                insort(self._parts, access, key=_FIRST)

    def shifted(self, offset: int) -> Iterable[Access]:
        """Yield all accesses, relative to an outer buffer in which this one begins at byte `offset`."""
        for number, first, end, writes in (*self._whole, *self._parts):
            yield Access(number, first + offset, end + offset, writes)

    def overlapping(self, first: int, end: int) -> list[Access]:
        """Return the accesses to any byte of [first, end)."""
        low = bisect_right(self._parts, first - self._longest, key=_FIRST)
        high = bisect_left(self._parts, end, key=_FIRST)
        return [*self._whole, *(access for access in self._parts[low:high] if first < access.end)]

    def split_off(self, moment: tuple[int, bool]) -> AccessIntervals:
        """Remove the accesses at or after a moment and return them."""
        later = AccessIntervals(self.size)
        for side, taken in ((self._whole, later._whole), (self._parts, later._parts)):
            taken += [access for access in side if access.moment >= moment]
            side[:] = [access for access in side if access.moment < moment]
        later._longest = self._longest
        return later


def can_share(copied: int, source: Iterable[Access], target: Iterable[Access]) -> bool:
    """Whether source and target of the copy at launch `copied` can be the same bytes: the target is not accessed before
    the copy, and neither side is written after it while the other is still accessed.
    """
    ends, overwrites = [copied, copied], [_NEVER, _NEVER]
    for side, accesses in enumerate((source, target)):
        for number, _, _, writes in accesses:
            if side == 1 and number < copied:
                return False
            ends[side] = max(ends[side], number)
            if writes and number > copied:
                overwrites[side] = min(overwrites[side], number)
    return ends[0] < overwrites[1] and ends[1] < overwrites[0]
