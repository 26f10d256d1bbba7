"""Streams and events of collectives: they have a stream of their own, as GE's independent engines do.

Tasks of one stream run in order. A task that reads what a task of the other stream writes, or reuses memory that the
other still uses, waits for an event that the other records. Of several such tasks it waits for the last one only, and
does not wait if an earlier task of its stream already waited for that one or a later one. A section of streams
(form_streams.py) waits and records as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from atcpy.ir import Engine, Task
from atcpy.ir.tensor import Array
from atcpy.passes.compile.form_streams import task_sections
from atcpy.passes.compile.task_accesses import task_accesses


def assign_streams(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Return the tasks with streams and events; unchanged in a graph without collectives."""
    is_collective = [task.engine is Engine.HCCL for task in tasks]
    if not any(is_collective):
        return tuple(tasks)
    waits = _waits(_dependencies(tasks, is_collective), is_collective)
    events = {recorder: event for event, recorder in enumerate(sorted(waits.values()), 1)}
    collectives = 1 + max(task.stream for task in tasks)
    return tuple(
        replace(
            task,
            stream=collectives if is_collective[number] else task.stream,
            event_wait=events[waits[number]] if number in waits else 0,
            event_record=events.get(number, 0),
        )
        for number, task in enumerate(tasks)
    )


def _dependencies(tasks: Sequence[Task], is_collective: Sequence[bool]) -> list[int]:
    """For each task, the last earlier task of the other stream that shares memory with it which one of them writes;
    -1 if there is none.
    """
    accesses = _accesses(tasks)
    number, memory, first, end, writes = accesses.T
    on_other = ~np.array(is_collective)[number]
    last = np.full(len(tasks), -1)
    for collective, own_memory, low, high, changes in accesses[~on_other]:
        shared = on_other & (memory == own_memory) & (first < high) & (end > low) & ((writes != 0) | (changes != 0))
        others = number[shared]
        last[collective] = max(last[collective], others[others < collective].max(initial=-1))
        last[others[others > collective]] = collective  # collectives come in order: the last one stays
    return [int(other) for other in last]


def _accesses(tasks: Sequence[Task]) -> Array:
    """A row for each access: task, or the record of its section, memory, first byte, end, whether it is written."""
    owners = {number: section.first - 1 for section in task_sections(tasks) for number in section.numbers}
    rows = [
        (owners.get(number, number), access.memory, access.first, access.end, access.writes)
        for number, task in enumerate(tasks)
        for access in task_accesses(task)
    ]
    return np.array(rows, np.int64).reshape(-1, 5)


def _waits(dependencies: Sequence[int], is_collective: Sequence[bool]) -> dict[int, int]:
    """Map each task that waits to the task that it waits for, without waits that an earlier one implies."""
    waits: dict[int, int] = {}
    waited = [-1, -1]  # of each stream
    for number, other in enumerate(dependencies):
        if other > waited[is_collective[number]]:
            waits[number] = waited[is_collective[number]] = other
    return waits
