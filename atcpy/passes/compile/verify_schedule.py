"""Checks that tasks find in memory what they are to read, whichever stream runs ahead; the pipeline does so in tests
and under --debug.

Two tasks that use a byte which one of them writes must be in order: by their stream, by an event, or since a section
ends before what comes behind it (the happens-before relation of Lamport, "Time, Clocks, and the Ordering of Events in a
Distributed System", 1978). And a byte that is read must have been written last through the buffer that is read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from atcpy.errors import InternalError
from atcpy.ir import Engine, Task
from atcpy.passes.compile.form_streams import task_sections
from atcpy.passes.compile.task_accesses import task_accesses

# The buffers of a task's operands, sources before results; None where an operand is left out.
BuffersOfTask = Sequence[Hashable | None]


def verify_schedule(tasks: Sequence[Task], buffers: Sequence[BuffersOfTask]) -> None:
    """Raises InternalError, naming two tasks, if they may meet in memory."""
    for problem in violations(tasks, buffers):
        raise InternalError(f"the schedule is wrong: {problem}")


def violations(tasks: Sequence[Task], buffers: Sequence[BuffersOfTask]) -> Iterator[str]:
    """What is wrong with the order and the memory of tasks; `buffers` are those of each."""
    order = _Order(tasks)
    for accesses in _accesses(tasks, buffers).values():
        yield from _violations(tasks, order, accesses)


class _Order:
    """Which tasks have surely ended when another one begins."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._streams = [task.stream for task in tasks]
        self._is_collective = [task.engine is Engine.HCCL and task.stream > 0 for task in tasks]
        self._owner = list(range(len(tasks)))  # of tasks in a section: its record, which waits and records for them
        for section in task_sections(tasks):
            for number in section.numbers:
                self._owner[number] = section.first - 1
        self._known = self._others_that_ended(tasks)

    def _others_that_ended(self, tasks: Sequence[Task]) -> list[int]:
        """For each task, the last one of the other kind (collectives, and all else) before it."""
        recorded: dict[int, int] = {}
        latest = [-1, -1]
        known: list[int] = []
        for number, task in enumerate(tasks):
            kind = self._is_collective[number]
            if task.event_wait:
                latest[kind] = max(latest[kind], recorded.get(task.event_wait, -1))
            known.append(latest[kind])
            if task.event_record:
                recorded[task.event_record] = number
        return known

    def is_before(self, earlier: int, later: int) -> bool:
        """Whether the earlier task of the list has surely ended."""
        first, second = self._owner[earlier], self._owner[later]
        if first == second:
            return earlier == first or self._streams[earlier] == self._streams[later]
        if self._is_collective[earlier] == self._is_collective[later]:
            return True
        return self._known[second] >= first


@dataclass(frozen=True, slots=True)
class _Access:
    number: int
    begin: int
    end: int
    writes: bool
    buffer: Hashable


@dataclass(slots=True)
class _Bytes:
    """Bytes that all accesses treat alike: who wrote them last, and who read them since."""

    writer: _Access | None = None
    readers: list[int] = field(default_factory=list)


def _accesses(tasks: Sequence[Task], buffers: Sequence[BuffersOfTask]) -> dict[int, list[_Access]]:
    """The accesses to each memory that tasks write, in their order."""
    found: dict[int, list[_Access]] = defaultdict(list)
    for number, (task, owners) in enumerate(zip(tasks, buffers, strict=True)):
        for access in task_accesses(task):
            own = _Access(number, access.first, access.end, access.writes, owners[access.operand])
            found[access.memory].append(own)
    return found


def _violations(tasks: Sequence[Task], order: _Order, accesses: Sequence[_Access]) -> Iterator[str]:
    borders = sorted({border for access in accesses for border in (access.begin, access.end)})
    pieces = [_Bytes() for _ in borders]
    for access in accesses:
        for piece in pieces[bisect_left(borders, access.begin) : bisect_left(borders, access.end)]:
            yield from _problems(tasks, order, access, piece)
            if access.writes:
                piece.writer, piece.readers = access, []
            else:
                piece.readers.append(access.number)


def _problems(tasks: Sequence[Task], order: _Order, access: _Access, piece: _Bytes) -> Iterator[str]:
    task, writer = tasks[access.number], piece.writer
    if writer is not None and writer.number != access.number and not order.is_before(writer.number, access.number):
        yield f"{task.node} does not wait for {tasks[writer.number].node}, which writes its memory"
    if writer is not None and not access.writes and writer.buffer != access.buffer:
        yield f"{task.node} reads what {tasks[writer.number].node} has overwritten"
    for reader in piece.readers if access.writes else ():
        if reader != access.number and not order.is_before(reader, access.number):
            yield f"{task.node} does not wait for {tasks[reader].node}, which reads its memory"
