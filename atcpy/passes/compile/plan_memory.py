"""The memory plan: one arena, blocks that live at different times share bytes.

Blocks are aligned to 64 bytes. The lower bound is the largest sum of blocks alive at one task; no
plan can be smaller. Placing blocks is bin packing, so a few orders are tried and the best is kept.

Greedy placement by size: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
Inference", 2020, section 5.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from atcpy.ir import MemoryPlan

ALIGNMENT = 64
# Up to so many blocks each is compared with all others; beyond, one walk in time order.
MAX_PAIRWISE = 4096


@dataclass(eq=False, slots=True)
class Block:
    """Memory of one value, or of several that share it: alive from task `first` to task `last`."""

    nbytes: int
    first: int
    last: int
    offset: int = -1


def align(nbytes: int) -> int:
    """The size of a block that holds so many bytes."""
    return max(-(-nbytes // ALIGNMENT), 1) * ALIGNMENT


def plan_memory(blocks: Sequence[Block], *, reuse: bool) -> MemoryPlan:
    """Sets the offset of every block."""
    unshared = sum(block.nbytes for block in blocks)
    bound = lower_bound(blocks)
    if not reuse:
        offset = 0
        for block in blocks:
            block.offset, offset = offset, offset + block.nbytes
        return MemoryPlan(unshared, bound, unshared)
    best: tuple[int, list[int]] | None = None
    for place in _strategies(blocks):
        size = place(blocks)
        if best is None or size < best[0]:
            best = (size, [block.offset for block in blocks])
        if best[0] <= bound:
            break
    if best is None:
        return MemoryPlan(0, 0, 0)
    for block, offset in zip(blocks, best[1], strict=True):
        block.offset = offset
    return MemoryPlan(best[0], bound, unshared)


def lower_bound(blocks: Sequence[Block]) -> int:
    """The largest sum of sizes alive at one task."""
    events = sorted(
        [(block.first, 1, block.nbytes) for block in blocks] + [(block.last + 1, 0, -block.nbytes) for block in blocks]
    )
    alive = most = 0
    for _, _, change in events:
        alive += change
        most = max(most, alive)
    return most


def _strategies(blocks: Sequence[Block]) -> list[Callable[[Sequence[Block]], int]]:
    if len(blocks) > MAX_PAIRWISE:
        return [_place_in_time]
    orders: list[Callable[[Block], tuple[int, ...]]] = [
        lambda block: (-block.nbytes, block.first),
        lambda block: (-block.nbytes * (block.last - block.first + 1), block.first),
        lambda block: (-(block.last - block.first), -block.nbytes),
        lambda block: (block.first, -block.nbytes),
        lambda block: (-block.last, -block.nbytes),
    ]
    return [lambda all_blocks, key=key: _place_in_order(all_blocks, sorted(all_blocks, key=key)) for key in orders]  # type: ignore[misc]


def _place_in_order(blocks: Sequence[Block], order: Sequence[Block]) -> int:
    """Each block in turn takes the smallest gap, among the placed ones alive with it, that it fits."""
    placed: list[Block] = []
    offsets: list[int] = []
    size = 0
    for block in order:
        end_of_last, best_offset, best_gap = 0, -1, -1
        for other in placed:  # by offset
            if other.first > block.last or other.last < block.first:
                continue
            gap = other.offset - end_of_last
            if gap >= block.nbytes and (best_gap < 0 or gap < best_gap):
                best_offset, best_gap = end_of_last, gap
            end_of_last = max(end_of_last, other.offset + other.nbytes)
        block.offset = best_offset if best_gap >= 0 else end_of_last
        at = bisect_left(offsets, block.offset)
        offsets.insert(at, block.offset)
        placed.insert(at, block)
        size = max(size, block.offset + block.nbytes)
    return size


def _place_in_time(blocks: Sequence[Block]) -> int:
    """Walks through time with a list of free ranges; each block takes the smallest that fits."""
    free: list[tuple[int, int]] = []  # (size, offset), by size
    at_offset: dict[int, int] = {}  # offset -> size of free ranges
    ends: dict[int, int] = {}  # end -> offset of free ranges
    alive: list[tuple[int, int, int]] = []
    size = 0

    def release(offset: int, nbytes: int) -> None:
        after = at_offset.get(offset + nbytes)
        if after is not None:
            _forget(offset + nbytes, after)
            nbytes += after
        before = ends.get(offset)
        if before is not None:
            length = at_offset[before]
            _forget(before, length)
            offset, nbytes = before, nbytes + length
        at_offset[offset] = nbytes
        ends[offset + nbytes] = offset
        insort(free, (nbytes, offset))

    def _forget(offset: int, nbytes: int) -> None:
        del at_offset[offset]
        del ends[offset + nbytes]
        free.pop(bisect_left(free, (nbytes, offset)))

    for block in sorted(blocks, key=lambda block: (block.first, -block.nbytes)):
        while alive and alive[0][0] < block.first:
            _, offset, nbytes = heapq.heappop(alive)
            release(offset, nbytes)
        at = bisect_left(free, (block.nbytes, -1))
        if at < len(free):
            nbytes, offset = free[at]
            _forget(offset, nbytes)
            if nbytes > block.nbytes:
                release(offset + block.nbytes, nbytes - block.nbytes)
        else:
            last = ends.get(size)
            offset = size if last is None else last
            if last is not None:
                _forget(last, at_offset[last])
            size = offset + block.nbytes
        block.offset = offset
        heapq.heappush(alive, (block.last, block.offset, block.nbytes))
    return size
