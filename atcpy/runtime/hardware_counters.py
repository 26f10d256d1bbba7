"""Hardware counters of this process by Linux's perf_event_open: cycles, instructions, cache misses."""

from __future__ import annotations

import errno
import os
import platform
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from atcpy.files import read_text
from atcpy.runtime.system_call import system_call

# struct perf_event_attr as its first version has it: type, size, config, sample period, sample type, read format,
# flags, wakeup events, breakpoint type, config1.
_ATTR = struct.Struct("<IIQQQQQIIQ")
_HARDWARE = 0
_TIMES_ENABLED_AND_RUNNING = 1 | 2
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_CLOSE_ON_EXEC = 8
_READING = struct.Struct("<QQQ")
_SYSTEM_CALLS = {"x86_64": 298, "aarch64": 241}
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


@dataclass(frozen=True, slots=True)
class CounterKind:
    """An event that the kernel counts: `perf_event_attr`'s type and config."""

    name: str
    type: int
    config: int


HARDWARE = (
    CounterKind("cycles", _HARDWARE, 0),
    CounterKind("instructions", _HARDWARE, 1),
    CounterKind("cache_misses", _HARDWARE, 3),
)
# Opens a counter of a thread; raises OSError.
OpenCounter = Callable[[CounterKind, int], int]


def open_counter(kind: CounterKind, thread: int) -> int:
    """Return a descriptor of a counter of a thread of this process, and of those that it starts. Raises OSError."""
    number = _SYSTEM_CALLS.get(platform.machine())
    if number is None or not sys.platform.startswith("linux"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    flags = _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    attr = _ATTR.pack(kind.type, _ATTR.size, kind.config, 0, 0, _TIMES_ENABLED_AND_RUNNING, flags, 0, 0, 0)
    descriptor = system_call(number, attr, thread, -1, -1, _CLOSE_ON_EXEC)
    if descriptor < 0:
        raise OSError(-descriptor, os.strerror(-descriptor))
    return descriptor


class HardwareCounters:
    """Counts events of all threads of this process, but not of the kernel, from `with` on until it ends.

    `values` then has the number of each event, `missing` a sentence if the system counts some or all of them not.
    """

    def __init__(self, kinds: Sequence[CounterKind] = HARDWARE, open_counter: OpenCounter = open_counter) -> None:
        self._kinds, self._open = kinds, open_counter
        self._descriptors: dict[str, list[int]] = {}
        self.values: dict[str, int] = {}
        self.missing = ""

    def __enter__(self) -> Self:
        for kind in self._kinds:
            descriptors: list[int] = []
            try:
                for thread in _threads():
                    with suppress(ProcessLookupError):  # it has ended meanwhile
                        descriptors.append(self._open(kind, thread))
            except OSError as error:
                self.missing = _reason(error)
                self._close(descriptors)
            else:
                self._descriptors[kind.name] = descriptors
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for name, descriptors in self._descriptors.items():
            self.values[name] = sum(map(_read, descriptors))
            self._close(descriptors)
        self._descriptors.clear()

    @staticmethod
    def _close(descriptors: Sequence[int]) -> None:
        for descriptor in descriptors:
            os.close(descriptor)


def _threads() -> list[int]:
    return sorted(int(name) for name in os.listdir("/proc/self/task"))


def _read(descriptor: int) -> int:
    """The count, extrapolated to the whole time if the counter had to share its register with others."""
    value: int
    value, enabled, running = _READING.unpack(os.read(descriptor, _READING.size))
    return value * enabled // running if 0 < running < enabled else value


def _reason(error: OSError) -> str:
    match error.errno:
        case errno.EACCES | errno.EPERM:
            level = read_text(_PARANOID).strip() if _PARANOID.exists() else "unknown"
            return (
                f"the kernel allows no hardware counters: kernel.perf_event_paranoid is {level}, 2 or less allows them"
            )
        case errno.ENOENT | errno.EOPNOTSUPP | errno.ENODEV:
            return "this machine has no hardware counters, as most virtual machines"
        case errno.ENOSYS:
            return "this system has no hardware counters for programs"
        case _:
            return f"hardware counters cannot be opened: {os.strerror(error.errno or 0)}"
