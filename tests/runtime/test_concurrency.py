"""Runs in the background, and the CPUs and the number of the threads that run kernels."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from atcpy import InferenceSession
from atcpy.errors import ModelInvalid, ResourceLimit, Unsupported, UsageError
from atcpy.kernels import _kernels
from atcpy.runtime import workers
from atcpy.runtime.distributed.world import SingleRank
from atcpy.runtime.workers import choose_workers
from atcpy.threads import cpu_quota, default_threads, read_cpus
from tests.models_in_text import model, package

CPUS = sorted(os.sched_getaffinity(os.getpid()))
TEXT = "m (float[2,3] x, float[2,3] z) => (float[2,3] s, float[2,3] d) { s = Add(x, z) d = Sub(x, z) }"
PRODUCT = "m (float[400,400] x) => (float[400,400] y) { y = MatMul(x, x) }"  # work for several threads
FEEDS = {"x": np.full((2, 3), 5, np.float32), "z": np.full((2, 3), 2, np.float32)}
WAIT = 60  # seconds, for what takes milliseconds


@pytest.fixture(scope="module")
def session() -> InferenceSession:
    return InferenceSession(package(TEXT), threads=2)


@pytest.fixture
def cores() -> Iterator[Callable[[int], int]]:
    """Sets how many cores the process uses; afterwards it is as before."""
    before = _kernels.set_cores(1)
    _kernels.set_cores(before)
    yield _kernels.set_cores
    _kernels.set_cores(before)


Call = tuple[list[Any], Any, str]


def call_back(start: Callable[[Callable[[list[Any], Any, str], None]], object]) -> tuple[Call, int]:
    """What a callback got, and the number of its thread."""
    calls: list[tuple[Call, int]] = []
    is_called = threading.Event()

    def callback(results: list[Any], user_data: Any, error: str) -> None:
        calls.append(((results, user_data, error), threading.get_native_id()))
        is_called.set()

    start(callback)
    assert is_called.wait(WAIT)
    (call,) = calls
    return call


# ---- run_async


def test_a_callback_gets_what_that_of_onnxruntime_gets(session: InferenceSession) -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    theirs = onnxruntime.InferenceSession(model(TEXT).SerializeToString(), options)
    for names in (None, ["d"], ["d", "s"]):
        data = object()
        (ours, thread), (expected, _) = (
            call_back(lambda callback: run(names, FEEDS, callback, data))  # noqa: B023
            for run in (session.run_async, theirs.run_async)
        )
        assert thread != threading.get_native_id()
        assert ours[1] is data
        assert ours[2] == expected[2] == ""
        assert len(ours[0]) == len(expected[0])
        for mine, other in zip(ours[0], expected[0], strict=True):
            np.testing.assert_array_equal(mine, other, strict=True)


def test_a_callback_gets_the_text_of_an_error(session: InferenceSession) -> None:
    wrong = {**FEEDS, "x": np.zeros((2, 4), np.float32)}
    (results, data, error), _ = call_back(lambda callback: session.run_async(None, wrong, callback, 7))
    assert (results, data) == ([], 7)
    assert "E10405" in error
    assert 'input "x" needs [2, 3] float32' in error


def test_a_future_has_the_results_or_raises_the_error(session: InferenceSession) -> None:
    s, d = session.run_async(None, FEEDS).result(WAIT)
    np.testing.assert_array_equal(s, FEEDS["x"] + FEEDS["z"])
    np.testing.assert_array_equal(d, FEEDS["x"] - FEEDS["z"])
    for names, feeds, code in ((["y"], FEEDS, "E13031"), (None, {"x": FEEDS["x"]}, "E13025")):
        error = session.run_async(names, feeds).exception(WAIT)
        assert isinstance(error, UsageError)
        assert error.code == code
    gather = InferenceSession(package("m (float[4] x, int64[2] i) => (float[2] y) { y = Gather <axis = 0> (x, i) }"))
    late = gather.run_async(None, {"x": np.zeros(4, np.float32), "i": np.array([0, 4])})
    with pytest.raises(ModelInvalid, match="D0001"):
        late.result(WAIT)


def test_the_dict_of_feeds_may_be_changed_at_once(session: InferenceSession) -> None:
    feeds = dict(FEEDS)
    runs = []
    for number in range(50):
        feeds["x"] = np.full((2, 3), number, np.float32)
        runs.append(session.run_async(["s"], feeds))
    feeds.clear()
    assert [int(run.result(WAIT)[0][0, 0]) for run in runs] == [number + 2 for number in range(50)]


def test_it_returns_before_the_run_has_ended(session: InferenceSession) -> None:
    may_end = threading.Event()
    waiting = session.run_async(None, FEEDS, lambda results, data, error: may_end.wait(WAIT) and None)
    assert waiting.result(WAIT)
    behind = [session.run_async(None, FEEDS) for _ in range(4 * len(CPUS))]
    may_end.set()
    assert all(len(run.result(WAIT)) == 2 for run in behind)


def test_a_callback_that_raises_is_reported_and_the_next_run_works(
    session: InferenceSession, caplog: pytest.LogCaptureFixture
) -> None:
    def callback(results: list[Any], data: Any, error: str) -> None:
        raise ValueError("of the callback")

    for _ in range(2 * len(CPUS)):  # each thread
        assert len(session.run_async(None, FEEDS, callback).result(WAIT)) == 2
    assert len(session.run_async(None, FEEDS).result(WAIT)) == 2
    assert "of the callback" in caplog.text


def test_what_cannot_be_called_is_refused_at_once(session: InferenceSession) -> None:
    with pytest.raises(UsageError, match="the callback is str") as caught:
        session.run_async(None, FEEDS, "callback")  # type: ignore[arg-type]
    assert caught.value.code == "E10003"


def test_a_run_that_is_cancelled_while_it_waits_says_so() -> None:
    (results, data, error), _ = call_back(_cancel_a_run)
    assert (results, data, error) == ([], "data", "the run was cancelled")


def _cancel_a_run(callback: Callable[[list[Any], Any, str], None]) -> None:
    may_end = threading.Event()
    session = InferenceSession(package(TEXT), threads=1)
    blocked = [session.run_async(None, FEEDS, lambda *_: may_end.wait(WAIT) and None) for _ in range(64 + len(CPUS))]
    assert session.run_async(None, FEEDS, callback, "data").cancel()
    may_end.set()
    assert all(len(run.result(WAIT)) == 2 for run in blocked)


def test_a_timeout_counts(session: InferenceSession) -> None:
    product = InferenceSession(package("m (float[3000,3000] x) => (float[3000,3000] y) { y = MatMul(x, x) }"))
    error = product.run_async(None, {"x": np.ones((3000, 3000), np.float32)}, timeout=0.001).exception(WAIT)
    assert isinstance(error, ResourceLimit)
    assert error.code == "R0003"


def test_ranks_are_refused() -> None:
    class TwoRanks(SingleRank):
        ranks = 2  # type: ignore[assignment]

    session = InferenceSession(package(TEXT), threads=1, world=TwoRanks())
    with pytest.raises(Unsupported, match="same order"):
        session.run_async(None, FEEDS)


def test_a_child_of_a_fork_runs_in_the_background(session: InferenceSession) -> None:
    session.run_async(None, FEEDS).result(WAIT)
    child = os.fork()
    if child == 0:
        (s, _) = session.run_async(None, FEEDS).result(WAIT)
        os._exit(0 if np.array_equal(s, FEEDS["x"] + FEEDS["z"]) else 1)
    assert os.waitpid(child, 0)[1] == 0


# ---- Python's lock


def test_a_run_in_another_thread_needs_no_lock_of_python() -> None:
    """While the main thread keeps Python's lock, the run goes on to its last output."""
    size = 1500  # a product takes longer than the pause between two looks for signals
    text = f"m (float[{size},{size}] x) => (float[{size}] first, float[{size},{size}] last) " + (
        "{ axes = Constant <value_ints: ints = [1]> () first = ReduceSum <keepdims = 0> (x, axes) last = MatMul(x, x) }"
    )
    session = InferenceSession(package(text), threads=1)
    out = [np.zeros(size, np.float32), np.zeros((size, size), np.float32)]
    thread = threading.Thread(
        target=session.run, args=(None, {"x": np.ones((size, size), np.float32)}), kwargs={"out": out}
    )
    interval = sys.getswitchinterval()
    thread.start()
    while out[0][-1] == 0:
        time.sleep(0.0005)
    try:
        sys.setswitchinterval(1000)  # no thread gets the lock before this one waits for something
        end = time.monotonic() + 20
        while out[1][-1, -1] != size and time.monotonic() < end:  # sums grow in several steps
            pass
        assert out[1][-1, -1] == size
    finally:
        sys.setswitchinterval(interval)
        thread.join()


