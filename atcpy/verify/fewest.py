"""Searches for the fewest items of a ranking that are enough, where to try a set of items takes long."""

from __future__ import annotations

from collections.abc import Callable, Sequence

IsEnough = Callable[[Sequence[str]], bool]


def shortest_beginning(ranking: Sequence[str], first: int, most: int, is_enough: IsEnough) -> list[str] | None:
    """The shortest beginning of a ranking that is enough, of at most `most` items, found by doubling steps from `first`
    and bisection. None if there is none.
    """
    if is_enough(ranking[:0]):
        return []
    low, high, step = 0, min(max(first, 1), most), 1  # `low` items are too few
    while not (low < high and is_enough(ranking[:high])):
        if high >= most:
            return None
        low, high, step = high, min(high + step, most), step * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(ranking[:middle]) else (middle, high)
    return list(ranking[:high])


def without_needless(items: Sequence[str], is_enough: IsEnough) -> list[str]:
    """What is left of items that are enough when those are left out that are not needed, in halves, then in ever
    smaller parts: of the rest none can be left out alone.
    """
    left, size = list(items), len(items)
    while size > 1 or (size == 1 and len(left) > 1):
        size = max(1, size // 2)
        before, at = len(left), 0
        while at < len(left):
            shorter = left[:at] + left[at + size :]
            if shorter and is_enough(shorter):
                left = shorter
            else:
                at += size
        if size == 1 and len(left) == before:
            break
    return left
