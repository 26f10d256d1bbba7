"""The start of the ranks of `atcpy run`, processes of MPI, and what came of them."""

import importlib.util
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from tempfile import TemporaryDirectory

from atcpy.cli.invocation import Invocation
from atcpy.cli.job import Job
from atcpy.cli.launch import Several
from atcpy.cli.outcome import Outcome
from atcpy.cli.rank import together
from atcpy.cli.rank_folder import Order, RankFolder, Told, outcome_of
from atcpy.cli.signals import TERMINATED
from atcpy.errors import ResourceLimit
from atcpy.runtime.failures import RankFailed, no_mpi

_SECONDS = 600.0  # that a run takes at most without --timeout
_GRACE_SECONDS = 1.0  # for mpiexec to notice itself that a rank is gone
_STOP_SECONDS = 5.0
_LOOK_SECONDS = 0.25
_STOPPED = (0, signal.SIGKILL, signal.SIGTERM, TERMINATED << 8)  # how ranks end that mpiexec stops
# A rank has its pipe from its first moment, as standard input.
_WITH_PIPE = 'exec "$@" 0>"$0/rank${PMI_RANK:-$OMPI_COMM_WORLD_RANK}"'


def start(run: Invocation, job: Job, several: Several) -> Outcome:
    """Starts the ranks, and what came of them."""
    mpiexec, ranks = find_mpiexec(), several.count
    limit: float = run.option("timeout") or _SECONDS
    with TemporaryDirectory(prefix="atcpy-ranks-") as path:
        environment = {
            **os.environ,
            "MPIEXEC_TIMEOUT": str(math.ceil(limit)),
            "OMP_NUM_THREADS": str(max(1, len(os.sched_getaffinity(0)) // ranks)),
        }
        folder = RankFolder(path)
        folder.leave_order(Order(job, several.groups, several.wait, run.option("memory_limit")))
        told = {folder.listen(rank): Told(rank) for rank in range(ranks)}
        is_mpich = Path(mpiexec).with_name("mpiexec.hydra").exists()
        command = [mpiexec, *(["-print-all-exitcodes"] if is_mpich else []), "-n", str(ranks)]
        command += ["/bin/sh", "-c", _WITH_PIPE, path]
        command += [sys.executable, "-m", "mpi4py", "-m", "atcpy.cli.rank", path]
        try:
            with _spawned(command, environment) as process:
                watch = _Watch(process, told, several.wait)
                watch.run()
        finally:
            for pipe in told:
                os.close(pipe)
    outcomes = [each.outcome for each in told.values() if each.outcome is not None]
    if process.returncode == 0 and watch.has_succeeded and len(outcomes) == ranks:
        sys.stderr.write(watch.err)
        return together(outcomes)
    if run.debug:
        sys.stderr.write(watch.out + watch.err)
    return outcome_of(_why(watch, limit))


def _why(watch: "_Watch", limit: float) -> RankFailed:
    ranks, text = len(watch.told), watch.out + watch.err
    if "APPLICATION TIMED OUT" in text:
        return RankFailed(-1, ranks, ResourceLimit("R0003", f"the time limit of {limit:g} s is reached"))
    if watch.failure is not None:
        return watch.failure
    if watch.gone is not None:
        codes = _exit_codes(text)
        # Ranks that end at nearly the same time: the one with a code of its own was not stopped by mpiexec.
        own = [rank for rank, code in enumerate(codes) if code not in _STOPPED]
        rank = watch.gone if watch.gone in own or not own else own[0]
        how = _how(codes[rank]) if rank < len(codes) else "nobody saw how"
        return RankFailed(rank, ranks, ResourceLimit("EI0007", f"it ended: {how}"))
    return RankFailed(-1, ranks, ResourceLimit("EI0007", f"mpiexec ended with the code {watch.process.returncode}"))


def _exit_codes(text: str) -> list[int]:
    """How the ranks ended, by the list of MPICH's mpiexec, as `wait` has it."""
    found = re.search(r"Exit codes: \[\S+\] ([\d,]+)", text)
    return [int(code) for code in found[1].split(",")] if found else []


def _how(status: int) -> str:
    number = os.waitstatus_to_exitcode(status)
    return f"exit code {number}" if number >= 0 else f"{signal.strsignal(-number)} (signal {-number})"


@dataclass
class _Watch:
    """The run of mpiexec until it ends, which it is made to as soon as a rank fails. `told` is by pipe."""

    process: "subprocess.Popen[bytes]"
    told: Mapping[int, Told]
    wait: float
    failure: RankFailed | None = None
    gone: int | None = None  # the rank that ended without a word, first
    _printed: dict[int, bytearray] = field(default_factory=dict)
    _deadline: float | None = None

    def run(self) -> None:
        """Listens to the ranks and to what they print."""
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            self._printed[stream.fileno()] = bytearray()
        with DefaultSelector() as selector:
            for fd in (*self.told, *self._printed):
                selector.register(fd, EVENT_READ)
            began: float | None = None
            while selector.get_map():
                is_over = self.process.poll() is not None
                events = selector.select(0 if is_over else _LOOK_SECONDS)
                if is_over and not events:
                    break
                for key, _ in events:
                    if not self._read(key.fd):
                        selector.unregister(key.fd)
                if began is None and any(told.has_met for told in self.told.values()):
                    began = time.monotonic()
                self._look(began)

    @property
    def has_succeeded(self) -> bool:
        """Has no rank failed?"""
        return self.failure is None and self.gone is None

    @property
    def out(self) -> str:
        """What was printed."""
        return next(iter(self._printed.values())).decode("utf-8", "replace")

    @property
    def err(self) -> str:
        """The same on stderr."""
        return list(self._printed.values())[1].decode("utf-8", "replace")

    def _read(self, fd: int) -> bool:
        """Takes what there is; False at the end."""
        content = os.read(fd, 1 << 16)
        told = self.told.get(fd)
        if told is None:
            self._printed[fd] += content
            return bool(content)
        told.hear(content)
        if self.has_succeeded:
            self.failure = told.failure
            if not content and not told.is_done:
                self.gone = told.rank
        return bool(content)

    def _look(self, began: float | None) -> None:
        """Ends what goes on though a rank has failed, or waits for one that does not come."""
        now = time.monotonic()
        missing = [told.rank for told in self.told.values() if not told.has_met]
        if began is not None and missing and now - began > self.wait and self.has_succeeded:
            error = ResourceLimit("EI0007", f"it does not come to MPI, where others wait since {self.wait:g} s")
            self.failure = RankFailed(missing[0], len(self.told), error)
        if self.has_succeeded:
            return
        if self._deadline is None:
            self._deadline = now + _GRACE_SECONDS
        elif now > self._deadline and self.process.poll() is None:
            self.process.terminate()
            self._deadline = now + _STOP_SECONDS


def run_module(module: str, ranks: int, seconds: float) -> "subprocess.CompletedProcess[str]":
    """A module of ours on so many ranks, to its end."""
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
    """The path of mpiexec. UsageError (EI0005) if it or mpi4py is not there."""
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