# ---- CPUs


def threads_by_cpus() -> dict[int, str]:
    """The CPUs on which each thread of this process may run, as the system lists them."""
    found: dict[int, str] = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            status = (task / "status").read_text(encoding="ascii")
        except OSError:  # it has ended
            continue
        found[int(task.name)] = next(
            line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list")
        )
    return found


def in_child(check: Callable[[], bool]) -> None:
    """`check` in a child, whose pool has no threads yet."""
    child = os.fork()
    if child == 0:
        is_right = False
        try:
            is_right = check()
        finally:
            os._exit(0 if is_right else 1)
    assert os.waitpid(child, 0)[1] == 0


def in_thread_on(cpu: int, function: Callable[[], object]) -> None:
    def bound() -> None:
        os.sched_setaffinity(0, {cpu})
        function()

    thread = threading.Thread(target=bound)
    thread.start()
    thread.join()


def run_until(session: InferenceSession, is_done: Callable[[], bool]) -> None:
    x = np.ones((400, 400), np.float32)
    end = time.monotonic() + WAIT
    while not is_done() and time.monotonic() < end:
        session.run(None, {"x": x})


@pytest.mark.skipif(len(CPUS) < 2, reason="there is one CPU")
def test_workers_run_on_the_cpus_of_the_session() -> None:
    def check() -> bool:
        session = InferenceSession(package(PRODUCT), threads=2, affinity=[CPUS[1]])
        before = set(threads_by_cpus())
        added: set[str] = set()

        def is_there() -> bool:
            others = {number: cpus for number, cpus in threads_by_cpus().items() if number not in before}
            others.pop(threading.get_native_id(), None)
            added.update(others.values())
            return str(CPUS[1]) in added

        # From another CPU: on this one, the caller itself is all that the CPU can run.
        in_thread_on(CPUS[0], lambda: run_until(session, is_there))
        return str(CPUS[1]) in added

    in_child(check)


