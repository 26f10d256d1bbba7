"""Profiles of runs: each launch with its task, whatever a run consists of."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

import atcpy
from atcpy import InferenceSession
from atcpy.errors import UsageError
from atcpy.runtime.profile import Profile, TaskEvent
from tests.models_in_text import package

# Plans for all sizes, a body that runs again, a node of the host, and what is compiled for a shape of any rank.
EVERY_KIND = (
    "m (float[n] x, int64 t, int64[r] s) => (float[n] y, string[k] w, float[a] v) <bool c = {1}> {"
    " e = Exp(x) y = Loop<body = b (int64 i, bool p, float[n] a) => (bool q, float[n] z)"
    " { q = Identity(p) z = Mul(a, e) }>(t, c, x) u = Reshape(x, s) w = Cast<to = 8>(u) v = Neg(u) }"
)
FEEDS = {"x": np.ones(4, np.float32), "t": np.array(3), "s": np.array([4])}
HOST = "m (float[1,3,2] x) => (float[1,3,2] y) { a = Neg(x) d = DFT<inverse = 1>(a) y = Neg(d) }"
HOST_FEEDS = {"x": np.ones((1, 3, 2), np.float32)}


def by_stream(events: list[TaskEvent]) -> list[list[TaskEvent]]:
    streams = sorted({event.cost.stream for event in events})
    return [[event for event in events if event.cost.stream == stream] for stream in streams]


def check_order(profile: Profile) -> None:
    """Launches are within their run, and those of a stream follow each other."""
    events = profile.events()
    assert events
    for stream in by_stream(events):
        assert all(event.start_ns <= event.end_ns for event in stream)
        assert all(one.end_ns <= two.start_ns for one, two in itertools.pairwise(stream))
    runs = profile.runs
    assert all(one[1] <= two[0] for one, two in itertools.pairwise(runs))
    assert all(any(start <= event.start_ns and event.end_ns <= end for start, end in runs) for event in events)


def test_events_are_the_launches_that_the_totals_count() -> None:
    session = InferenceSession(package(EVERY_KIND), threads=1)
    profile = Profile()
    for number in range(3):
        [y, _, _] = session.run(None, FEEDS, profile=profile)
        np.testing.assert_allclose(y, np.full(4, np.e**3), rtol=1e-5)
        assert len(profile.runs) == number + 1
    check_order(profile)
    launches = Counter(event.task for event in profile.events())
    counted = {item.task: item.runs for item in profile.times() if item.task.op_type not in ("Loop", "If")}
    assert counted == launches
    assert {task.op_type: runs for task, runs in counted.items()} == {"Exp": 3, "Mul": 9, "Cast": 3, "Neg": 3} | {
        task.op_type: runs for task, runs in counted.items()
    }
    elapsed = sum(event.end_ns - event.start_ns for event in profile.events())
    seconds = sum(item.seconds for item in profile.times() if item.task.op_type not in ("Loop", "If"))
    assert seconds == pytest.approx(elapsed * 1e-9)


def test_a_task_of_the_host_between_tasks_in_c() -> None:
    session = InferenceSession(package(HOST), threads=1)
    profile = Profile()
    session.run(None, HOST_FEEDS, profile=profile)
    check_order(profile)
    events = profile.events()
    assert [event.task.engine for event in events] == ["VectorEngine", "HOST_CPU", "VectorEngine"]
    assert [event.task.sources for event in events] == [item.task.sources for item in profile.times()], (
        "the sources are the nodes of the model"
    )
    assert all(event.task.sources for event in events)


@pytest.mark.parametrize("room", [0, 1, 4, 6, 7])
def test_the_number_of_events_is_bounded_and_totals_are_not(room: int) -> None:
    session = InferenceSession(package(HOST), threads=1)
    profile = Profile(max_events=room)
    for _ in range(2):
        session.run(None, HOST_FEEDS, profile=profile)
    assert len(profile.events()) == min(room, 6)
    assert profile.dropped == max(0, 6 - room)
    assert [item.runs for item in profile.times()] == [2, 2, 2]


def test_less_than_no_events_are_refused() -> None:
    with pytest.raises(UsageError, match="less than 0"):
        Profile(max_events=-1)


def test_a_run_that_is_not_profiled_leaves_a_profile_alone() -> None:
    session = InferenceSession(package(HOST), threads=1)
    profile = Profile()
    session.run(None, HOST_FEEDS, profile=profile)
    session.run(None, HOST_FEEDS)
    assert len(profile.runs) == 1
    assert len(profile.events()) == 3


def test_several_sessions_share_a_profile() -> None:
    sessions = [InferenceSession(package(HOST), threads=1), InferenceSession(package(EVERY_KIND), threads=1)]
    profile = atcpy.Profile()
    for session, feeds in zip(sessions, (HOST_FEEDS, FEEDS), strict=True):
        session.run(None, feeds, profile=profile)
    check_order(profile)
    assert {event.task.op_type for event in profile.events()} >= {"DFT", "Exp"}


def test_memory_of_the_caller_is_written_by_a_profiled_run() -> None:
    session = InferenceSession(package("m (float[4] x) => (float[4] y) { y = Exp(x) }"), threads=1)
    profile, y = Profile(), np.zeros(4, np.float32)
    x = np.arange(4, dtype=np.float32)
    session.run(None, {"x": x}, out=[y], profile=profile)
    np.testing.assert_allclose(y, np.exp(x), rtol=1e-6)
    assert [event.task.op_type for event in profile.events()] == ["Exp"]


def test_memory_of_the_caller_is_filled_where_runs_cannot_write_it() -> None:
    session = InferenceSession(package(EVERY_KIND), threads=1)
    profile, y = Profile(), np.zeros(4, np.float32)
    session.run(["y"], FEEDS, out=[y], profile=profile)
    np.testing.assert_allclose(y, np.full(4, np.e**3), rtol=1e-5)
    check_order(profile)


def test_a_profiled_run_may_have_a_timeout() -> None:
    session = InferenceSession(package(HOST), threads=1)
    profile = Profile()
    session.run(None, HOST_FEEDS, timeout=60, profile=profile)
    assert len(profile.runs) == 1


def test_a_run_that_fails_is_no_run() -> None:
    session = InferenceSession(package(HOST), threads=1)
    profile = Profile()
    with pytest.raises(UsageError):
        session.run(None, {}, profile=profile)
    assert profile.runs == [] and profile.events() == []
    session.run(None, HOST_FEEDS, profile=profile)
    check_order(profile)


def test_results_are_those_of_a_run_that_is_not_profiled() -> None:
    session = InferenceSession(package("m (float[64,64] x) => (float[64,64] y) { a = MatMul(x, x) y = Softmax(a) }"))
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    [plain] = session.run(None, {"x": x})
    [profiled] = session.run(None, {"x": x}, profile=Profile())
    assert plain.tobytes() == profiled.tobytes()
