"""The CPUs and the number of the threads that run kernels."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.errors import ResourceLimit, UsageError
from atcpy.kernels import _kernels
from atcpy.runtime import workers
from atcpy.runtime.workers import choose_workers
from atcpy.threads import cpu_quota, default_threads, read_cpus
from tests.models_in_text import package

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
