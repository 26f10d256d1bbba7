"""The memory plan: one arena, blocks that live at different times share bytes.

Blocks are aligned to 64 bytes. The lower bound is the largest sum of blocks alive at one task; no
plan can be smaller. Placing blocks is bin packing, so a few orders are tried and the best is kept.

Greedy placement by size: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
Inference", 2020, section 5.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from atcpy.ir import MemoryPlan

ALIGNMENT = 64
# Where first fit over time wastes memory, blocks are placed in several orders, each block compared with all others:
# up to so many blocks, and so many comparisons in total.
MAX_PAIRWISE = 2048
MAX_COMPARISONS_OF_ORDERS = 8_000_000
# After so many rounds a plan within 5 % of the bound is accepted; the search stops after so many comparisons.
MAX_ROUNDS_TO_THE_BOUND = 50
GOOD_ENOUGH = 1.05
MAX_COMPARISONS = 4_000_000
# Few blocks have few orders: the search stops after so many rounds for each block.
MAX_ROUNDS_A_BLOCK = 50


@dataclass(eq=False, slots=True)
class Block:
    """Memory of one value, or of several that share it, live from task `first` to task `last`.

    begins_in, ends_in: the section and the stream of that task, where it is in one. Nothing orders it and the tasks of
    other streams there.
    """

    nbytes: int
    first: int
    last: int
    offset: int = -1
    begins_in: tuple[int, int] | None = None
    ends_in: tuple[int, int] | None = None


def align(nbytes: int) -> int:
    """Round a size up to whole aligned units, at least one."""
    return max(-(-nbytes // ALIGNMENT), 1) * ALIGNMENT


def plan_memory(blocks: Sequence[Block], sections: Sequence[range] = (), *, reuse: bool) -> MemoryPlan:
    """Set the offset of every block and return the plan. `sections` are the tasks of each section."""
    unshared = sum(block.nbytes for block in blocks)
    bound = max(lower_bound(blocks), *_lower_bounds_of_sections(blocks, sections), 0)
    if not reuse:
        offset = 0
        for block in blocks:
            block.offset, offset = offset, offset + block.nbytes
        return MemoryPlan(unshared, bound, unshared)
    if not blocks:
        return MemoryPlan(0, 0, 0)
    best = _place_by_stream(blocks, sections) if sections else _place_in_time(blocks)
    if best.size > bound and len(blocks) <= MAX_PAIRWISE:
        best = min(best, _best_order(blocks, bound), key=lambda placement: placement.size)
    for block, offset in zip(blocks, best.offsets, strict=True):
        block.offset = offset
    return MemoryPlan(best.size, bound, unshared)


@dataclass(frozen=True, slots=True)
class _Placement:
    """Offsets of the blocks, and the end of the last."""

    size: int
    offsets: list[int]


def _best_order(blocks: Sequence[Block], bound: int) -> _Placement:
    """Place the blocks in several orders; then, while too much is wasted, move the block with the highest end
    forward in the best order.
    """
    pairs = len(blocks) * len(blocks)
    trials: list[tuple[_Placement, Sequence[Block]]] = []
    for key in _ORDERS[: max(MAX_COMPARISONS_OF_ORDERS // pairs, 1)]:
        order: Sequence[Block] = sorted(blocks, key=key)
        trials.append((_place_in_order(blocks, order), order))
        if trials[-1][0].size == bound:
            break
    best, order = min(trials, key=lambda item: item[0].size)
    rounds = min(MAX_COMPARISONS // pairs, MAX_ROUNDS_A_BLOCK * len(blocks))
    latest = best
    seen: set[tuple[int, ...]] = set()  # an order that comes again brings nothing new
    for number in range(rounds):
        identity = tuple(map(id, order))
        if identity in seen:
            break
        seen.add(identity)
        if best.size <= bound * (1 if number < MAX_ROUNDS_TO_THE_BOUND else GOOD_ENOUGH):
            break
        ends = [offset + block.nbytes for offset, block in zip(latest.offsets, blocks, strict=True)]
        farthest = blocks[ends.index(max(ends))]
        at = order.index(farthest)
        order = [*order[: at // 2], farthest, *order[at // 2 : at], *order[at + 1 :]]
        latest = _place_in_order(blocks, order)
        if latest.size < best.size:
            best = latest
    return best


def lower_bound(blocks: Sequence[Block]) -> int:
    """Return the largest sum of block sizes that are live at one task."""
    events = sorted(
        [(block.first, 1, block.nbytes) for block in blocks] + [(block.last + 1, 0, -block.nbytes) for block in blocks]
    )
    alive = peak = 0
    for _, _, change in events:
        alive += change
        peak = max(peak, alive)
    return peak


def _lower_bounds_of_sections(blocks: Sequence[Block], sections: Sequence[range]) -> Iterator[int]:
    """Yield, for each section, the bytes that all of it needs and the peak of each of its streams, which may be at the
    same time.
    """
    if not sections:
        return
    changes = [0] * (max(block.last for block in blocks) + 2 if blocks else 0)
    of_streams: dict[tuple[int, int], set[Block]] = defaultdict(set)
    for block in blocks:
        changes[block.first] += block.nbytes
        changes[block.last + 1] -= block.nbytes
        for place in filter(None, (block.begins_in, block.ends_in)):
            of_streams[place].add(block)
    alive = list(accumulate(changes))
    totals = [alive[tasks.start] if tasks.start < len(alive) else 0 for tasks in sections]
    for (number, stream), own in of_streams.items():
        tasks = sections[number]
        totals[number] -= sum(block.nbytes for block in own if block.first <= tasks.start <= block.last)
        totals[number] += lower_bound(
            [
                Block(
                    block.nbytes,
                    block.first if block.begins_in == (number, stream) else tasks.start,
                    block.last if block.ends_in == (number, stream) else tasks.stop,
                )
                for block in own
            ]
        )
    yield from totals


_ORDERS: tuple[Callable[[Block], tuple[int, ...]], ...] = (
    lambda block: (-block.nbytes, block.first),
    lambda block: (-block.nbytes * (block.last - block.first + 1), block.first),
    lambda block: (block.first - block.last, -block.nbytes),
    lambda block: (block.first, -block.nbytes),
    lambda block: (-block.last, -block.nbytes),
)


def _place_in_order(blocks: Sequence[Block], order: Sequence[Block]) -> _Placement:
    """Place each block of the order in the smallest gap that fits it between placed blocks with which it overlaps in
    time.
    """
    placed: list[Block] = []
    offsets: list[int] = []
    size = 0
    for block in order:
        end_of_last, best_offset, best_gap = 0, -1, -1
        for other in placed:  # by offset
            if other.first > block.last:
                if not _are_unordered(block, other):
                    continue
            elif other.last < block.first and not _are_unordered(other, block):
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
    return _Placement(size, [block.offset for block in blocks])


def _are_unordered(earlier: Block, later: Block) -> bool:
    """Whether a block may be in use in one stream while the later one is already in another."""
    ends, begins = earlier.ends_in, later.begins_in
    return ends is not None and begins is not None and ends[0] == begins[0] and ends[1] != begins[1]


def _place_by_stream(blocks: Sequence[Block], sections: Sequence[range]) -> _Placement:
    """Place the blocks of each stream in one block that is live in all of the section, and these with the others in
    time; those that a stream begins or ends are live in all of the section, too.
    """
    of_streams: dict[tuple[int, int], list[int]] = defaultdict(list)  # numbers of blocks
    numbers: list[int] = []
    outer: list[Block] = []
    for number, block in enumerate(blocks):
        if block.begins_in is not None and block.begins_in == block.ends_in:
            of_streams[block.begins_in].append(number)
            continue
        first = block.first if block.begins_in is None else sections[block.begins_in[0]].start
        last = block.last if block.ends_in is None else sections[block.ends_in[0]].stop
        numbers.append(number)
        outer.append(Block(block.nbytes, first, last))
    inner = [_place_in_time([blocks[number] for number in own]) for own in of_streams.values()]
    for (section, _), placement in zip(of_streams, inner, strict=True):
        outer.append(Block(placement.size, sections[section].start, sections[section].stop))
    whole = _place_in_time(outer)
    offsets = dict(zip(numbers, whole.offsets, strict=False))
    for own, placement, start in zip(of_streams.values(), inner, whole.offsets[len(numbers) :], strict=True):
        offsets.update((number, start + offset) for number, offset in zip(own, placement.offsets, strict=True))
    return _Placement(whole.size, [offsets[number] for number in range(len(blocks))])


def _place_in_time(blocks: Sequence[Block]) -> _Placement:
    """Place the blocks in order of their first task, each in the smallest free range that fits."""
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
    return _Placement(size, [block.offset for block in blocks])
