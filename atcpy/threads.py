"""How many threads a session has unless it is told, and on which CPUs they may run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from math import ceil

from atcpy.errors import UsageError

_SYSTEM = "/sys/devices/system"


def default_threads(cpus: Iterable[int] | None = None) -> int:
    """ATCPY_THREADS, or the number of physical cores among `cpus`, by default those that the calling thread may run on,
    but no more than the control groups of the process let it use.
    """
    text = os.environ.get("ATCPY_THREADS")
    if text is not None:
        if not re.fullmatch(r"\d{1,4}", text) or not 1 <= int(text) <= 1024:
            raise UsageError("E13024", f"ATCPY_THREADS={text}: not a number from 1 to 1024")
        return int(text)
    cores = set()
    for cpu in sorted(os.sched_getaffinity(0) if cpus is None else cpus):
        siblings = _read(f"{_SYSTEM}/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.add(siblings or str(cpu))
    return min(len(cores), cpu_quota() or len(cores))


@cache
def cpu_quota(root: str = "") -> int | None:
    """How many CPUs the control groups of this process let it use at the same time, rounded up; None: all. It is read
    once, from /proc and /sys below `root`.
    """
    shares = [quota / period for quota, period in _quotas(root) if quota > 0 and period > 0]
    return max(1, ceil(min(shares))) if shares else None


def _quotas(root: str) -> Iterator[tuple[int, int]]:
    """The time in microseconds that each group of the process has, and in which period; -1: no limit."""
    for line in _read(f"{root}/proc/self/cgroup").splitlines():
        _, controllers, group = (*line.split(":", 2), "", "")[:3]
        if not group.startswith("/") or (controllers and "cpu" not in controllers.split(",")):
            continue
        # The groups around it have limits, too; in a container, the path may be that outside of it.
        names = [name for name in group.split("/") if name not in ("", "..")]
        for depth in range(len(names), -1, -1):
            folder = "/".join(["", *names[:depth]])
            if controllers:
                base = f"{root}/sys/fs/cgroup/cpu{folder}"
                yield _number(_read(f"{base}/cpu.cfs_quota_us")), _number(_read(f"{base}/cpu.cfs_period_us"))
            else:
                quota, _, period = _read(f"{root}/sys/fs/cgroup{folder}/cpu.max").partition(" ")
                yield _number(quota), _number(period)


def read_cpus(affinity: str | Iterable[int]) -> frozenset[int]:
    """The CPUs of a list such as "0-3,8" or "node0", or of numbers. Raises UsageError for what cannot be read (E10014),
    and for CPUs that do not exist or that the process may not run on (E10013).
    """
    allowed = os.sched_getaffinity(os.getpid())
    if isinstance(affinity, str):
        cpus = {cpu for item in affinity.split(",") for cpu in _cpus_of(item.strip(), affinity, allowed)}
    else:
        items = list(affinity)
        if not all(isinstance(cpu, int) and not isinstance(cpu, bool) for cpu in items):
            raise UsageError("E10014", f"affinity: {items} are not numbers of CPUs", hint="[0, 1], or a text as in 0-3")
        cpus = set(items)
    if not cpus:
        raise UsageError("E10013", "affinity: no CPU is named", hint=_may_run_on(allowed))
    refused = sorted(cpus - allowed)
    if refused:
        what = f"affinity: this process may not run on CPU {refused[0]}"
        raise UsageError("E10013", what, hint=_may_run_on(allowed))
    return frozenset(cpus)


_MAX_CPU = 1 << 16  # no machine has so many


def _cpus_of(item: str, whole: str, allowed: Iterable[int]) -> Iterable[int]:
    """The CPUs of an item of a list: a number, two with a hyphen, or a NUMA node."""
    if node := re.fullmatch(r"node([0-9]{1,4})", item):
        listed = _read(f"{_SYSTEM}/node/{item}/cpulist")
        if not listed:
            raise UsageError("E10013", f"affinity: there is no NUMA node {node[1]}", hint="/sys/devices/system/node")
        return {cpu for part in listed.split(",") for cpu in _cpus_of(part, listed, allowed)} & set(allowed)
    numbers = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", item)
    if not numbers or int(numbers[2] or numbers[1]) > _MAX_CPU:
        raise UsageError("E10014", f'affinity: "{whole}" is no list of CPUs', hint="0-3,8 or node0")
    first, last = int(numbers[1]), int(numbers[2] or numbers[1])
    if last < first:
        raise UsageError("E10014", f'affinity: "{item}" ends before it begins', hint=f"{last}-{first}")
    return range(first, last + 1)


def _may_run_on(allowed: Iterable[int]) -> str:
    return f"it may run on {', '.join(map(str, sorted(allowed)))}"


def _number(text: str) -> int:
    # Without an expression, whose compilation takes longer than all files do.
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else -1


def _read(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read().decode(errors="replace").strip()
    except OSError:
        return ""
