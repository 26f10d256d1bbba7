"""Who uses which bytes of a home, and when: may two homes share their memory?"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

_FIRST = attrgetter("first")
_NEVER = sys.maxsize


class Access(NamedTuple):
    """Bytes of a home that launch `number` reads or writes."""

    number: int
    first: int
    end: int
    writes: bool

    @property
    def moment(self) -> tuple[int, bool]:
        """A launch reads before it writes."""
        return self.number, self.writes


class Uses:
    """The accesses to a home of `size` bytes. Those to a part of it lie by their first byte, so that those to a few
    bytes are found without a look at all.
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
        """Notes accesses."""
        for access in accesses:
            if access.end - access.first == self.size:
                self._whole.append(access)
            else:
                self._longest = max(self._longest, access.end - access.first)
                insort(self._parts, access, key=_FIRST)

    def moved(self, at: int) -> Iterable[Access]:
        """All of them, as the bytes are counted where the home begins at byte `at`."""
        for number, first, end, writes in (*self._whole, *self._parts):
            yield Access(number, first + at, end + at, writes)

    def within(self, first: int, end: int) -> list[Access]:
        """Those to any of some bytes."""
        low = bisect_right(self._parts, first - self._longest, key=_FIRST)
        high = bisect_left(self._parts, end, key=_FIRST)
        return [*self._whole, *(access for access in self._parts[low:high] if first < access.end)]

    def cut(self, moment: tuple[int, bool]) -> Uses:
        """Takes those from a moment on out."""
        later = Uses(self.size)
        for side, taken in ((self._whole, later._whole), (self._parts, later._parts)):
            taken += [access for access in side if access.moment >= moment]
            side[:] = [access for access in side if access.moment < moment]
        later._longest = self._longest
        return later


def can_share(copied: int, source: Iterable[Access], target: Iterable[Access]) -> bool:
    """May the bytes that launch `copied` copies lie in one place? Before it only the source uses them; what is written
    there afterwards for the one side is written when the other is needed no more.
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
