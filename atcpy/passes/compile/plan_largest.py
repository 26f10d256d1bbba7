"""The memory plan of bounded dims: offsets that hold for all sizes, since each block has room for its largest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from atcpy.kernels.symbolic_program import BlockSize, Placement
from atcpy.passes.compile.memory_bound import Block, align
from atcpy.passes.compile.plan_memory import plan_memory

# A larger arena would reserve memory that most runs do not need, in each thread: runs place its blocks for their sizes.
MAX_PLANNED_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class LargestSizes:
    """The arena that the largest sizes need, 0 if they have no bound. `placements` are empty where runs place the
    blocks.
    """

    arena_bytes: int
    placements: tuple[Placement, ...]


def plan_largest(blocks: Sequence[BlockSize], max_sizes: Sequence[float], *, reuse: bool) -> LargestSizes:
    """Plan the memory of blocks that have at most these sizes in bytes."""
    if inf in max_sizes:
        return LargestSizes(0, ())
    largest = [Block(align(int(size)), block.first, block.last) for block, size in zip(blocks, max_sizes, strict=True)]
    memory = plan_memory(largest, reuse=reuse)
    if memory.arena_bytes > MAX_PLANNED_BYTES:
        return LargestSizes(memory.arena_bytes, ())
    return LargestSizes(memory.arena_bytes, tuple(Placement(block.offset, block.nbytes) for block in largest))
