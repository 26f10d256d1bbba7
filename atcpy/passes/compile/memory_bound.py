"""The lower bound of a memory plan: the blocks that are in use at one moment, which no plan can let share bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

ALIGNMENT = 64


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


@dataclass(frozen=True, slots=True)
class Peak:
    """The most bytes that are in use at once, the first task at which they may be, and the blocks that have them."""

    nbytes: int
    task: int
    blocks: tuple[Block, ...]


def find_peak(blocks: Sequence[Block], sections: Sequence[range] = ()) -> Peak:
    """Return the peak of blocks; `sections` are the tasks of each section, whose streams may all be at their peaks."""
    best = _peak_in_order(blocks)
    if not sections or not blocks:
        return best
    of_sections = _uses_of_sections(blocks, sections)
    largest = max(of_sections, key=lambda use: use.nbytes)
    return largest.peak(blocks) if largest.nbytes > best.nbytes else best


def _peak_in_order(blocks: Sequence[Block]) -> Peak:
    """Return the peak of tasks that run one after the other."""
    events = sorted(
        [(block.first, 1, block.nbytes) for block in blocks] + [(block.last + 1, 0, -block.nbytes) for block in blocks]
    )
    alive = nbytes = task = 0
    for at, _, change in events:
        alive += change
        if alive > nbytes:
            nbytes, task = alive, at
    return Peak(nbytes, task, tuple(block for block in blocks if block.first <= task <= block.last))


@dataclass(slots=True)
class _SectionUse:
    """Bytes that a section may use at once: those in use throughout, and the peaks of its streams."""

    tasks: range
    nbytes: int
    of_streams: set[Block] = field(default_factory=set)
    at_peaks: list[Block] = field(default_factory=list)

    def peak(self, blocks: Sequence[Block]) -> Peak:
        """Return the bytes with the blocks that have them."""
        start = self.tasks.start
        throughout = [b for b in blocks if b.first <= start <= b.last and b not in self.of_streams]
        return Peak(self.nbytes, start, (*throughout, *self.at_peaks))


def _uses_of_sections(blocks: Sequence[Block], sections: Sequence[range]) -> list[_SectionUse]:
    changes = [0] * (max(block.last for block in blocks) + 2)
    of_streams: dict[tuple[int, int], list[Block]] = defaultdict(list)
    for block in blocks:
        changes[block.first] += block.nbytes
        changes[block.last + 1] -= block.nbytes
        for place in dict.fromkeys(filter(None, (block.begins_in, block.ends_in))):
            of_streams[place].append(block)
    alive = list(accumulate(changes))
    uses = [_SectionUse(tasks, alive[tasks.start] if tasks.start < len(alive) else 0) for tasks in sections]
    for (number, stream), own in of_streams.items():
        tasks, use = sections[number], uses[number]
        within = {
            Block(
                block.nbytes,
                block.first if block.begins_in == (number, stream) else tasks.start,
                block.last if block.ends_in == (number, stream) else tasks.stop,
            ): block
            for block in own
        }
        peak = _peak_in_order(list(within))
        use.nbytes += peak.nbytes - sum(block.nbytes for block in own if block.first <= tasks.start <= block.last)
        use.of_streams.update(own)
        use.at_peaks += [within[block] for block in peak.blocks]
    return uses
