"""Records of control flow: how often their tasks run, and what the loader refuses."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest

from atcpy.ir import DType, Region, Slot, TensorDesc
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from atcpy.kernels.record import HOST_FAMILY
from atcpy.kernels.table import pack_params, pack_task

I64, BOOL = DType.INT64, DType.BOOL
STREAM_AT = 28  # of event_wait and event_record in a record
ARENA_BYTES = 64
LIMIT = 1_000_000  # iterations of a loop that does not count


def slot(region: Region, index: int = 0, *, dtype: DType = I64, count: int = 1, offset: int = 0) -> Slot:
    desc = TensorDesc.plain(dtype, (count,))
    return Slot(region, offset, desc.nbytes, desc, index)


CONDITION = slot(Region.INPUT, 0, dtype=BOOL)
TRIPS = slot(Region.INPUT, 1)
COUNTER = slot(Region.ARENA)
RESULT = slot(Region.OUTPUT)


def branch(then_tasks: int, else_tasks: int, condition: Slot | None = CONDITION) -> bytes:
    return pack_task("if", [condition], [], pack_params("if", {"then_tasks": then_tasks, "else_tasks": else_tasks}))


def loop(body_tasks: int, trip_count: int = -1, sources: Sequence[Slot | None] = (None, None)) -> bytes:
    params = pack_params("loop", {"body_tasks": body_tasks, "trip_count": trip_count})
    return pack_task("loop", sources, [COUNTER], params)


def fill(value: int) -> bytes:
    """Set the output."""
    params = {"rank": 1, "dims": [1], "src_strides": [0], "dst_strides": [1], "item": 8, "value": value}
    return pack_task("strided_copy", [], [RESULT], pack_params("strided_copy", params))


def count_up() -> bytes:
    """Copy the counter to the output."""
    params = pack_params("strided_copy", {"rank": 1, "dims": [1], "src_strides": [1], "dst_strides": [1], "item": 8})
    return pack_task("strided_copy", [COUNTER], [RESULT], params)


def load(*records: bytes) -> _kernels.Plan:
    return _kernels.Plan(b"".join(records), None, ARENA_BYTES, [1, 8], [8], 1)


def run(*records: bytes, condition: bool = True, trips: int = 0, before: int = -7) -> int:
    """Run tasks, and return their output, which is `before` if they do not write it and nobody clears it."""
    plan, result = load(*records), np.full(1, before, np.int64)
    feeds: list[Array] = [np.array([condition]), np.array([trips])]
    plan.start([*feeds], [result]).execute(0, len(records))
    return int(result[0])


@pytest.mark.parametrize(("condition", "expected"), [(True, 1), (False, 2)])
def test_an_if_runs_one_branch(condition: bool, expected: int) -> None:
    assert run(branch(1, 1), fill(1), fill(2), condition=condition) == expected


def test_an_empty_branch_leaves_what_was_there() -> None:
    assert run(fill(5), branch(0, 1), fill(2), condition=True) == 5
    assert run(fill(5), branch(1, 0), fill(2), condition=False) == 5
    assert run(fill(5), branch(0, 0), condition=False) == 5


@pytest.mark.parametrize(("trips", "expected"), [(-1, 9), (0, 9), (1, 0), (2, 1), (5, 4)])
def test_a_loop_counts_to_its_operand(trips: int, expected: int) -> None:
    assert run(fill(9), loop(1, sources=(TRIPS, None)), count_up(), trips=trips) == expected


@pytest.mark.parametrize(("trips", "expected"), [(0, 9), (1, 0), (3, 2)])
def test_a_loop_counts_to_its_argument(trips: int, expected: int) -> None:
    assert run(fill(9), loop(1, trips), count_up()) == expected


def test_a_loop_whose_condition_is_false_does_not_begin() -> None:
    assert run(fill(9), loop(1, 3, (None, CONDITION)), count_up(), condition=False) == 9


@pytest.mark.parametrize("sources", [(TRIPS, CONDITION), (None, CONDITION), (None, None)])
def test_a_loop_that_does_not_count_is_stopped(sources: Sequence[Slot | None]) -> None:
    trips = 2**63 - 1  # no count: what exporters write for one that only its condition ends
    with pytest.raises(_kernels.Fault) as raised:
        run(fill(9), loop(1, -1, sources), count_up(), trips=trips)
    task, _, value, bound = raised.value.args
    assert (task, value, bound) == (1, LIMIT, LIMIT)


def test_a_loop_may_count_beyond_the_limit() -> None:
    trips = LIMIT + 1
    assert run(fill(9), loop(1, sources=(TRIPS, None)), count_up(), trips=trips) == LIMIT
    assert run(fill(9), loop(1, trips), count_up()) == LIMIT


def test_loops_and_branches_within_each_other() -> None:
    body = (branch(2, 1), loop(1, 4), count_up(), fill(3))
    assert run(fill(9), loop(4, 2), *body, condition=True) == 3
    assert run(fill(9), loop(4, 2), *body, condition=False) == 3


@pytest.mark.parametrize("records", [(branch(1, 0), fill(1)), (branch(0, 1), fill(1)), (loop(1, 0), fill(1))])
def test_an_output_that_may_stay_unwritten_is_cleared(records: tuple[bytes, ...]) -> None:
    is_then = records[0] == branch(1, 0)
    assert run(*records, condition=not is_then) == 0
    assert run(*records, fill(4), condition=not is_then) == 4
    assert run(fill(4), *records, condition=not is_then) == 4


REFUSED = {
    "more tasks than there are": ((fill(0), branch(1, 1), fill(1)), "beyond"),
    "a body beyond the branch that it is in": ((branch(1, 1), loop(1, 1), fill(1)), "beyond"),
    "a branch beyond its loop": ((loop(2, 1), branch(1, 1), fill(1), fill(2)), "beyond"),
    "a negative number of tasks": ((branch(-1, 1), fill(1)), "out of range"),
    "a huge number of tasks": ((fill(1), loop(2**31 - 1, 1)), "out of range"),
    "a trip count below none": ((loop(1, -2), fill(1)), "out of range"),
    "a trip count that no size has": ((loop(1, 2**47), fill(1)), "out of range"),
    "no condition": ((branch(1, 1, None), fill(1), fill(2)), "condition"),
    "a condition of eight bytes": ((branch(1, 1, TRIPS), fill(1), fill(2)), "condition"),
    "a loop's condition of eight bytes": ((loop(1, 1, (None, TRIPS)), fill(1)), "condition"),
    "a trip count of one byte": ((loop(1, 1, (CONDITION, None)), fill(1)), "trip count"),
    "an output that no task writes": ((branch(0, 0),), "writes output"),
    "a task of the host in a body": ((loop(1, 1), pack_task(HOST_FAMILY, [], [RESULT], b""), fill(1)), "host"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    records, reason = REFUSED[name]
    with pytest.raises(_kernels.Refused, match=reason):
        load(*records)


def test_a_counter_of_another_type_is_refused() -> None:
    record = pack_task("loop", [None, None], [slot(Region.ARENA, dtype=DType.INT32)], pack_params("loop", {}))
    with pytest.raises(_kernels.Refused, match="counter"):
        load(record, fill(1))


def test_operands_that_are_missing_are_refused() -> None:
    for record in (
        pack_task("if", [], [], pack_params("if", {})),
        pack_task("loop", [None], [COUNTER], pack_params("loop", {})),
        pack_task("loop", [None, None], [], pack_params("loop", {})),
    ):
        with pytest.raises(_kernels.Refused, match="number of operands"):
            load(record, fill(1))


@pytest.mark.parametrize(("depth", "is_loaded"), [(31, True), (32, False)])
def test_bodies_are_nested_to_a_depth(depth: int, is_loaded: bool) -> None:
    """A loop is one of 32 regions; the innermost must leave room for the two of an If."""
    records = [loop(depth - level, 1) for level in range(depth)]
    if is_loaded:
        assert run(fill(9), *records, fill(1)) == 1
    else:
        with pytest.raises(_kernels.Refused, match="too deeply"):
            load(fill(9), *records, fill(1))


def with_events(record: bytes, waits: int = 0, records: int = 0) -> bytes:
    """The record with the numbers of the events that it waits for and records."""
    return record[: STREAM_AT + 4] + struct.pack("<II", waits, records) + record[STREAM_AT + 12 :]


def test_no_event_is_recorded_or_waited_for_in_a_body() -> None:
    first, recording, waiting = (
        with_events(fill(1), records=1),
        with_events(fill(1), records=2),
        with_events(fill(1), 1),
    )
    load(first, recording, waiting)
    for record in (recording, waiting):
        with pytest.raises(_kernels.Refused, match="event"):
            load(first, loop(1, 1), record, fill(1))
