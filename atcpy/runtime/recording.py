"""What runs of plans write while they are profiled: totals by task, and events up to a bound."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

import numpy as np

from atcpy.ir.tensor import Array


@dataclass(frozen=True, slots=True)
class HostEvent:
    """A launch of a task of the host: whose it is, start and end in nanoseconds of `time.monotonic_ns`. `is_beside`: it
    may have run on another thread than the one that called the run.
    """

    recording: Recording
    task: int
    start_ns: int
    end_ns: int
    is_beside: bool


class EventBuffer:
    """Launches in the order in which they ended: those in C as rows of start, end, task and thread, and those of the
    host, which may run beside them.
    """

    def __init__(self, max_events: int) -> None:
        self.room = max_events  # of either kind
        self.rows: Array = np.empty((max_events, 4), np.int64)
        self.memory = self.rows.data  # C gets at it sooner than at an array
        self.count = 0  # in C, also of those that are not kept
        self.on_host: list[HostEvent] = []
        self.host_count = 0
        self.lock = Lock()  # of what is the host's


class Recording:
    """The nanoseconds and the launches of each task of a plan, and the events of all plans."""

    def __init__(self, tasks: int, events: EventBuffer) -> None:
        self.totals: Array = np.zeros((tasks, 2), np.int64)
        self.memory, self.events = self.totals.data, events

    def note(self, task: int, start_ns: int, end_ns: int, *, is_beside: bool = False) -> None:
        """Add a launch of a task of the host. Threads may do so while others run in C."""
        events = self.events
        with events.lock:
            self.totals[task] += end_ns - start_ns, 1
            events.host_count += 1
            if len(events.on_host) < events.room:
                events.on_host.append(HostEvent(self, task, start_ns, end_ns, is_beside))
