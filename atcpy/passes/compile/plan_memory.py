"""The memory plan: one arena, blocks that live at different times share bytes.

Blocks are aligned to 64 bytes. The lower bound is the largest sum of blocks alive at one task; no
plan can be smaller. Placing blocks is bin packing, so several strategies are tried and the best is kept:

    interval_colouring   in order of their first task, each in the smallest range that is free then
    best_fit_by_…        in another order, each in the smallest gap between blocks that live at the same time
    first_fit_by_size    the largest first, each in the first such gap
    search               the best of these orders, the block with the highest end moved forward again and again

Greedy placement by size: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
Inference", 2020, section 5.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from atcpy.ir import MemoryPlan, PlacementStrategy
from atcpy.passes.compile.memory_bound import Block, find_peak

# Where a walk through time wastes memory, blocks are placed in several orders, each block compared with all others:
# up to so many blocks. A comparison takes about 10 ns, and converting a model half a millisecond for each block or
# more: with so many comparisons, in all orders and in the search, planning takes at most 5 % of that.
MAX_PAIRWISE = 2048
MAX_COMPARISONS_OF_ORDERS_A_BLOCK, MAX_COMPARISONS_OF_SEARCH_A_BLOCK = 2000, 500
MIN_COMPARISONS = 300_000  # few blocks take little time whatever is tried
# A plan within 5 % of the bound is accepted after so many comparisons or rounds; a worse one is searched for longer.
GOOD_ENOUGH = 1.05
MAX_ROUNDS_TO_THE_BOUND = 50
MAX_COMPARISONS = 4_000_000
# Few blocks have few orders: the search stops after so many rounds for each block.
MAX_ROUNDS_A_BLOCK = 50


def plan_memory(blocks: Sequence[Block], sections: Sequence[range] = (), *, reuse: bool) -> MemoryPlan:
    """Set the offset of every block and return the plan. `sections` are the tasks of each section."""
    unshared = sum(block.nbytes for block in blocks)
    bound = find_peak(blocks, sections).nbytes
    if not reuse:
        offset = 0
        for block in blocks:
            block.offset, offset = offset, offset + block.nbytes
        return MemoryPlan(unshared, bound, unshared)
    if not blocks:
        return MemoryPlan(0, 0, 0)
    found = {_COLOURING: _place_by_stream(blocks, sections) if sections else _place_in_time(blocks)}
    if found[_COLOURING].size > bound and len(blocks) <= MAX_PAIRWISE:
        found |= _place_in_orders(blocks, bound)
    best = min(found.values(), key=lambda placement: placement.size)
    for block, offset in zip(blocks, best.offsets, strict=True):
        block.offset = offset
    names = (_COLOURING, *_ORDERS, _SEARCH)
    sizes = tuple(PlacementStrategy(name, found[name].size if name in found else None) for name in names)
    return MemoryPlan(best.size, bound, unshared, strategies=sizes)


@dataclass(frozen=True, slots=True)
class _Placement:
    """Offsets of the blocks, and the end of the last."""

    size: int
    offsets: list[int]


class Fit(Enum):
    """Which gap a block gets: the first that has room, or the smallest."""

    FIRST = "first"
    BEST = "best"


class _Order(NamedTuple):
    key: Callable[[Block], tuple[int, ...]]
    fit: Fit = Fit.BEST


_COLOURING, _SEARCH = "interval_colouring", "search"
_ORDERS: Mapping[str, _Order] = {
    "best_fit_by_size": _Order(lambda block: (-block.nbytes, block.first)),
    "first_fit_by_size": _Order(lambda block: (-block.nbytes, block.first), Fit.FIRST),
    "best_fit_by_size_and_life": _Order(lambda block: (-block.nbytes * (block.last - block.first + 1), block.first)),
    "best_fit_by_life": _Order(lambda block: (block.first - block.last, -block.nbytes)),
    "best_fit_by_first_task": _Order(lambda block: (block.first, -block.nbytes)),
    "best_fit_by_last_task": _Order(lambda block: (-block.last, -block.nbytes)),
}


def _place_in_orders(blocks: Sequence[Block], bound: int) -> dict[str, _Placement]:
    """Place the blocks in several orders, until one meets the bound; then search from the best of them."""
    found: dict[str, _Placement] = {}
    orders: dict[str, Sequence[Block]] = {}
    comparisons = MIN_COMPARISONS + MAX_COMPARISONS_OF_ORDERS_A_BLOCK * len(blocks)
    tried = max(comparisons // len(blocks) ** 2, 1)
    for name, (key, fit) in list(_ORDERS.items())[:tried]:
        orders[name] = sorted(blocks, key=key)
        found[name] = _place_in_order(blocks, orders[name], fit)
        if found[name].size == bound:
            return found
    best = min(found, key=lambda name: found[name].size)
    searched = _search(blocks, found[best], orders[best], _ORDERS[best].fit, bound)
    return found if searched is None else found | {_SEARCH: searched}


def _search(
    blocks: Sequence[Block], best: _Placement, order: Sequence[Block], fit: Fit, bound: int
) -> _Placement | None:
    """Move the block with the highest end forward in the order while too much is wasted; None if nothing was tried."""
    pairs = len(blocks) ** 2
    rounds = min(MAX_COMPARISONS // pairs, MAX_ROUNDS_A_BLOCK * len(blocks))
    comparisons = MIN_COMPARISONS + MAX_COMPARISONS_OF_SEARCH_A_BLOCK * len(blocks)
    rounds_to_the_bound = min(MAX_ROUNDS_TO_THE_BOUND, comparisons // pairs)
    latest, found = best, None
    seen: set[tuple[int, ...]] = set()  # an order that comes again brings nothing new
    for number in range(rounds):
        identity = tuple(map(id, order))
        if identity in seen:
            break
        seen.add(identity)
        if best.size <= bound * (1 if number < rounds_to_the_bound else GOOD_ENOUGH):
            break
        ends = [offset + block.nbytes for offset, block in zip(latest.offsets, blocks, strict=True)]
        farthest = blocks[ends.index(max(ends))]
        at = order.index(farthest)
        order = [*order[: at // 2], farthest, *order[at // 2 : at], *order[at + 1 :]]
        latest = _place_in_order(blocks, order, fit)
        if found is None or latest.size < found.size:
            found = latest
        if latest.size < best.size:
            best = latest
    return found


def _place_in_order(blocks: Sequence[Block], order: Sequence[Block], fit: Fit) -> _Placement:
    """Place each block of the order in a gap that fits it between placed blocks with which it overlaps in time."""
    placed: list[Block] = []
    offsets: list[int] = []
    size = 0
    for block in order:
        end_of_last, best_offset, best_gap = 0, -1, -1
        for other in _in_use_with(block, placed):  # by offset
            gap = other.offset - end_of_last
            if gap >= block.nbytes and (best_gap < 0 or gap < best_gap):
                best_offset, best_gap = end_of_last, gap
                if fit is Fit.FIRST:
                    break
            end_of_last = max(end_of_last, other.offset + other.nbytes)
        block.offset = best_offset if best_gap >= 0 else end_of_last
        at = bisect_left(offsets, block.offset)
        offsets.insert(at, block.offset)
        placed.insert(at, block)
        size = max(size, block.offset + block.nbytes)
    return _Placement(size, [block.offset for block in blocks])


def _in_use_with(block: Block, placed: Sequence[Block]) -> list[Block]:
    """The blocks that may be in use at the same time as another one, in their order."""
    first, last = block.first, block.last
    if block.begins_in is None and block.ends_in is None:
        return [other for other in placed if other.first <= last and other.last >= first]
    return [
        other
        for other in placed
        if (other.first <= last or _are_unordered(block, other))
        and (other.last >= first or _are_unordered(other, block))
    ]


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
