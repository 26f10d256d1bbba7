"""The threads that run the kernels of a session, of the pool that all sessions of the process share."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from atcpy.errors import ResourceLimit, UsageError
from atcpy.kernels import _kernels
from atcpy.kernels.isa import require_known_isa
from atcpy.threads import cpu_quota, default_threads, read_cpus


class Workers(NamedTuple):
    """At most `threads` threads for a run, the calling one included. The others run on `cpus` only, which is `group` of
    the pool; None: on all CPUs of the process.
    """

    threads: int
    cpus: frozenset[int] | None = None
    group: _kernels.Workers | None = None


def choose_workers(threads: int | None, affinity: str | Iterable[int] | None) -> Workers:
    """The workers of a session that asks for these. Raises UsageError for numbers that cannot be (E10013, E10014) and
    an ATCPY_ISA that is unknown (E13024), ResourceLimit (R0004) for more groups than the pool has.
    """
    require_known_isa()
    if threads is not None and not 1 <= threads <= 1024:
        raise UsageError("E10013", f"threads: {threads} is outside 1..1024")
    if threads != 1:  # a run of one thread has no others, which the quota would limit
        _respect_quota()
    if affinity is None:
        return Workers(threads or default_threads())
    cpus = read_cpus(affinity)
    try:
        group = _kernels.workers_on(sorted(cpus))
    except MemoryError as error:
        what = "sessions have too many different affinities"
        raise ResourceLimit("R0004", what, hint="give sessions the same CPUs, or none") from error
    return Workers(threads or default_threads(cpus), cpus, group)


@cache
def _respect_quota() -> None:
    """Keep all sessions together to the cores that the control groups of the process let it use."""
    quota = cpu_quota()
    if quota is not None:
        _kernels.set_cores(min(quota, len(os.sched_getaffinity(os.getpid()))))
