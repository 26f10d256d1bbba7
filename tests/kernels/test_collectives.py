"""Where a plan waits for collectives, and that it meets none of them in memory before."""

from __future__ import annotations

import random

import pytest

from atcpy.ir import DType, Region, Slot, TensorDesc
from atcpy.kernels import _kernels
from atcpy.kernels.table import pack_task

BYTE = TensorDesc.plain(DType.UINT8, (1,))
ROOM = 4096
MAX_UNDER_WAY = 16  # core/collectives.h

Range = tuple[Region, int, int, int]  # region, index, first byte, end


def slot(operand: Range) -> Slot:
    region, index, first, end = operand
    return Slot(region, first, end - first, BYTE, index)


def arena(first: int, end: int) -> Range:
    return Region.ARENA, 0, first, end


def record(src: list[Range], dst: list[Range], *, stream: int = 0, wait: int = 0, event: int = 0) -> bytes:
    """A task of the host: a collective if it has a stream."""
    order = {"stream": stream, "event_wait": wait, "event_record": event}
    return pack_task("host", [slot(each) for each in src], [slot(each) for each in dst], b"", **order)


def joins(*records: bytes, outputs: int = 0) -> list[int]:
    return _kernels.Plan(b"".join(records), None, ROOM, [8], [8] * outputs, 1).joins()


COLLECTIVE = record([arena(0, 8)], [arena(8, 16)], stream=1, event=1)


def test_without_collectives_there_is_nothing_to_wait_for() -> None:
    assert joins(record([arena(0, 8)], [arena(8, 16)]), record([], [arena(0, 8)])) == []


def test_a_task_waits_for_the_event_of_a_collective() -> None:
    other = record([arena(20, 24)], [arena(24, 28)])
    user = record([arena(8, 16)], [arena(0, 8)], wait=1)
    assert joins(other, COLLECTIVE, other, user, other) == [0, 0, 0, 1, 1]


def test_an_event_of_a_later_collective_says_that_the_earlier_ones_have_ended() -> None:
    later = record([arena(32, 40)], [arena(32, 40)], stream=1, event=1)
    user = record([arena(8, 16)], [arena(0, 8)], wait=1)
    assert joins(record([arena(0, 8)], [arena(8, 16)], stream=1), later, user) == [0, 0, 2]


def test_an_event_of_a_kernel_says_nothing_of_collectives() -> None:
    first = record([arena(40, 44)], [arena(44, 48)], event=1)
    collective = record([arena(0, 8)], [arena(8, 16)], stream=1, wait=1)
    user = record([arena(8, 16)], [arena(0, 8)], wait=1)
    with pytest.raises(_kernels.Refused, match="does not wait for a collective"):
        joins(first, collective, user)


INPUT, OUTPUT, OTHER = (Region.INPUT, 0, 0, 8), (Region.OUTPUT, 0, 0, 8), (Region.OUTPUT, 1, 0, 8)


@pytest.mark.parametrize(
    ("src", "dst", "is_refused"),
    [
        (arena(0, 8), arena(40, 48), False),  # both read
        (arena(8, 9), arena(40, 48), True),  # what the collective writes
        (arena(15, 16), arena(40, 48), True),
        (arena(16, 24), arena(40, 48), False),
        (arena(40, 48), arena(7, 8), True),  # what it reads is written
        (arena(40, 48), arena(15, 20), True),
        (arena(40, 48), arena(16, 20), False),
        (arena(8, 8), arena(40, 48), False),  # no bytes
        (INPUT, arena(40, 48), False),
    ],
)
def test_tasks_beside_a_collective_do_not_meet_it_in_memory(src: Range, dst: Range, is_refused: bool) -> None:
    task = record([src], [dst])
    if is_refused:
        with pytest.raises(_kernels.Refused, match="does not wait for a collective"):
            joins(COLLECTIVE, task)
    else:
        assert joins(COLLECTIVE, task) == [0, 0]


@pytest.mark.parametrize(("operand", "is_refused"), [(OUTPUT, True), (OTHER, False)])
def test_outputs_are_memories_of_their_own(operand: Range, is_refused: bool) -> None:
    collective = record([INPUT], [OUTPUT], stream=2)
    task = record([arena(0, 8)], [operand])
    if is_refused:
        with pytest.raises(_kernels.Refused, match="does not wait for a collective"):
            joins(collective, task, outputs=1)
    else:
        assert joins(collective, task, outputs=2) == [0, 0]


def test_so_many_collectives_are_under_way_at_most() -> None:
    collectives = [record([arena(n, n + 1)], [arena(n, n + 1)], stream=1) for n in range(MAX_UNDER_WAY + 3)]
    assert joins(*collectives) == [0] * MAX_UNDER_WAY + [0, 1, 2, 3][1:]
    # The first has ended by then, and its memory may be used.
    task = record([], [arena(0, 1)])
    assert joins(*collectives[: MAX_UNDER_WAY + 1], task)[-1] == 1
    with pytest.raises(_kernels.Refused, match="does not wait for a collective"):
        joins(*collectives[:MAX_UNDER_WAY], task)


@pytest.mark.parametrize("seed", range(40))
def test_random_lists_are_refused_if_a_task_meets_what_is_under_way(seed: int) -> None:
    rng = random.Random(seed)
    tasks: list[tuple[bool, tuple[int, int], tuple[int, int], int, int]] = []
    events = 0
    for _ in range(rng.randrange(2, 14)):
        (a, b), (c, d) = sorted(rng.sample(range(40), 2)), sorted(rng.sample(range(40, 80), 2))
        is_collective, wait = rng.random() < 0.4, rng.randrange(events + 1)
        event = events + 1 if rng.random() < 0.5 else 0
        events += event > 0
        ranges = [(a, b), (c, d)]
        rng.shuffle(ranges)
        tasks.append((is_collective, ranges[0], ranges[1], wait, event))
    records = [
        record([arena(*src)], [arena(*dst)], stream=int(one), wait=wait, event=event)
        for one, src, dst, wait, event in tasks
    ]
    expected, meets = _expected_joins(tasks)
    if meets:
        with pytest.raises(_kernels.Refused, match="does not wait for a collective"):
            joins(*records)
    else:
        assert joins(*records) == (expected if any(one for one, *_ in tasks) else [])


def _expected_joins(tasks: list[tuple[bool, tuple[int, int], tuple[int, int], int, int]]) -> tuple[list[int], bool]:
    recorded: dict[int, int] = {}
    under_way: list[tuple[set[int], set[int]]] = []
    ended, expected, meets = 0, [], False
    for is_collective, src, dst, wait, event in tasks:
        ended = max(ended, recorded.get(wait, 0))
        reads, writes = set(range(*src)), set(range(*dst))
        if is_collective:
            under_way.append((reads, writes))
            recorded[event] = len(under_way) if event else 0
        else:
            meets |= any(writes & (read | written) or reads & written for read, written in under_way[ended:])
        expected.append(ended)
    return expected, meets
