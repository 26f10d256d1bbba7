"""Counters of the kernel: those of software exist everywhere, those of hardware may be absent or denied."""

from __future__ import annotations

import errno
import os
import threading

import pytest

from atcpy.runtime.hardware_counters import HARDWARE, CounterKind, HardwareCounters, open_counter

_SOFTWARE = 1
CPU_TIME, PAGE_FAULTS = CounterKind("cpu_time", _SOFTWARE, 1), CounterKind("page_faults", _SOFTWARE, 2)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def needs_counters() -> None:
    try:
        os.close(open_counter(CPU_TIME, os.getpid()))
    except OSError as error:
        pytest.skip(f"the system denies counters: {error}")


@pytest.mark.usefixtures("needs_counters")
def test_what_is_counted_happens_within() -> None:
    before = descriptors()
    with HardwareCounters((CPU_TIME, PAGE_FAULTS)) as counters:
        memory = bytearray(8 << 20)  # the kernel counts each page of it, which is 4 KB or larger
        for at in range(0, len(memory), 4096):
            memory[at] = 1
    assert counters.missing == ""
    assert counters.values["cpu_time"] > 0
    assert 1 <= counters.values["page_faults"] < 1 << 16
    assert descriptors() == before


@pytest.mark.usefixtures("needs_counters")
def test_threads_that_are_there_and_that_begin_are_counted() -> None:
    going, ready = threading.Event(), threading.Event()

    def spin() -> None:
        ready.set()
        going.wait()
        sum(range(300_000))

    old = threading.Thread(target=spin)
    old.start()
    ready.wait()
    with HardwareCounters((CPU_TIME,)) as counters:
        begun = threading.Thread(target=sum, args=(range(300_000),))
        begun.start()
        going.set()
        old.join()
        begun.join()
    alone = _cpu_time_of_waiting()
    assert counters.values["cpu_time"] > 2 * alone


def _cpu_time_of_waiting() -> int:
    with HardwareCounters((CPU_TIME,)) as counters:
        pass
    return counters.values["cpu_time"]


def test_each_counter_is_there_or_a_sentence_says_why_not() -> None:
    with HardwareCounters() as counters:
        sum(range(1000))
    names = {kind.name for kind in HARDWARE}
    assert set(counters.values) <= names
    assert bool(counters.missing) == (set(counters.values) < names)
    assert all(value >= 0 for value in counters.values.values())


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (errno.EACCES, "perf_event_paranoid is "),
        (errno.EPERM, "perf_event_paranoid is "),
        (errno.ENOENT, "this machine has no hardware counters"),
        (errno.EOPNOTSUPP, "this machine has no hardware counters"),
        (errno.ENODEV, "this machine has no hardware counters"),
        (errno.ENOSYS, "this system has no hardware counters"),
        (errno.EMFILE, "Too many open files"),
    ],
)
def test_what_is_denied_is_said(code: int, sentence: str) -> None:
    def deny(kind: CounterKind, thread: int) -> int:
        raise OSError(code, os.strerror(code))

    with HardwareCounters(HARDWARE, deny) as counters:
        pass
    assert counters.values == {}
    assert sentence in counters.missing


@pytest.mark.usefixtures("needs_counters")
def test_one_that_is_missing_leaves_the_others() -> None:
    absent = CounterKind("absent", 1 << 20, 0)
    before = descriptors()
    with HardwareCounters((absent, CPU_TIME)) as counters:
        pass
    assert list(counters.values) == ["cpu_time"]
    assert counters.missing
    assert descriptors() == before


@pytest.mark.usefixtures("needs_counters")
def test_a_thread_that_has_ended_is_left_out() -> None:
    main = os.getpid()

    def open_of_main(kind: CounterKind, thread: int) -> int:
        if thread != main:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        return open_counter(kind, thread)

    going = threading.Event()
    other = threading.Thread(target=going.wait)
    other.start()
    with HardwareCounters((CPU_TIME,), open_of_main) as counters:
        pass
    going.set()
    other.join()
    assert list(counters.values) == ["cpu_time"] and counters.missing == ""


READINGS = {"whole": (100, 60, 60), "half": (100, 60, 30), "never": (0, 60, 0)}  # count, time enabled, time running


def test_counts_of_a_shared_register_are_extrapolated() -> None:
    opened: list[str] = []  # other tests' threads may end meanwhile

    def open_reading(kind: CounterKind, thread: int) -> int:
        read, write = os.pipe()
        os.write(write, b"".join(number.to_bytes(8, "little") for number in READINGS[kind.name]))
        os.close(write)
        opened.append(kind.name)
        return read

    with HardwareCounters([CounterKind(name, 0, 0) for name in READINGS], open_reading) as counters:
        pass
    assert counters.values == {"whole": 100 * opened.count("whole"), "half": 200 * opened.count("half"), "never": 0}
    assert set(opened) == set(READINGS)
