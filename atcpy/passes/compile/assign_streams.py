"""Streams and events: collectives have a stream of their own, as GE's independent engines do.

Tasks of one stream run in order. Where a task of one stream needs what a task of the other makes, or uses memory that
the other still uses, it waits for an event that the other records. Of several such tasks it waits for the last, and
not where one before it on its stream has waited for that one or a later one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from atcpy.ir import Engine, Region, Task
from atcpy.ir.tensor import Array

COMPUTE, COLLECTIVES = 0, 1


def assign_streams(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """The tasks with their streams and events; those of a graph without collectives as they are."""
    streams = [COLLECTIVES if task.engine is Engine.HCCL else COMPUTE for task in tasks]
    if COLLECTIVES not in streams:
        return tuple(tasks)
    waits = _waits(_needed(tasks, streams), streams)
    events = {recorder: event for event, recorder in enumerate(sorted(waits.values()), 1)}
    return tuple(
        replace(
            task,
            stream=streams[number],
            event_wait=events[waits[number]] if number in waits else 0,
            event_record=events.get(number, 0),
        )
        for number, task in enumerate(tasks)
    )


def _needed(tasks: Sequence[Task], streams: Sequence[int]) -> list[int]:
    """For each task the last before it on the other stream that uses the same memory, which either writes; or -1."""
    uses = _uses(tasks)
    number, space, first, end, writes = uses.T
    on_other = np.array(streams)[number] == COMPUTE
    needed = np.full(len(tasks), -1)
    for collective, place, low, high, changes in uses[~on_other]:
        shared = on_other & (space == place) & (first < high) & (end > low) & ((writes != 0) | (changes != 0))
        others = number[shared]
        needed[collective] = max(needed[collective], others[others < collective].max(initial=-1))
        needed[others[others > collective]] = collective  # collectives come in order: the last one stays
    return [int(other) for other in needed]


def _uses(tasks: Sequence[Task]) -> Array:
    """A row for each operand whose memory changes: task, which memory, first byte, behind the last, is it written."""
    rows = [
        (number, slot.index if slot.region is Region.OUTPUT else -1, slot.offset, slot.offset + slot.nbytes, writes)
        for number, task in enumerate(tasks)
        for slots, writes in ((task.src, False), (task.dst, True))
        for slot in slots
        if slot is not None and slot.region in (Region.ARENA, Region.OUTPUT) and slot.nbytes
    ]
    return np.array(rows, np.int64).reshape(-1, 5)


def _waits(needed: Sequence[int], streams: Sequence[int]) -> dict[int, int]:
    """The tasks that wait, and for which; none of them for one that its stream has waited for."""
    waits: dict[int, int] = {}
    known = [-1, -1]
    for number, other in enumerate(needed):
        if other > known[streams[number]]:
            waits[number] = known[streams[number]] = other
    return waits
