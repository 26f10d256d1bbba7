"""Where an operand is repeated within a result: ranges of strides.

A result of N elements has the strides 1 … N. An operand of fewer elements is repeated over some ranges of them:
beside [2, 3, 4], an operand of [2, 1, 4] is repeated over the strides 4 … 12, one of [4] over 4 … 24. Views change
shapes and keep strides, so spans pass through them unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

from atcpy.ir import StaticShape
from atcpy.ir.symbolic import below, example, same

Spans = tuple[tuple[int, int], ...]  # ascending, apart


@lru_cache(4096)
def spans_of(shape: StaticShape, target: StaticShape) -> Spans:
    """Of a row-major operand that is broadcast to `target`, by numpy's rule."""
    padded = (1,) * (len(target) - len(shape)) + shape
    ranges: list[tuple[int, int]] = []
    stride = 1
    for own, size in zip(reversed(padded), reversed(target), strict=True):
        if same(own, 1) and not same(size, 1):
            ranges.append((stride, stride * size))
        stride *= size
    return _merged(ranges)


def within(outer: Spans, inner: Spans) -> Spans | None:
    """Of an operand whose spans are `inner` within a value whose own are `outer`; None if a range ends amid an
    element's repetitions, or repetitions do amid it.
    """
    if not outer:
        return inner
    ranges = list(outer)
    for low, high in inner:
        ends = _placed(outer, low, behind=True), _placed(outer, high, behind=False)
        if ends[0] is None or ends[1] is None:
            return None
        ranges.append((ends[0], ends[1]))
    return _merged(sorted(ranges, key=lambda span: (example(span[0]), example(span[1]))))


def _placed(outer: Spans, local: int, *, behind: bool) -> int | None:
    """Where a stride of the value lies in the whole; at a repetition's border in front of it or `behind` it. None if a
    step of it does not end where the repetitions do.
    """
    own, whole = 1, 1
    for low, high in outer:
        reached = own * (low // whole)
        if (not same(local, reached) and below(local, reached)) or (same(local, reached) and not behind):
            if reached % local:
                return None
            break
        own, whole = reached, high
    times, rest = divmod(local, own)
    return None if rest else whole * times


def _merged(ranges: Iterable[tuple[int, int]]) -> Spans:
    merged: list[tuple[int, int]] = []
    for low, high in ranges:
        if merged and not below(merged[-1][1], low):
            merged[-1] = merged[-1][0], high if below(merged[-1][1], high) else merged[-1][1]
        else:
            merged.append((low, high))
    return tuple(merged)


def repeats(spans: Spans) -> int:
    """How often each element comes."""
    count = 1
    for low, high in spans:
        count *= high // low
    return count


def dims_of(elements: int, operands: Iterable[Spans]) -> list[int] | None:
    """The fewest dims of `elements` elements along each of which every operand has all of the size or 1; None if
    there are none.
    """
    ends = sorted({1, elements}.union(*(end for spans in operands for end in spans)), key=example)
    if any(high % low for low, high in pairwise(ends)):
        return None
    return [high // low for low, high in pairwise(ends)][::-1] or [1]


def cuts_rows(operands: Iterable[Spans], row: int) -> bool:
    """True if an operand is repeated over a part of a row of so many elements."""
    return any(below(1, end) and below(end, row) for spans in operands for ends in spans for end in ends)


def varies_in_row(spans: Spans) -> bool:
    """True if neighbours are not the same element."""
    return not spans or below(1, spans[0][0])


def is_repeated(spans: Spans, dims: Sequence[int]) -> list[bool]:
    """For each of the dims, whether the operand has size 1 along it."""
    found: list[bool] = []
    stride = 1
    for size in reversed(dims):
        found.append(any(not below(stride, low) and below(stride, high) for low, high in spans))
        stride *= size
    return found[::-1]
