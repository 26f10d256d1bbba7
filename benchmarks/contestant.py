"""One engine in a process of its own, which is stopped whenever it is not measured.

Engines keep pools of threads that spin for a while after a run. Forbidding that would cost the engine its latency;
allowing it would cost the next contestant its cores. So each may spin, and SIGSTOP freezes its whole process outside
its own calls. The CPU time used while stopped is measured too: it shows that the process did sleep.
"""

from __future__ import annotations

import ctypes
import importlib
import multiprocessing
import os
import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from engines import ENGINES, Run
from feeds import Feeds, save_arrays

CALL_TIMEOUT_S: Final = 900.0
PR_SET_PDEATHSIG: Final = 1  # <sys/prctl.h>
CPUCLOCK_SCHED: Final = 2  # the kernel's clock of a whole process, see clock_getcpuclockid(3)
SPAWN: Final = multiprocessing.get_context("spawn")  # a forked child would share the parent's imports and threads


class ContestantError(Exception):
    """An engine could not open or run the model, or its process died."""


@dataclass(frozen=True)
class Loaded:
    """Seconds for preparing the engine's own file, and from opening it to the first result; without imports."""

    prepare_s: float
    first_result_s: float


@dataclass(frozen=True)
class TimedRuns:
    """Times of consecutive runs, and the CPU time of all threads over the wall time."""

    times_s: list[float]
    cpu_share: float


class Contestant:
    """An engine's process, pinned to `cpus`; it runs only during the calls below."""

    def __init__(self, engine: str, model: Path, cpus: list[int]) -> None:
        self._stopped_wall_s = self._stopped_cpu_s = 0.0
        self._stopped_at: tuple[float, float] | None = None
        self._pipe, theirs = SPAWN.Pipe()
        self._process = SPAWN.Process(target=_serve, args=(theirs, engine, model, len(cpus)), daemon=True)
        # Threads inherit the affinity at the time they start.
        previous_affinity = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cpus)
        try:
            self._process.start()
        finally:
            os.sched_setaffinity(0, previous_affinity)
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()  # SIGTERM would wait for SIGCONT
        self._process.join()
        self._pipe.close()

    def load(self, feeds: Feeds, folder: Path) -> Loaded:
        """Opens the model, runs it once and saves the results as `folder`/outputs.npz."""
        loaded: Loaded = self._call("load", feeds, folder)
        return loaded

    def time_runs(self, seconds: float) -> TimedRuns:
        """Runs the model for `seconds`, at least once, after one untimed run that refills the caches."""
        timed: TimedRuns = self._call("time_runs", seconds)
        return timed

    def stopped_cpu_share(self) -> float:
        """Returns CPU time over wall time while stopped: 0 if it slept."""
        return self._stopped_cpu_s / max(self._stopped_wall_s, 1e-9)

    def _call(self, method: str, *arguments: object) -> Any:
        self._resume()
        try:
            self._pipe.send((method, arguments))
            if not self._pipe.poll(CALL_TIMEOUT_S):
                raise ContestantError(f"no answer within {CALL_TIMEOUT_S:.0f} s")
            reply = self._pipe.recv()
        except (EOFError, OSError) as error:
            self._process.join(timeout=10)
            raise ContestantError(f"the process died with exit code {self._process.exitcode}") from error
        finally:
            self._stop()
        if isinstance(reply, ContestantError):
            raise reply
        return reply

    def _resume(self) -> None:
        if self._stopped_at and self._process.is_alive():
            wall_s, cpu_s = self._clocks()
            self._stopped_wall_s += wall_s - self._stopped_at[0]
            self._stopped_cpu_s += cpu_s - self._stopped_at[1]
            os.kill(self._pid, signal.SIGCONT)
        self._stopped_at = None

    def _stop(self) -> None:
        """Returns when every thread has stopped."""
        if self._process.is_alive():
            os.kill(self._pid, signal.SIGSTOP)
            os.waitid(os.P_PID, self._pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            if self._process.is_alive():
                self._stopped_at = self._clocks()

    def _clocks(self) -> tuple[float, float]:
        """Returns the wall clock and the CPU clock of the contestant's process."""
        return time.perf_counter(), time.clock_gettime((~self._pid << 3) | CPUCLOCK_SCHED)

    @property
    def _pid(self) -> int:
        pid = self._process.pid
        assert pid is not None, "started in __init__"
        return pid


class _Worker:
    """The contestant's process; each public method answers one call."""

    def __init__(self, engine: str, model: Path, threads: int) -> None:
        self._engine = ENGINES[engine]
        self._model = model
        self._threads = threads
        self._feeds: Feeds = {}
        self._run: Run

    def load(self, feeds: Feeds, folder: Path) -> Loaded:
        for module in self._engine.modules:
            importlib.import_module(module)
        self._feeds = feeds
        start = time.perf_counter()
        path = self._engine.prepare(self._model, folder)
        prepared = time.perf_counter()
        self._run = self._engine.open(path, self._threads)
        results = self._run(feeds)
        done = time.perf_counter()
        save_arrays(folder / "outputs.npz", results)
        return Loaded(prepared - start, done - prepared)

    def time_runs(self, seconds: float) -> TimedRuns:
        self._run(self._feeds)
        times_s: list[float] = []
        first, first_cpu = time.perf_counter(), time.process_time()
        start = first
        while not times_s or start - first < seconds:
            self._run(self._feeds)
            end = time.perf_counter()
            times_s.append(end - start)
            start = end
        return TimedRuns(times_s, (time.process_time() - first_cpu) / (start - first))


def _serve(pipe: Connection, engine: str, model: Path, threads: int) -> None:
    """Answers the calls that arrive on `pipe` until it closes."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a stopped process would outlive its parent
    worker = _Worker(engine, model, threads)
    while True:
        try:
            method, arguments = pipe.recv()
        except EOFError:
            return
        try:
            reply = getattr(worker, method)(*arguments)
        except Exception as error:  # noqa: BLE001 (whatever an engine raises is its result)
            reply = ContestantError(f"{type(error).__name__}: {error}")
        pipe.send(reply)
