"""`atcpy run` under MPI, what takes too long for `make test`: `make e2e`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Ran, environment
from tests.models_in_text import package

MPIEXEC = str(Path(sys.executable).parent / "mpiexec")
MOST_SECONDS = 10
MODEL = """g (float[4] x, int64[1] i) => (float[1] y, float[4] m) {
    a = Exp(x)
    s = HcomAllReduce<reduction = "sum">(a)
    y = Gather<axis = 0>(s, i)
    b0 = Sin(x)
    b = Add(b0, y)
    m = HcomAllReduce<reduction = "mean">(b)
}"""
GROUPED = """g (float[4] x) => (float[4] a, float[4] b, float[4] c, float[8] d, float[2] e) {
    a = HcomAllReduce<reduction = "sum", group = "left">(x)
    b = HcomAllReduce<reduction = "mean", group = "right">(a)
    c = HcomAllReduce<reduction = "max", group = "middle">(b)
    d = HcomAllGather<rank_size = 2, group = "left">(c)
    e = HcomReduceScatter<rank_size = 2, reduction = "sum", group = "right">(c)
}"""
GROUPS = {"left": [0, 1], "right": [2, 3], "middle": [1, 2]}
FEEDS = ("--input", "x=random:{rank}", "--input", "i=0.npy")
# A rank that does something else where it should meet the others.
SITE = """import os
if os.environ.get("PMI_RANK") == "1":
    from atcpy.runtime.distributed import run_collective as module
    module.run_collective = lambda *_: {}
"""

AT_ONCE = """import os
if os.environ.get("PMI_RANK") == "1":
    {}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("distributed")
    (folder / "g.om").write_bytes(package(MODEL))
    (folder / "other.om").write_bytes(package(MODEL, {"oo_level": "O0"}))
    (folder / "grouped.om").write_bytes(package(GROUPED))
    (folder / "groups.json").write_text(json.dumps(GROUPS))
    np.save(folder / "0.npy", np.array([0]))
    np.save(folder / "9.npy", np.array([9]))
    return folder


def path_before(*folders: Path) -> dict[str, str]:
    """An environment in which Python looks there first."""
    there = environment()
    return {**there, "PYTHONPATH": os.pathsep.join((*map(str, folders), there["PYTHONPATH"]))}


def ran(folder: Path, command: Sequence[object], **options: object) -> Ran:
    """What a command left behind, soon enough, and nothing of it still runs."""
    started = time.monotonic()
    settings = {"cwd": folder, "env": environment(), "start_new_session": True, **options}
    process = subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **settings,  # type: ignore[call-overload]
    )
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert time.monotonic() - started < MOST_SECONDS
    assert not still_there(process.pid)
    return Ran(process.returncode, out, err)


