"""`atcpy run` on several ranks: threads that simulate them, processes of MPI, and the start of those.

Who starts the processes gives them a folder. There each leaves its number, the first that fails the reason, and rank 0
what it found; so exactly one message comes of a run, whatever MPI says meanwhile.
"""

import dataclasses
import importlib.util
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NoReturn

from atcpy.cli.invocation import Invocation, Outcome, as_known_error
from atcpy.errors import (
    AtcError,
    AtcWarning,
    InternalError,
    ModelInvalid,
    PackageCorrupt,
    ResourceLimit,
    Unsupported,
    UsageError,
    VerifyFailed,
    Where,
)
from atcpy.report.units import duration, size

if TYPE_CHECKING:
    from atcpy import InferenceSession
    from atcpy.runtime.agreement import RankFailed
    from atcpy.runtime.collectives import World

    Work = Callable[[World], Outcome]

MOST_SIMULATED = 64
_FOLDER = "ATCPY_RANKS_FOLDER"
_SECONDS = 600.0  # that a run takes at most without --timeout
_STOP_SECONDS = 5.0
_KINDS: dict[str, type[AtcError]] = {
    kind.kind: kind for kind in (UsageError, ModelInvalid, Unsupported, VerifyFailed, ResourceLimit, PackageCorrupt)
}
_RANKED = re.compile(r"(.+)@(\d+)=(.*)", re.DOTALL)


def launched_ranks() -> int:
    """How many ranks mpiexec started, this process among them; 1 if nobody did."""
    size = os.environ.get("PMI_SIZE", "1")
    return int(size) if size.isdigit() and "PMI_RANK" in os.environ else 1


def for_rank(texts: Sequence[str], names: Sequence[str], rank: int, ranks: int) -> list[str]:
    """The inputs of a rank: those of all, then its own, which are given as NAME@RANK=V; `{rank}` is its number."""
    common: list[str] = []
    own: list[str] = []
    for text in texts:
        match = _RANKED.fullmatch(text)
        if match is None or match[1] not in names or text.startswith(tuple(name + "=" for name in names)):
            common.append(text)
        elif int(match[2]) >= ranks:
            what = f"--input {match[1]}@{match[2]}: there are ranks 0 to {ranks - 1}"
            raise UsageError("E10013", what, where=Where(option="input"))
        elif int(match[2]) == rank:
            own.append(f"{match[1]}={match[3]}")
    return [text.replace("{rank}", str(rank)) if ranks > 1 else text for text in (*common, *own)]


def crowd(ranks: int) -> list[AtcWarning]:
    """W0050 if there are more ranks than cores."""
    cores = len(os.sched_getaffinity(0))
    return [AtcWarning("W0050", f"{ranks} ranks on {cores} cores wait for each other")] if ranks > cores else []


def simulate(work: "Work", ranks: int, groups: "Mapping[str, Sequence[int]]", seconds: float) -> Outcome:
    """What rank 0 finds where all ranks are threads of this process."""
    from atcpy.runtime.agreement import RankFailed
    from atcpy.runtime.simulated_world import run_simulated

    try:
        return run_simulated(lambda world: _finished(work(world)), ranks, groups, seconds)[0]
    except RankFailed as failure:
        return _failed(failure)


def join(run: Invocation, work: "Work", groups: "Mapping[str, Sequence[int]]", seconds: float) -> Outcome:
    """What this rank of MPI finds. Only rank 0 tells it; a rank that fails ends all."""
    from atcpy.runtime.agreement import RankFailed

    rank, ranks = int(os.environ["PMI_RANK"]), launched_ranks()
    folder = os.environ.get(_FOLDER)
    if folder:
        Path(folder, f"{os.getpid()}.pid").write_text(str(rank), encoding="ascii")
    if rank:
        run.json, run.quiet = False, True
    try:
        require_mpi()
        from atcpy.runtime.mpi_world import MpiWorld

        world = MpiWorld(groups, seconds, lambda error: _end_all(RankFailed(rank, ranks, error)))
        outcome = _finished(work(world))
    except BaseException as error:  # noqa: BLE001  a rank that only raises leaves the others waiting
        _end_all(RankFailed(rank, ranks, as_known_error(error)))
    if folder and rank == 0:
        told = {"result": outcome.result, "lines": list(outcome.lines)}
        Path(folder, "outcome").write_text(json.dumps(told), encoding="utf-8")
    return outcome if rank == 0 else Outcome(None)


