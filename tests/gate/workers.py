"""Calls in a process of their own: what dies or hangs there is reported, and another process makes the next call."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Generic, TypeVar

from tests.sanitizers import IS_SANITIZED

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_BYTES = 12 << 30  # of address space: a model that asks for all memory must not get it


class Lost(Enum):
    """Why there is no result."""

    CRASH = "crash"
    HANG = "hang"


class _Worker(Generic[Item, Result]):
    """A process that calls a function for one item after the other."""

    def __init__(self, function: Callable[[Item], Result], items: Sequence[Item]) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(target=_serve, args=(theirs, function, items), daemon=True)
        self._process.start()
        theirs.close()

    def call(self, number: int, seconds: float) -> Result | Lost:
        """The result for an item, or why there is none; the worker is gone then."""
        self._pipe.send(number)
        try:
            if self._pipe.poll(seconds):
                result: Result = self._pipe.recv()
                return result
        except (EOFError, ConnectionResetError):
            self._process.join()
            return Lost.CRASH
        self.end()
        return Lost.HANG

    def end(self) -> None:
        """End the process."""
        if self._process.pid is not None:
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.join()


def _serve(pipe: Connection, function: Callable[[Item], Result], items: Sequence[Item]) -> None:
    if not IS_SANITIZED:  # which has a limit of its own for each allocation
        resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        pipe.send(function(items[pipe.recv()]))


def call_each(
    function: Callable[[Item], Result], items: Sequence[Item], *, seconds: float
) -> Iterator[tuple[Item, Result | Lost]]:
    """Yield each item with the result of the function, or why there is none."""
    worker: _Worker[Item, Result] | None = None
    for number, item in enumerate(items):
        worker = worker or _Worker(function, items)
        result = worker.call(number, seconds)
        if isinstance(result, Lost):
            worker = None
        yield item, result
    if worker is not None:
        worker.end()
