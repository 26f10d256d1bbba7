"""Starts ranks as processes of MPI and watches them until all have ended."""

import importlib.util
import math
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from atcpy.errors import TERMINATED, ResourceLimit
from atcpy.runtime.distributed.channel import RankFolder, RankStatus
from atcpy.runtime.distributed.failures import RankFailed, no_mpi
from atcpy.runtime.distributed.launch import RankSetup

_MAX_SECONDS = 600.0  # of a run without --timeout
_GRACE_SECONDS = 1.0  # for mpiexec to notice itself that a rank has died
# For the other ranks to begin with MPI: mpiexec that is ended before may break, and not say how they ended.
_START_SECONDS = 30.0
_STOP_SECONDS = 5.0
_POLL_SECONDS = 0.25
_STOPPED = (0, signal.SIGKILL, signal.SIGTERM, TERMINATED << 8)  # wait statuses of ranks that mpiexec stops
# A rank has its pipe from the start, as standard input.
_WITH_PIPE = 'exec "$@" 0>"$0/rank${PMI_RANK:-$OMPI_COMM_WORLD_RANK}"'


def run_ranks(
    module: str, work: Mapping[str, Any], setup: RankSetup, *, seconds: float | None = None, debug: bool = False
) -> list[dict[str, Any]]:
    """Start the ranks, each a process that runs `module` on the JSON `work`, and return the result of each.

    Raises RankFailed for the first rank that fails. `debug` prints what the ranks printed when one failed.
    """
    mpiexec, ranks = find_mpiexec(), setup.count
    limit = seconds or _MAX_SECONDS
    with TemporaryDirectory(prefix="atcpy-ranks-") as path:
        environment = {
            **os.environ,
            "MPIEXEC_TIMEOUT": str(math.ceil(limit)),
            "OMP_NUM_THREADS": str(max(1, len(os.sched_getaffinity(0)) // ranks)),
        }
        folder = RankFolder(path)
        folder.write_work(work)
        statuses = {folder.open_pipe(rank): RankStatus(rank) for rank in range(ranks)}
        is_mpich = Path(mpiexec).with_name("mpiexec.hydra").exists()
        command = [mpiexec, *(["-print-all-exitcodes"] if is_mpich else []), "-n", str(ranks)]
        command += ["/bin/sh", "-c", _WITH_PIPE, path]
        command += [sys.executable, "-m", "mpi4py", "-m", module, path]
        try:
            with _spawned(command, environment) as process:
                watch = _Watch(process, statuses, setup.wait)
                watch.run()
        finally:
            for pipe in statuses:
                os.close(pipe)
    results = [status.result for status in statuses.values() if status.result is not None]
    if process.returncode == 0 and watch.has_succeeded and len(results) == ranks:
        sys.stderr.write(watch.err)
        return results
    if debug:
        sys.stderr.write(watch.out + watch.err)
    raise _failure_of(watch, limit)


def _failure_of(watch: "_Watch", limit: float) -> RankFailed:
    ranks, text = len(watch.statuses), watch.out + watch.err
    if "APPLICATION TIMED OUT" in text:
        return RankFailed(-1, ranks, ResourceLimit("R0003", f"the time limit of {limit:g} s is reached"))
    if watch.failure is not None:
        return watch.failure
    if watch.died is not None:
        codes = _exit_codes(text)
        # Ranks that end at nearly the same time: the one with a code of its own was not stopped by mpiexec.
        own = [rank for rank, code in enumerate(codes) if code not in _STOPPED]
        rank = watch.died if watch.died in own or not own else own[0]
        how = _describe(codes[rank]) if rank < len(codes) else "nobody saw how"
        return RankFailed(rank, ranks, ResourceLimit("EI0007", f"it ended: {how}"))
    return RankFailed(-1, ranks, ResourceLimit("EI0007", f"mpiexec ended with the code {watch.process.returncode}"))


def _exit_codes(text: str) -> list[int]:
    """The wait statuses of the ranks, from the list that MPICH's mpiexec prints."""
    found = re.search(r"Exit codes: \[\S+\] ([\d,]+)", text)
    return [int(code) for code in found[1].split(",")] if found else []


def _describe(status: int) -> str:
    number = os.waitstatus_to_exitcode(status)
    return f"exit code {number}" if number >= 0 else f"{signal.strsignal(-number)} (signal {-number})"


@dataclass
class _Watch:
    """Watches mpiexec until it ends, and ends it as soon as a rank fails. `statuses` is by pipe."""

    process: "subprocess.Popen[bytes]"
    statuses: Mapping[int, RankStatus]
    wait: float
    failure: RankFailed | None = None
    died: int | None = None  # the first rank that ended without a final message
    _printed: dict[int, bytearray] = field(default_factory=dict)
    _open: set[int] = field(default_factory=set)
    _failed_at: float | None = None
    _deadline: float | None = None

    def run(self) -> None:
        """Read the ranks' messages and what they print. Events are edge-triggered: so they come in the order in which
        pipes were written or closed, and of several ranks that have died since, the first one is known.
        """
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            self._printed[stream.fileno()] = bytearray()
        self._open = {*self.statuses, *self._printed}
        with select.epoll() as ready:
            for fd in self._open:
                ready.register(fd, select.EPOLLIN | select.EPOLLET)
            started: float | None = None
            while self._open:
                is_over = self.process.poll() is not None
                events = ready.poll(0 if is_over else _POLL_SECONDS)
                if is_over and not events:
                    break
                pending = [fd for fd, _ in events]
                while pending:  # a pipe that had something before it was closed shows its end when it is read again
                    pending = [fd for fd in pending if self._read(fd)]
                if started is None and any(status.has_started for status in self.statuses.values()):
                    started = time.monotonic()
                self._check(started)

    @property
    def has_succeeded(self) -> bool:
        """Whether no rank has failed."""
        return self.failure is None and self.died is None

    @property
    def out(self) -> str:
        """What was printed on stdout."""
        return next(iter(self._printed.values())).decode("utf-8", "replace")

    @property
    def err(self) -> str:
        """What was printed on stderr."""
        return list(self._printed.values())[1].decode("utf-8", "replace")

    def _read(self, fd: int) -> bool:
        """Read what is available; return whether there may be more."""
        try:
            content = os.read(fd, 1 << 16)
        except BlockingIOError:
            return False
        if not content:
            self._open.discard(fd)
        status = self.statuses.get(fd)
        if status is None:
            self._printed[fd] += content
            return bool(content)
        status.receive(content)
        if self.has_succeeded:
            self.failure = status.failure
            if not content and not status.is_done:
                self.died = status.rank
        return bool(content)

    def _check(self, started: float | None) -> None:
        """End a run that goes on although a rank has failed, or waits for one that does not start."""
        now = time.monotonic()
        missing = [status.rank for status in self.statuses.values() if not status.has_started]
        if started is not None and missing and now - started > self.wait and self.has_succeeded:
            error = ResourceLimit("EI0007", f"it does not come to MPI, where others wait since {self.wait:g} s")
            self.failure = RankFailed(missing[0], len(self.statuses), error)
        if self.has_succeeded:
            return
        absent = [status for fd, status in self.statuses.items() if fd in self._open and not status.is_starting]
        if self._failed_at is None:
            self._failed_at = now
        if self._deadline is None or (self.died is not None and absent and now - self._failed_at < _START_SECONDS):
            self._deadline = now + _GRACE_SECONDS
        elif now > self._deadline and self.process.poll() is None:
            self.process.terminate()
            self._deadline = now + _STOP_SECONDS


def run_module(module: str, ranks: int, seconds: float) -> "subprocess.CompletedProcess[str]":
    """Run a module of atcpy on so many ranks, and wait for it."""
    command = [find_mpiexec(), "-n", str(ranks), sys.executable, "-m", "mpi4py", "-m", module]
    environment = {**os.environ, "MPIEXEC_TIMEOUT": str(math.ceil(seconds))}
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def find_mpiexec() -> str:
    """The path of mpiexec. Raises UsageError (EI0005) if it or mpi4py is missing."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None or importlib.util.find_spec("mpi4py") is None:
        raise no_mpi()
    return found


@contextmanager
def _spawned(command: Sequence[str], environment: Mapping[str, str]) -> "Iterator[subprocess.Popen[bytes]]":
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)
    try:
        yield process
    finally:
        if process.poll() is None:  # an interrupt, or our own --timeout: mpiexec ends the ranks
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