@pytest.mark.skipif(len(CPUS) < 2, reason="there is one CPU")
def test_workers_of_all_cpus_do_not_inherit_those_of_the_first_caller(cores: Callable[[int], int]) -> None:
    def check() -> bool:
        session = InferenceSession(package(PRODUCT), threads=2)
        cores(4)
        whole = threads_by_cpus()[os.getpid()]
        before = set(threads_by_cpus())
        added: set[str] = set()

        def is_there() -> bool:
            others = {number: cpus for number, cpus in threads_by_cpus().items() if number not in before}
            others.pop(threading.get_native_id(), None)
            added.update(others.values())
            return whole in added

        in_thread_on(CPUS[0], lambda: run_until(session, is_there))
        return whole in added

    in_child(check)


def test_runs_in_the_background_are_on_the_cpus_of_the_session() -> None:
    session = InferenceSession(package(TEXT), threads=1, affinity=str(CPUS[-1]))
    (results, _, error), thread = call_back(lambda callback: session.run_async(None, FEEDS, callback))
    assert (len(results), error) == (2, "")
    assert threads_by_cpus()[thread] == str(CPUS[-1])


@pytest.mark.parametrize(
    ("affinity", "cpus"),
    [
        (str(CPUS[0]), {CPUS[0]}),
        (f"{CPUS[0]},{CPUS[-1]}", {CPUS[0], CPUS[-1]}),
        (f" {CPUS[0]} , {CPUS[0]}-{CPUS[0]}", {CPUS[0]}),
        ([CPUS[-1]], {CPUS[-1]}),
        (iter(CPUS), set(CPUS)),
    ],
)
def test_cpus_are_read(affinity: str | Iterable[int], cpus: set[int]) -> None:
    assert read_cpus(affinity) == cpus


@pytest.mark.skipif(not Path("/sys/devices/system/node/node0/cpulist").exists(), reason="the system has no nodes")
def test_a_node_is_its_cpus_that_the_process_may_use() -> None:
    assert read_cpus("node0")
    assert read_cpus("node0") <= set(CPUS)
    with pytest.raises(UsageError, match="there is no NUMA node 9999"):
        read_cpus("node9999")


BEYOND = CPUS[-1] + 1


