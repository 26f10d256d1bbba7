"""The bytes of writable memory that tasks read and write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from atcpy.ir import Region, Slot, Task


class TaskAccess(NamedTuple):
    """Operand number `operand` of a task, sources before results: bytes `first` to before `end` of the arena (memory 0)
    or of output `memory - 1`.
    """

    operand: int
    memory: int
    first: int
    end: int
    writes: bool


def task_accesses(task: Task) -> Iterator[TaskAccess]:
    """Yield the operands of a task that have bytes in the arena or in an output; a task reads before it writes."""
    operands: tuple[Slot | None, ...] = (*task.src, *task.dst)
    for number, slot in enumerate(operands):
        if slot is not None and slot.nbytes and slot.region in (Region.ARENA, Region.OUTPUT):
            memory = 0 if slot.region is Region.ARENA else 1 + slot.index
            yield TaskAccess(number, memory, slot.offset, slot.offset + slot.nbytes, number >= len(task.src))
