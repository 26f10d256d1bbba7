"""The start of the ranks of `atcpy run`, processes of MPI, and what came of them."""

import importlib.util
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from atcpy.cli.invocation import Invocation
from atcpy.cli.job import Job
from atcpy.cli.launch import Several
from atcpy.cli.outcome import Outcome
from atcpy.cli.rank_folder import Order, RankFolder, outcome_of
from atcpy.errors import ResourceLimit
from atcpy.runtime.failures import RankFailed, no_mpi

_SECONDS = 600.0  # that a run takes at most without --timeout
_STOP_SECONDS = 5.0


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
        command = [mpiexec, "-n", str(ranks), sys.executable, "-m", "mpi4py", "-m", "atcpy.cli.rank", path]
        with _spawned(command, environment) as process:
            out, err = process.communicate()
        outcome = folder.outcome() if process.returncode == 0 else None
        if outcome is not None:
            sys.stderr.write(err)
            return outcome
        if run.debug:
            sys.stderr.write(out + err)
        return outcome_of(folder.failure() or _ended(folder, out + err, process.returncode, ranks, limit))


def find_mpiexec() -> str:
    """The path of mpiexec. UsageError (EI0005) if it or mpi4py is not there."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None or importlib.util.find_spec("mpi4py") is None:
        raise no_mpi()
    return found


@contextmanager
def _spawned(command: Sequence[str], environment: Mapping[str, str]) -> "Iterator[subprocess.Popen[str]]":
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, errors="replace"
    )
    try:
        yield process
    finally:
        if process.poll() is None:  # an interrupt, or our own --timeout: mpiexec ends the ranks
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _ended(folder: RankFolder, text: str, code: int, ranks: int, limit: float) -> RankFailed:
    """What mpiexec says of a rank that could leave nothing."""
    if "APPLICATION TIMED OUT" in text:
        return RankFailed(-1, ranks, ResourceLimit("R0003", f"the time limit of {limit:g} s is reached"))
    process = re.search(r"PID (\d+) RUNNING", text)
    signal = re.search(r"EXIT STRING: (.+)", text)
    how = signal[1] if signal else f"exit code {code}"
    rank = folder.rank_of(int(process[1])) if process else -1
    return RankFailed(rank, ranks, ResourceLimit("EI0007", f"it ended: {how}"))
