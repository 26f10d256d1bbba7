"""A profile as a trace that chrome://tracing and Perfetto open: JSON of the Trace Event Format.

A process is a rank. Its first row has the runs, its second one the collectives, which run beside the tasks of the
streams, of which each has a row. Times are those of the system's
monotonic clock in microseconds, so that traces of the ranks of one machine fit together.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from atcpy.ir import Engine
from atcpy.om.atomic import atomic_write
from atcpy.runtime.profile import Profile, TaskEvent
from atcpy.runtime.roofline import Roofline

# Viewers take thread 0 of process 0 for the idle one.
_FIRST_PROCESS = _RUNS = 1
_COLLECTIVES = 2
_FIRST_STREAM = 3


def write_trace(
    path: str | os.PathLike[str],
    profile: Profile,
    *,
    rank: int = 0,
    roofline: Roofline | None = None,
    notes: Mapping[str, Any] = {},
) -> None:
    """Write the trace of a profile; `notes` are facts about it as a whole. Raises what `atomic_write` does."""
    events = [*_events(profile, _FIRST_PROCESS + rank, roofline)]
    names = [*_names(events, _FIRST_PROCESS + rank, f"rank {rank}")]
    trace = {"displayTimeUnit": "ns", "traceEvents": names + events, "otherData": dict(notes)}
    atomic_write(path, [json.dumps(trace).encode()])


def _events(profile: Profile, process: int, roofline: Roofline | None) -> Iterator[dict[str, Any]]:
    for number, (start, end) in enumerate(profile.runs):
        yield _complete(f"run {number}", "run", start, end, process, _RUNS, {})
    for event in profile.events():
        name = f"{event.task.op_type} {event.task.node}"
        arguments = _arguments(event, roofline)
        row = _COLLECTIVES if event.task.engine == Engine.HCCL.value else _FIRST_STREAM + event.cost.stream
        yield _complete(name, event.task.op_type, event.start_ns, event.end_ns, process, row, arguments)


def _complete(
    name: str, category: str, start_ns: int, end_ns: int, process: int, row: int, arguments: dict[str, Any]
) -> dict[str, Any]:
    times = {"ts": start_ns / 1e3, "dur": (end_ns - start_ns) / 1e3}
    return {"name": name, "cat": category, "ph": "X", **times, "pid": process, "tid": row, "args": arguments}


def _arguments(event: TaskEvent, roofline: Roofline | None) -> dict[str, Any]:
    task, cost, elapsed_ns = event.task, event.cost, event.end_ns - event.start_ns
    arguments: dict[str, Any] = {
        "sources": list(task.sources),
        "engine": task.engine,
        "kernel": task.kernel,
        "thread": event.thread,
        "read_bytes": cost.read_bytes,
        "written_bytes": cost.written_bytes,
        "flops": cost.flops,
    }
    if elapsed_ns > 0:
        floor = None if roofline is None else roofline.floor_seconds(cost)
        arguments["gflops_per_second"] = None if cost.flops is None else round(cost.flops / elapsed_ns, 3)
        arguments["gbytes_per_second"] = round(cost.bytes / elapsed_ns, 3)
        arguments["roofline"] = None if floor is None else round(floor * 1e9 / elapsed_ns, 4)
    return arguments


def _names(events: list[dict[str, Any]], process: int, title: str) -> Iterator[dict[str, Any]]:
    """The metadata that names the process and its rows, in the order in which they are shown."""
    yield _metadata("process_name", process, _RUNS, {"name": title})
    for row in sorted({event["tid"] for event in events}):
        name = {_RUNS: "runs", _COLLECTIVES: "collectives"}.get(row, f"stream {row - _FIRST_STREAM}")
        yield _metadata("thread_name", process, row, {"name": name})
        yield _metadata("thread_sort_index", process, row, {"sort_index": row})


def _metadata(name: str, process: int, row: int, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "ph": "M", "pid": process, "tid": row, "args": arguments}