def still_there(session: int) -> list[int]:
    """The processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else []
        except OSError:
            continue
        if fields and int(fields[3]) == session and fields[0] != "Z":
            found.append(int(entry.name))
    return found


def by_hand(ranks: int, *arguments: object, mpi4py: bool = True) -> list[object]:
    wrapped = ("-m", "mpi4py") if mpi4py else ()
    return [MPIEXEC, "-n", ranks, sys.executable, *wrapped, "-m", "atcpy", "run", *arguments]


def started(*arguments: object) -> list[object]:
    return [sys.executable, "-m", "atcpy", "run", *arguments]


def arrays(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.npy")}


def test_collectives_are_those_of_simulated_ranks(folder: Path) -> None:
    repo = Path(__file__).parents[2]
    result = ran(repo, [MPIEXEC, "-n", 4, sys.executable, "-m", "mpi4py", "-m", "tests.e2e.worlds"])
    assert result.code == 0, result.err


@pytest.mark.parametrize("mpi4py", [True, False])
def test_by_hand_it_is_the_same(folder: Path, tmp_path: Path, mpi4py: bool) -> None:
    result = ran(folder, by_hand(2, "g.om", *FEEDS, "--output-dir", tmp_path / "mpi", mpi4py=mpi4py))
    assert (result.code, result.err, result.out.count("ran in")) == (0, "", 1)
    simulated = ran(folder, started("g.om", *FEEDS, "--simulate-ranks", 2, "--output-dir", tmp_path / "threads"))
    assert simulated.code == 0
    assert len(arrays(tmp_path / "mpi")) == 4
    assert arrays(tmp_path / "mpi") == arrays(tmp_path / "threads")


@pytest.mark.parametrize("mpi4py", [True, False])
def test_by_hand_an_error_on_one_rank_ends_all(folder: Path, mpi4py: bool) -> None:
    result = ran(folder, by_hand(3, "g.om", *FEEDS, "--input", "i@1=9.npy", mpi4py=mpi4py))
    line = 'atcpy: rank 1 of 3: node "y" (Gather): index 9 is outside an axis of size 4\n'
    assert (result.code != 0, result.err) == (True, line)


def test_by_hand_what_is_wrong_everywhere_is_said_once(folder: Path) -> None:
    result = ran(folder, by_hand(3, "g.om", "--input", "x=nothing.npy"))
    assert (result.code != 0, result.err) == (True, "atcpy: rank 0 of 3: nothing.npy: nothing.npy does not exist\n")
    result = ran(folder, by_hand(3, "g.om", *FEEDS, "--ranks", 2))
    assert (result.code != 0, result.err.count("\n")) == (True, 1)


def test_by_hand_another_package_is_said_once_by_all(folder: Path) -> None:
    first, *rest = by_hand(1, "g.om", *FEEDS), ":", *by_hand(2, "other.om", *FEEDS)[1:]
    result = ran(folder, [*first, *rest])
    assert (result.code != 0, result.err) == (True, "atcpy: ranks 1, 2 run another package than rank 0\n")


def test_groups(folder: Path, tmp_path: Path) -> None:
    common = ("grouped.om", "--input", "x=random:{rank}", "--input", "x@3=ones", "--groups", "groups.json")
    result = ran(folder, started(*common, "--ranks", 5, "--output-dir", tmp_path / "mpi"))
    assert result.code == 0, result.err
    simulated = ran(folder, started(*common, "--simulate-ranks", 5, "--output-dir", tmp_path / "threads"))
    assert simulated.code == 0, simulated.err
    assert len(arrays(tmp_path / "mpi")) == 25
    assert arrays(tmp_path / "mpi") == arrays(tmp_path / "threads")
    assert np.array_equal(np.load(tmp_path / "mpi/rank3/d.npy"), np.zeros(8))  # it is in no group of that node


@pytest.mark.parametrize("how", ["--ranks", "by hand"])
def test_a_rank_that_does_not_come_is_not_waited_for(folder: Path, tmp_path: Path, how: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(SITE.format("__import__('time').sleep(60)"))
    common = ("g.om", *FEEDS, "--wait", "2")
    command = started(*common, "--ranks", 2) if how == "--ranks" else by_hand(2, *common)
    result = ran(folder, command, env=path_before(tmp_path))
    assert result.code == 6
    assert result.err.startswith("atcpy: rank 0 of 2: node ")
    assert result.err.endswith("waits for other ranks since 2 s\n")
    assert result.err.count("\n") == 1


def test_the_time_limit_is_that_of_all_ranks(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SITE.format("__import__('time').sleep(60)"))
    result = ran(folder, started("g.om", *FEEDS, "--ranks", 2, "--timeout", 4), env=path_before(tmp_path))
    assert result.code == 6
    assert "the time limit of 4 s is reached" in result.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all_ranks(folder: Path, tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "sitecustomize.py").write_text(SITE.format("__import__('time').sleep(60)"))
    process = subprocess.Popen(
        list(map(str, started("g.om", *FEEDS, "--ranks", 2))),
        cwd=folder,
        env=path_before(tmp_path),
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + MOST_SECONDS
    while len(still_there(process.pid)) < 5 and time.monotonic() < deadline:  # mpiexec, its proxy, two ranks
        time.sleep(0.1)
    process.send_signal(number)
    _, err = process.communicate(timeout=MOST_SECONDS)
    assert process.returncode == 128 + number
    assert err in ("", "interrupted\n")
    assert not still_there(process.pid)


@pytest.mark.parametrize("site", [SITE, AT_ONCE], ids=["at the collective", "at once"])
@pytest.mark.parametrize("code", [0, 7, -9])
def test_a_rank_that_is_gone_ends_all(folder: Path, tmp_path: Path, code: int, site: str) -> None:
    way = f"os._exit({code})" if code >= 0 else f"os.kill(os.getpid(), {-code})"
    (tmp_path / "sitecustomize.py").write_text(site.format(way))
    result = ran(folder, started("g.om", *FEEDS, "--ranks", 3), env=path_before(tmp_path))
    how = "Killed (signal 9)" if code < 0 else f"exit code {code}"
    assert (result.code, result.out, result.err) == (6, "", f"atcpy: rank 1 of 3: it ended: {how}\n")


def test_more_ranks_than_cores_are_told_once(folder: Path) -> None:
    for command in (started("g.om", *FEEDS, "--ranks", 2), by_hand(2, "g.om", *FEEDS)):
        one_core = ["taskset", "-c", str(min(os.sched_getaffinity(0))), *command]
        result = ran(folder, one_core)
        assert (result.code, result.err.count("W0050")) == (0, 1), result.err


def test_without_mpi4py(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py/__init__.py").write_text("raise ImportError")
    result = ran(folder, by_hand(2, "g.om", *FEEDS, mpi4py=False), env=path_before(tmp_path))
    assert (result.code, result.err) == (2, "atcpy: collectives need the extra: pip install atcpy[dist]\n")
