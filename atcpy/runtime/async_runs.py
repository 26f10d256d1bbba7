"""Runs in the background: the threads of `InferenceSession.run_async`."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias

from atcpy.errors import UsageError
from atcpy.threads import cpu_quota

Callback: TypeAlias = Callable[[list[Any], Any, str], None]

# By CPUs. Each thread is the caller of a run; workers help it where cores are free.
_executors: dict[frozenset[int] | None, ThreadPoolExecutor] = {}
os.register_at_fork(after_in_child=_executors.clear)  # a child has none of the threads


def start(
    run: Callable[[], list[Any]], cpus: frozenset[int] | None, callback: Callback | None, user_data: object
) -> Future[list[Any]]:
    """Begin a run on some CPUs, None being all, and return its future. When it has ended, `callback` gets the results,
    or none and the text of the error, in the thread that ran. Raises UsageError (E10003) for what is no function.
    """
    if callback is not None and not callable(callback):
        raise UsageError("E10003", f"run_async: the callback is {type(callback).__name__}, which cannot be called")
    future: Future[list[Any]] = Future()
    if callback is not None:
        future.add_done_callback(partial(_report, callback, user_data))
    _executor(cpus).submit(_fulfil, future, run, cpus)
    return future


def _fulfil(future: Future[list[Any]], run: Callable[[], list[Any]], cpus: frozenset[int] | None) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        if cpus is not None:
            os.sched_setaffinity(0, cpus)
        results = run()
    except BaseException as error:  # noqa: BLE001  whoever waits for the results gets it
        future.set_exception(error)
    else:
        future.set_result(results)


def _report(callback: Callback, user_data: object, future: Future[list[Any]]) -> None:
    if future.cancelled():
        callback([], user_data, "the run was cancelled")
    elif (error := future.exception()) is not None:
        callback([], user_data, str(error) or type(error).__name__)
    else:
        callback(future.result(), user_data, "")


def _executor(cpus: frozenset[int] | None) -> ThreadPoolExecutor:
    """The threads that run on these CPUs: as many as can work at the same time. More runs wait for them."""
    if cpus not in _executors:
        count = min(len(cpus or os.sched_getaffinity(os.getpid())), cpu_quota() or 1024)
        # Threads start when they are needed: that another thread has added one by now costs nothing.
        _executors.setdefault(cpus, ThreadPoolExecutor(count, "atcpy-run"))
    return _executors[cpus]