def start(run: Invocation, arguments: Sequence[str], ranks: int) -> Outcome:
    """Starts the ranks with these arguments of ours, and what came of them."""
    mpiexec = require_mpi()
    limit: float = run.option("timeout") or _SECONDS
    with TemporaryDirectory(prefix="atcpy-ranks-") as folder:
        environment = {
            **os.environ,
            _FOLDER: folder,
            "MPIEXEC_TIMEOUT": str(math.ceil(limit)),
            "OMP_NUM_THREADS": str(max(1, len(os.sched_getaffinity(0)) // ranks)),
        }
        command = [mpiexec, "-n", str(ranks), sys.executable, "-m", "mpi4py", "-m", "atcpy", *arguments]
        with _spawned(command, environment) as process:
            out, err = process.communicate()
        if process.returncode == 0 and (told := Path(folder, "outcome")).exists():
            sys.stderr.write(err)
            return Outcome(**json.loads(told.read_text(encoding="utf-8")))
        if run.debug:
            sys.stderr.write(out + err)
        return _failed(_why(Path(folder), out + err, process.returncode, ranks, limit))


def require_mpi() -> str:
    """The path of mpiexec. UsageError (EI0005) if it or mpi4py is not there."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None or importlib.util.find_spec("mpi4py") is None:
        hint = "--simulate_ranks runs them in one process"
        raise UsageError("EI0005", "collectives need the extra: pip install atcpy[dist]", hint=hint)
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


def _why(folder: Path, text: str, code: int, ranks: int, limit: float) -> "RankFailed":
    """The failure that a rank left, or what mpiexec says of one that could leave nothing."""
    from atcpy.runtime.agreement import RankFailed

    if (left := folder / "failure").exists():
        return _read_failure(json.loads(left.read_text(encoding="utf-8")))
    if "APPLICATION TIMED OUT" in text:
        return RankFailed(-1, ranks, ResourceLimit("R0003", f"the time limit of {limit:g} s is reached"))
    process = re.search(r"PID (\d+) RUNNING", text)
    number = folder / f"{process[1]}.pid" if process else None
    rank = int(number.read_text(encoding="ascii")) if number is not None and number.exists() else -1
    signal = re.search(r"EXIT STRING: (.+)", text)
    how = signal[1] if signal else f"exit code {code}"
    return RankFailed(rank, ranks, ResourceLimit("EI0007", f"it ended: {how}"))


def _written(failure: "RankFailed") -> dict[str, Any]:
    error = as_known_error(failure.error)
    first = error.problems[0] if isinstance(error, AtcError) else error
    why = first.why if isinstance(first, AtcError) else ""
    told = {"code": first.code, "what": first.what, "where": asdict(first.where), "why": why, "hint": first.hint}
    return {"rank": failure.rank, "ranks": failure.ranks, "kind": first.kind, "error": told}


def _read_failure(written: Mapping[str, Any]) -> "RankFailed":
    from atcpy.runtime.agreement import RankFailed

    told = dict(written["error"])
    told["where"] = Where(**told["where"])
    error: AtcError | InternalError
    if (kind := _KINDS.get(written["kind"])) is not None:
        error = kind(told.pop("code"), told.pop("what"), **told)
    else:
        error = InternalError(told["what"], code=told["code"], where=told["where"])
    return RankFailed(written["rank"], written["ranks"], error)


def _finished(outcome: Outcome) -> Outcome:
    if outcome.error is not None:
        raise outcome.error
    return outcome


def _failed(failure: "RankFailed") -> Outcome:
    """The outcome of a run of which a rank failed: one line on stderr."""
    error = as_known_error(failure.error)
    told: AtcError | InternalError
    if isinstance(error, AtcError):
        first = error.problems[0]
        told = type(first)(first.code, failure.what, where=first.where, why=first.why, hint=first.hint)
    else:
        told = InternalError(failure.what, code=error.code, where=error.where)
    return Outcome(None, error=told, verdict=str(failure))


def _end_all(failure: "RankFailed") -> NoReturn:
    """Tells why this rank fails, and ends it in the way that mpiexec notices: without waiting for the others."""
    code = as_known_error(failure.error).exit_code
    folder = os.environ.get(_FOLDER)
    if folder:
        own = Path(folder, f"failure.{failure.rank}")
        own.write_text(json.dumps(_written(failure)), encoding="utf-8")
        with suppress(FileExistsError):  # another one was first
            os.link(own, Path(folder, "failure"))
    elif failure.is_common and failure.rank:
        time.sleep(1)  # rank 0 says it
    else:
        sys.stderr.write(f"{failure}\n")
        sys.stderr.flush()
    os._exit(code)


def predict(session: "InferenceSession", ranks: int) -> Outcome:
    """What the model of costs says of so many ranks: seconds for each collective, by the cheapest algorithm."""
    from atcpy.options import recorded_options
    from atcpy.passes.collective_costs import cheapest
    from atcpy.runtime.agreement import collectives_of

    network = dataclasses.replace(recorded_options(session.model.cmdline).prepare.allreduce.network, ranks=ranks)
    rows: list[dict[str, Any]] = []
    for node in collectives_of(session.model.graph):
        values = node.outputs if node.op_type == "HcomAllGather" else node.operands
        nbytes = sum(value.desc.nbytes for value in values if value.desc.is_static)
        way = cheapest(node.op_type, nbytes, network)
        rows.append({"name": node.name, "bytes": nbytes, "algorithm": way.name, "seconds": way.seconds(nbytes)})
    total = sum(row["seconds"] for row in rows)
    lines = [f"{row['name']}  {size(row['bytes'])}  {row['algorithm']}  {duration(row['seconds'])}" for row in rows]
    lines.append(f"{len(rows)} collectives of {ranks} ranks take {duration(total)} by the model of costs; nothing ran")
    return Outcome({"ranks": ranks, "collectives": rows, "seconds": total}, lines)
