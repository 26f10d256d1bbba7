"""Worker processes that live on from job to job; one that crashes or takes too long is replaced."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

Job = TypeVar("Job")
Answer = TypeVar("Answer")
_FORK = mp.get_context("fork")  # the cases are in memory already, and some hold functions


@dataclass(frozen=True)
class Lost:
    """A job without an answer, and why: `crash` with the signal or exit code, or `timeout` with the limit."""

    cause: str
    detail: str


@dataclass
class _Worker(Generic[Job]):
    process: mp.process.BaseProcess
    pipe: Connection
    job: Job
    deadline: float


def run_jobs(
    work: Callable[[Job], Answer], jobs: Sequence[Job], *, workers: int, seconds: Callable[[Job], float]
) -> Iterator[tuple[Job, Answer | Lost]]:
    """Answers, as they come. `seconds` is how long a job may take."""
    pending = list(reversed(jobs))
    busy: list[_Worker[Job]] = []
    answer: Answer | Lost
    try:
        while pending or busy:
            while pending and len(busy) < workers:
                job = pending.pop()
                busy.append(_start(work, job, seconds(job)))
            ready = wait([worker.pipe for worker in busy], max(0.0, min(w.deadline for w in busy) - time.monotonic()))
            for worker in list(busy):
                if worker.pipe in ready:
                    job, answer = worker.job, _receive(worker)
                    yield job, answer
                elif time.monotonic() >= worker.deadline:
                    job, answer = worker.job, Lost("timeout", f"{seconds(worker.job):g} s")
                    _stop(worker)
                    yield job, answer
                else:
                    continue
                if isinstance(answer, Lost) or not pending:
                    busy.remove(worker)
                    _stop(worker)
                else:
                    worker.job = pending.pop()
                    worker.deadline = time.monotonic() + seconds(worker.job)
                    worker.pipe.send(worker.job)
    finally:
        for worker in busy:
            _stop(worker)


def _start(work: Callable[[Job], Answer], job: Job, seconds: float) -> _Worker[Job]:
    ours, theirs = _FORK.Pipe()
    process = _FORK.Process(target=_serve, args=(work, ours, theirs), daemon=True)
    process.start()
    theirs.close()
    ours.send(job)
    return _Worker(process, ours, job, time.monotonic() + seconds)


def _serve(work: Callable[[Job], Answer], ours: Connection, theirs: Connection) -> None:
    ours.close()
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    while True:
        try:
            job = theirs.recv()
        except EOFError:
            return
        theirs.send(work(job))


def _receive(worker: _Worker[Job]) -> Any:
    try:
        answer = worker.pipe.recv()
    except (EOFError, ConnectionResetError):
        worker.process.join()
        code = worker.process.exitcode or 0
        return Lost("crash", signal.Signals(-code).name if code < 0 else f"exit code {code}")
    return answer


def _stop(worker: _Worker[Job]) -> None:
    worker.pipe.close()
    worker.process.kill()
    worker.process.join()
