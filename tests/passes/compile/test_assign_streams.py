"""Streams and events: whatever shares memory is in order, whichever stream runs ahead."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from atcpy.ir import DType, Engine, Region, Slot, Task, TensorDesc
from atcpy.kernels import _kernels
from atcpy.kernels.table import pack_task
from atcpy.om.container import Partition
from atcpy.om.reader import parse_package
from atcpy.om.schema.task_pb2 import ModelTaskDef
from atcpy.passes.compile.assign_streams import assign_streams
from tests.models_in_text import package

DESC = TensorDesc.plain(DType.UINT8, (1,))


def task(engine: Engine, src: list[tuple[int, int]], dst: tuple[int, int]) -> Task:
    slots = [Slot(Region.ARENA, first, end - first, DESC) for first, end in (*src, dst)]
    return Task("n", 0, "Op", engine, "host", tuple(slots[:-1]), (slots[-1],), b"", (), ())


def share(one: Task, other: Task) -> bool:
    """Is there a byte that both use and one of them writes?"""

    def uses(task: Task) -> list[tuple[set[tuple[int, ...]], bool]]:
        sides = ((task.src, False), (task.dst, True))
        return [(bytes_of(slot), writes) for side, writes in sides for slot in side if slot is not None]

    def bytes_of(slot: Slot) -> set[tuple[int, ...]]:
        return {(slot.region, slot.index, slot.offset + at) for at in range(slot.nbytes)}

    return any(a & b and (v or w) for a, v in uses(one) for b, w in uses(other))


def come_before(tasks: tuple[Task, ...]) -> list[set[int]]:
    """For each task those that surely have ended when it starts: by its stream, and by what it waits for."""
    recorded: dict[int, int] = {}
    last: dict[int, int] = {}
    before: list[set[int]] = []
    for number, each in enumerate(tasks):
        reasons = [last[each.stream]] if each.stream in last else []
        if each.event_wait:
            reasons.append(recorded[each.event_wait])
        before.append({other for reason in reasons for other in (reason, *before[reason])})
        last[each.stream] = number
        if each.event_record:
            assert each.event_record == len(recorded) + 1
            recorded[each.event_record] = number
    return before


@pytest.mark.parametrize("seed", range(60))
def test_whatever_shares_memory_is_in_order(seed: int) -> None:
    rng = random.Random(seed)

    def part() -> tuple[int, int]:
        first = rng.randrange(12)
        return first, first + rng.randrange(4)

    engines = [Engine.HCCL if rng.random() < 0.4 else Engine.VECTOR for _ in range(rng.randrange(1, 14))]
    tasks = assign_streams([task(engine, [part() for _ in range(rng.randrange(3))], part()) for engine in engines])
    before = come_before(tasks)
    for one, other in combinations(range(len(tasks)), 2):
        if share(tasks[one], tasks[other]):
            assert one in before[other]
    assert [each.stream for each in tasks] == [int(engine is Engine.HCCL) for engine in engines]
    # Nobody waits for what it knew already, and nothing is recorded for nobody.
    waits = [each.event_wait for each in tasks if each.event_wait]
    assert sorted(waits) == [each.event_record for each in tasks if each.event_record]


MODEL = """g (float[8] x, float[8] y) => (float[8] a1, float[8] b1, float[8] c) {
    a = Exp(x)
    a0 = HcomAllReduce<reduction = "sum">(a)
    a1 = Neg(a0)
    b = Sin(y)
    b0 = HcomAllReduce<reduction = "max", group = "tp">(b)
    b1 = Neg(b0)
    c = Cos(y)
}"""


def test_collectives_are_tasks_of_hccl_on_a_stream_of_their_own() -> None:
    parsed = parse_package(package(MODEL))
    info = ModelTaskDef.FromString(bytes(parsed.container.partition(Partition.TASK_INFO)))
    kinds = [(each.type, each.stream_id, each.kernel_hccl.hccl_type) for each in info.task]
    assert sorted(kinds) == [(0, 0, "")] * 5 + [(6, 1, "HcomAllReduce")] * 2
    assert (parsed.stream_count, parsed.event_count) == (2, 4)


def test_a_graph_without_collectives_has_one_stream_and_no_events() -> None:
    parsed = parse_package(package("g (float[4] x) => (float[4] y) { z = Exp(x) y = Neg(z) }"))
    assert (parsed.stream_count, parsed.event_count) == (1, 0)


@pytest.mark.parametrize("events", [[(1, 0)], [(0, 2)], [(0, 1), (0, 1)], [(0, 1), (2, 2)], [(1, 1)]])
def test_events_out_of_order_are_refused(events: list[tuple[int, int]]) -> None:
    desc = TensorDesc.plain(DType.FLOAT32, (1,))
    slot = Slot(Region.ARENA, 0, 4, desc)
    records = b"".join(
        pack_task("host", [slot], [slot], b"", event_wait=wait, event_record=record) for wait, record in events
    )
    with pytest.raises(_kernels.Refused, match="events are out of order"):
        _kernels.Plan(records, memoryview(bytes(1)), 64, [], [], 1)
