"""What `Run.execute` notes of the tasks: totals, and events of bounded number."""

from __future__ import annotations

import time

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from tests.kernels.test_streams import WIDTH, load, many_small_tasks
from tests.models_in_text import package

LOOP = """m (int64 t, float[4] x) => (float[4] y) <bool c = {1}> {
    e = Exp(x)
    y = Loop<body = b (int64 i, bool p, float[4] a) => (bool q, float[4] z) { q = Identity(p) z = Mul(a, e) }>(t, c, x)
}"""
START, END, TASK, THREAD = range(4)


def streams_run(streams: int, tasks: int, threads: int) -> tuple[_kernels.Run, int]:
    records = many_small_tasks(streams, tasks)
    return load(*records, threads=threads).start([np.zeros(WIDTH, np.uint8)], []), len(records)


def noted(run: _kernels.Run, tasks: int, room: int, before: int = 0) -> tuple[Array, Array, int]:
    totals, memory = np.zeros((tasks, 2), np.int64), np.full((room + 1000, 4), -1, np.int64)
    used = run.execute(0, tasks, totals, memory[:room], before)
    assert (memory[room:] == -1).all(), "written beyond the room"
    return totals, memory[:room], used


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_each_launch_is_an_event_and_those_of_a_stream_follow_each_other(threads: int) -> None:
    streams, tasks = 4, 100
    run, count = streams_run(streams, tasks, threads)
    began = time.monotonic_ns()
    totals, events, used = noted(run, count, 1000)
    ended = time.monotonic_ns()
    assert used == count - 1, "the section itself is no launch"
    events = events[:used]
    assert sorted(events[:, TASK]) == list(range(1, count))
    assert began <= events[:, START].min() and events[:, END].max() <= ended
    assert set(events[:, THREAD]) <= set(range(threads))
    for stream in range(streams):
        first = 1 + stream * tasks
        own = events[(events[:, TASK] >= first) & (events[:, TASK] < first + tasks)]
        own = own[np.argsort(own[:, TASK])]
        assert (own[:, START] <= own[:, END]).all()
        assert (own[:-1, END] <= own[1:, START]).all()
    elapsed = np.bincount(events[:, TASK], events[:, END] - events[:, START], count)
    np.testing.assert_array_equal(totals[1:, 0], elapsed[1:])
    assert (totals[1:, 1] == 1).all()


def test_events_beyond_the_room_are_counted_and_added_up_but_not_kept() -> None:
    run, count = streams_run(2, 50, 2)
    totals, events, used = noted(run, count, room=30, before=10)
    assert used == 10 + count - 1
    assert (events[:10] == -1).all() and (events[10:] >= 0).all()
    assert (totals[1:, 1] == 1).all()


@pytest.mark.parametrize("room", [0, 5])
def test_no_room_is_no_event(room: int) -> None:
    run, count = streams_run(2, 50, 1)
    totals, events, used = noted(run, count, room, before=room)
    assert used == room + count - 1
    assert (events == -1).all()
    assert totals[:, 1].sum() == count - 1


def test_totals_are_added_to() -> None:
    run, count = streams_run(2, 50, 1)
    totals, events = np.zeros((count, 2), np.int64), np.zeros((1000, 4), np.int64)
    used = run.execute(0, count, totals, events, 0)
    assert run.execute(0, count, totals, events, used) == 2 * used
    assert (totals[1:, 1] == 2).all()


def test_a_task_in_a_loop_is_an_event_each_time_and_the_loop_is_none() -> None:
    session = InferenceSession(package(LOOP), threads=1)
    x, trips = np.ones(4, np.float32), np.array(3)
    session.run(None, {"t": trips, "x": x})
    [plan] = session.plans
    y = np.empty(4, np.float32)
    run = plan.plan.start([trips, x], [y])
    kernels = [task.kernel for task in plan.tasks]
    totals, events, used = noted(run, len(kernels), 100)
    counts = dict(zip(kernels, totals[:, 1].tolist(), strict=True))
    assert counts["loop"] == 4, "three decisions to go on, and the end"
    loop = kernels.index("loop")
    launches = np.bincount(events[:used, TASK], minlength=len(kernels))
    assert launches[loop] == 0
    assert launches.sum() == used == totals[:, 1].sum() - 4
    assert launches.max() == 3
    np.testing.assert_allclose(y, np.exp(1) ** 3, rtol=1e-5)


def test_without_buffers_nothing_is_counted() -> None:
    run, count = streams_run(2, 50, 1)
    assert run.execute(0, count) == 0


@pytest.mark.parametrize(
    ("tasks", "columns", "before"),
    [(-1, 4, 0), (1, 4, 0), (0, 3, 0), (0, 4, -1)],
    ids=["few", "many", "odd", "negative"],
)
def test_buffers_of_other_sizes_are_refused(tasks: int, columns: int, before: int) -> None:
    run, count = streams_run(1, 4, 1)
    totals, events = np.zeros((count + tasks, 2), np.int64), np.zeros((1, columns), np.int64)
    with pytest.raises(ValueError, match="two int64 a task"):
        run.execute(0, count, totals, events, before)
    assert not totals.any()


def test_totals_need_events_and_both_are_written() -> None:
    run, count = streams_run(1, 4, 1)
    totals, events = np.zeros((count, 2), np.int64), np.zeros((9, 4), np.int64)
    with pytest.raises(TypeError):
        run.execute(0, count, totals)
    for read_only in (totals, events):
        read_only.flags.writeable = False
        with pytest.raises((BufferError, ValueError)):
            run.execute(0, count, totals, events)
        read_only.flags.writeable = True
    assert run.execute(0, count, totals, events) == count - 1