@pytest.mark.parametrize(
    ("affinity", "code", "message"),
    [
        ("", "E10014", "is no list of CPUs"),
        ("0-", "E10014", "is no list of CPUs"),
        ("all", "E10014", "is no list of CPUs"),
        ("1;2", "E10014", "is no list of CPUs"),
        ("-1", "E10014", "is no list of CPUs"),
        ("٣", "E10014", "is no list of CPUs"),
        ("0-99999", "E10014", "is no list of CPUs"),
        ("1-0", "E10014", '"1-0" ends before it begins'),
        ([0.5], "E10014", "are not numbers of CPUs"),
        ([True], "E10014", "are not numbers of CPUs"),
        (["0"], "E10014", "are not numbers of CPUs"),
        ([], "E10013", "no CPU is named"),
        ([-1], "E10013", "may not run on CPU -1"),
        ([1 << 70], "E10013", f"may not run on CPU {1 << 70}"),
        (str(BEYOND), "E10013", f"may not run on CPU {BEYOND}"),
        (f"{CPUS[0]}-{BEYOND}", "E10013", f"may not run on CPU {BEYOND}"),
    ],
)
def test_cpus_that_cannot_be_are_refused(affinity: str | Iterable[int], code: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        InferenceSession(package(TEXT), affinity=affinity)
    assert caught.value.code == code
    assert message in caught.value.what
    assert caught.value.hint


@pytest.mark.skipif(len(CPUS) < 2, reason="there is one CPU")
def test_a_cpu_that_the_process_was_barred_from_is_refused() -> None:
    def check() -> bool:
        os.sched_setaffinity(0, {CPUS[0]})
        with pytest.raises(UsageError, match=f"may not run on CPU {CPUS[1]}") as caught:
            read_cpus(str(CPUS[1]))
        return f"it may run on {CPUS[0]}" in caught.value.hint

    in_child(check)


def test_there_are_as_many_threads_as_the_cpus_have_cores() -> None:
    session = InferenceSession(package(TEXT), affinity=[CPUS[0]])
    assert session.threads == 1
    assert default_threads([CPUS[0]]) == 1


@pytest.mark.skipif(len(CPUS) < 2, reason="a group for each set of CPUs takes several")
def test_too_many_groups_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def check() -> bool:
        with pytest.raises(MemoryError):
            for cpu in range(100):
                _kernels.workers_on([cpu])
        monkeypatch.setattr(workers, "read_cpus", lambda affinity: frozenset([500]))
        with pytest.raises(ResourceLimit, match="R0004"):
            choose_workers(1, "500")
        return True

    in_child(check)


def test_the_extension_checks_what_it_gets() -> None:
    for bad in ([], [-1], [1 << 70], [1 << 20], ["0"], (0,), None):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            _kernels.workers_on(bad)  # type: ignore[arg-type]
    for count in (0, -1):
        with pytest.raises(ValueError, match="a core at least"):
            _kernels.set_cores(count)
    for bad in (3, "workers", object()):
        with pytest.raises(ValueError, match="PyCapsule"):
            _kernels.Plan(b"", None, 0, [], [], 1, workers=bad)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="PyCapsule"):
            _kernels.SymbolicPlan(b"", b"", None, 1, workers=bad)  # type: ignore[arg-type]


def test_sessions_of_one_set_of_cpus_share_their_workers() -> None:
    for affinity in ([CPUS[0]], str(CPUS[0])) * 100:  # more sessions than there can be groups
        chosen = choose_workers(None, affinity)
        assert (chosen.threads, chosen.cpus) == (1, {CPUS[0]})


# ---- quotas


def system(tmp_path: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    return str(tmp_path)


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "1000 100000\n"}, 1),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/cpu.max": "800000 100000\n",
                "sys/fs/cgroup/a/cpu.max": "300000 100000\n",
            },
            3,
        ),
        ({"proc/self/cgroup": "0::/../other\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "nonsense\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "200000 0\n"}, None),
        ({"proc/self/cgroup": "nonsense\n", "sys/fs/cgroup/cpu.max": "100000 100000\n"}, None),
        (
            {
                "proc/self/cgroup": "4:memory:/\n3:cpu,cpuacct:/docker/1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "400000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            4,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
        (
            {
                "proc/self/cgroup": "3:cpuset:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "100000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
    ],
)
def test_the_quota_of_control_groups(tmp_path: Path, files: dict[str, str], quota: int | None) -> None:
    assert cpu_quota(system(tmp_path, files)) == quota


def test_a_quota_limits_threads_and_cores(monkeypatch: pytest.MonkeyPatch, cores: Callable[[int], int]) -> None:
    monkeypatch.delenv("ATCPY_THREADS", raising=False)
    monkeypatch.setattr("atcpy.threads.cpu_quota", lambda: 1)
    assert default_threads() == 1
    monkeypatch.setattr(workers, "cpu_quota", lambda: 1)
    workers._respect_quota.cache_clear()
    try:
        choose_workers(4, None)
        assert cores(4) == 1
    finally:
        workers._respect_quota.cache_clear()


def test_a_session_of_one_thread_asks_for_no_quota(
    monkeypatch: pytest.MonkeyPatch, cores: Callable[[int], int]
) -> None:
    asked: list[None] = []
    monkeypatch.setattr(workers, "cpu_quota", lambda: asked.append(None))
    workers._respect_quota.cache_clear()
    try:
        assert choose_workers(1, None).threads == 1
        assert asked == []
        choose_workers(2, None)
        assert asked == [None]
    finally:
        workers._respect_quota.cache_clear()
