"""`atcpy run` on several ranks: threads and processes give the same, and whatever fails ends all with one message."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from atcpy.cli.job import inputs_of_rank
from atcpy.errors import UsageError
from atcpy.runtime.distributed.launch import Launch, find_launch
from tests.models_in_text import package

from .conftest import REPO, Invoke, Ran, environment, finish, spawn

MODEL = """g (float[4] x, int64[1] i) => (float[1] y, float[4] m) {
    a = Exp(x)
    s = HcomAllReduce<reduction = "sum">(a)
    n = Neg(s)
    y = Gather<axis = 0>(n, i)
    b = Sin(x)
    m = HcomAllReduce<reduction = "mean">(b)
}"""
# mpiexec comes with the wheel of mpich, which is not there for every system.
needs_mpi = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="the extra dist is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "g.om").write_bytes(package(MODEL))
    (folder / "other.om").write_bytes(package(MODEL, {"skip_pass": ("HcomAllReduceFusionPass",)}))
    (folder / "plain.om").write_bytes(package("g (float[4] x) => (float[4] y) { y = Neg(x) }"))
    np.save(folder / "0.npy", np.array([0]))
    np.save(folder / "9.npy", np.array([9]))
    (folder / "sitecustomize.py").write_text(
        "import os, signal\n"
        'if os.environ.get("PMI_RANK") == "1":\n'
        "    from atcpy.runtime.distributed import run_collective as module\n"
        "    module.run_collective = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    return folder


FEEDS = ("--input", "x=random:{rank}", "--input", "i=0.npy")


def run(folder: Path, *arguments: str) -> Ran:
    return finish(spawn("run", *arguments, cwd=folder))


def arrays(folder: Path) -> dict[str, np.ndarray]:
    return {path.stem: np.load(path) for path in folder.glob("*.npy")}


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("more", [(), ("--iterations", "3", "--state", "m=x")], ids=["once", "iterations"])
def test_processes_and_threads_give_the_same(more: tuple[str, ...], folder: Path, tmp_path: Path) -> None:
    common = ("g.om", *FEEDS, *more, "--json")
    by_mpi = run(folder, *common, "--ranks", "2", "--output-dir", str(tmp_path / "mpi"))
    simulated = run(folder, *common, "--simulate-ranks", "2", "--output-dir", str(tmp_path / "threads"))
    assert by_mpi.code == simulated.code == 0, by_mpi.err + simulated.err
    names = [record["name"] for record in by_mpi.envelope["result"]["outputs"]]
    assert names == ["y", "m"]
    one, other = (each.envelope["result"]["ranks"] for each in (by_mpi, simulated))
    assert [[rank["rank"], rank["outputs"][0]["mean"]] for rank in one] == [
        [rank["rank"], rank["outputs"][0]["mean"]] for rank in other
    ]
    assert len(one) == 2
    for rank in range(2):
        ours, theirs = arrays(tmp_path / "mpi" / f"rank{rank}"), arrays(tmp_path / "threads" / f"rank{rank}")
        assert sorted(ours) == ["m", "y"]
        for name, array in ours.items():
            np.testing.assert_array_equal(array, theirs[name])


def check_npz_of_ranks(folder: Path, target: Path, option: str) -> None:
    """Each rank takes an archive of its own, and gives one."""
    x = [np.array([0, 1, 2, 3], np.float32), np.array([5, 5, 5, 5], np.float32)]
    for rank in range(2):
        np.savez(target / f"in{rank}.npz", x=x[rank], i=np.array([rank]))
    npz = ("--npz", str(target / "in{rank}.npz"), "--npz_out", str(target / "out{rank}.npz"))
    ran = run(folder, "g.om", option, "2", *npz)
    assert ran.code == 0, ran.err
    total = -(np.exp(x[0]) + np.exp(x[1]))
    for rank in range(2):
        out = np.load(target / f"out{rank}.npz")
        np.testing.assert_allclose(out["y"], total[rank : rank + 1], rtol=1e-5)
        np.testing.assert_allclose(out["m"], (np.sin(x[0]) + np.sin(x[1])) / 2, atol=1e-5)


@pytest.mark.slow
def test_simulated_ranks_take_archives_of_their_own(folder: Path, tmp_path: Path) -> None:
    check_npz_of_ranks(folder, tmp_path, "--simulate_ranks")


@pytest.mark.slow
@needs_mpi
def test_ranks_of_mpi_take_archives_of_their_own(folder: Path, tmp_path: Path) -> None:
    check_npz_of_ranks(folder, tmp_path, "--ranks")


@pytest.mark.slow
def test_the_archive_of_a_rank_that_is_missing_is_named(folder: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in0.npz", x=np.zeros(4, np.float32), i=np.array([0]))
    ran = run(folder, "g.om", "--simulate_ranks", "2", "--npz", str(tmp_path / "in{rank}.npz"))
    assert (ran.code, ran.out) == (2, "") and f"{tmp_path}/in1.npz does not exist" in ran.err


@pytest.mark.slow
@needs_mpi
def test_the_example_of_a_world_in_python(tmp_path: Path) -> None:
    mpiexec = str(Path(sys.executable).parent / "mpiexec")
    command = [mpiexec, "-n", "2", sys.executable, "-m", "mpi4py", str(REPO / "examples" / "mpi_training.py")]
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False, timeout=120
    )
    assert (ran.returncode, ran.stdout) == (0, "2 ranks found 1.00, -2.00, 0.50\n"), ran.stderr


@pytest.mark.slow
@needs_mpi
def test_a_rank_that_waits_in_python_ends_all(tmp_path: Path) -> None:
    (tmp_path / "wait.py").write_text(
        "import time\n"
        "from atcpy.runtime.distributed.mpi_world import MpiWorld\n"
        "world = MpiWorld(seconds=1)\n"
        "time.sleep(60) if world.rank else world.exchange(1)\n"
    )
    mpiexec = str(Path(sys.executable).parent / "mpiexec")
    command = [mpiexec, "-n", "2", sys.executable, "-m", "mpi4py", "wait.py"]
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode != 0 and "atcpy: rank 0 of 2: " in ran.stderr and "since 1 s" in ran.stderr


@pytest.mark.slow
@needs_mpi
def test_a_rank_that_fails_ends_all_with_one_line(folder: Path) -> None:
    ran = run(folder, "g.om", "--ranks", "2", *FEEDS, "--input", "i@1=9.npy")
    line = 'atcpy: rank 1 of 2: node "y" (Gather): index 9 is outside an axis of size 4\n'
    assert (ran.code, ran.out, ran.err) == (3, "", line)


@pytest.mark.slow
@needs_mpi
def test_a_rank_that_is_killed_ends_all_with_one_line(folder: Path) -> None:
    there = {"PYTHONPATH": os.pathsep.join((str(folder), environment()["PYTHONPATH"]))}
    ran = finish(spawn("run", "g.om", "--ranks", "2", *FEEDS, cwd=folder, env=environment() | there))
    assert (ran.code, ran.out, ran.err) == (6, "", "atcpy: rank 1 of 2: it ended: Killed (signal 9)\n")


@pytest.mark.slow
@needs_mpi
def test_a_rank_that_dies_before_mpi_starts_is_not_waited_for(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text('import os\nif os.environ.get("PMI_RANK") == "1":\n    os._exit(7)\n')
    there = {"PYTHONPATH": os.pathsep.join((str(tmp_path), environment()["PYTHONPATH"]))}
    ran = finish(spawn("run", "g.om", "--ranks", "2", *FEEDS, cwd=folder, env=environment() | there))
    assert (ran.code, ran.out, ran.err) == (6, "", "atcpy: rank 1 of 2: it ended: exit code 7\n")


@pytest.mark.slow
@needs_mpi
def test_another_package_on_one_rank(folder: Path) -> None:
    command = [str(Path(sys.executable).parent / "mpiexec")]
    for name in ("g.om", "other.om"):
        command += ["-n", "1", sys.executable, "-m", "mpi4py", "-m", "atcpy", "run", name, *FEEDS, ":"]
    ran = subprocess.run(
        command[:-1], cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=60
    )
    assert (ran.returncode, ran.stderr) == (3, "atcpy: rank 1 runs another package than rank 0\n")


def beside_a_process_that_ends(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A rank that mpiexec starts directly, beside another that never comes to MPI."""
    mpiexec = str(Path(sys.executable).parent / "mpiexec")
    command = [mpiexec, "-n", "1", sys.executable, "-m", "atcpy", "run", "g.om", *FEEDS, *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*command, ":", "-n", "1", "true"], cwd=folder, env=environment(), stdout=pipe, stderr=pipe, text=True
    )


@pytest.mark.slow
@needs_mpi
def test_a_rank_alone_in_mpi_ends_after_its_wait(folder: Path) -> None:
    with beside_a_process_that_ends(folder, "--wait", "1") as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 6
    assert "rank 0 of 2: the others do not come to MPI, where it waits since 1 s\n" in err


@pytest.mark.slow
@needs_mpi
def test_a_rank_alone_in_mpi_hears_signals(folder: Path) -> None:
    with beside_a_process_that_ends(folder, "--wait", "600") as process:
        time.sleep(3)  # it is in MPI then, or on its way: either must do
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode != 0


def test_a_simulated_rank_that_fails_ends_all(folder: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    started = time.monotonic()
    ran = invoke("run", "g.om", *FEEDS, "--input", "i@2=9.npy", "--simulate-ranks", "4")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err == 'atcpy: rank 2 of 4: node "y" (Gather): index 9 is outside an axis of size 4\n'
    ran = invoke("run", "g.om", *FEEDS, "--input", "i@2=9.npy", "--simulate-ranks", "4", "--json")
    (error,) = ran.envelope["errors"]
    assert (error["code"], error["message"].startswith("rank 2 of 4: ")) == ("D0001", True)
    assert time.monotonic() - started < 10


def test_one_rank_or_no_collectives_start_nothing(
    folder: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("subprocess.Popen", None)
    assert invoke("run", "g.om", *FEEDS[2:], "--fill", "ones", "--ranks", "1").code == 0
    ran = invoke("run", "plain.om", "--fill", "ones", "--ranks", "2")
    assert ran.code == 0
    assert "W0012" in ran.err
    assert "mpi4py" not in sys.modules


def test_without_the_extra(folder: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    ran = invoke("run", "g.om", *FEEDS, "--ranks", "2")
    assert ran.code == 2
    assert ran.err.startswith("error[EI0005] collectives need the extra: pip install atcpy[dist]\n")


def test_many_ranks_are_predicted(folder: Path, invoke: Invoke) -> None:
    ran = invoke("run", folder / "g.om", "--simulate-ranks", "10000", "--json")
    assert ran.code == 0
    result = ran.envelope["result"]
    assert (result["ranks"], len(result["collectives"])) == (10000, 2)
    assert result["seconds"] > 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--ranks", "2", "--simulate-ranks", "2"), "E10056"),
        (("--simulate-ranks", "2", "--groups", "groups.json"), "EI0004"),
        (("--simulate-ranks", "2", "--input", "x@2=ones"), "E10013"),
    ],
)
def test_what_is_refused(
    folder: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: str
) -> None:
    monkeypatch.chdir(folder)
    (folder / "groups.json").write_text(json.dumps({"a": [5]}))
    ran = invoke("run", "g.om", *FEEDS, *arguments, "--json")
    assert (ran.code, ran.envelope["errors"][0]["code"]) == (2, code)


@pytest.mark.slow
@needs_mpi
def test_an_mpi_that_knows_of_fewer_ranks_than_were_started(folder: Path) -> None:
    there = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}
    ran = finish(spawn("run", "g.om", *FEEDS, cwd=folder, env=environment() | there))
    assert (ran.code, ran.out, ran.err) == (2, "", "atcpy: 2 ranks were started, MPI knows of 1\n")


@pytest.mark.parametrize(
    ("variables", "launch"),
    [
        ({}, Launch(0, 1)),
        ({"PMI_RANK": "1", "PMI_SIZE": "4"}, Launch(1, 4)),
        ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "PMIX_RANK": "3"}, Launch(3, 4)),
        ({"PMIX_RANK": "2", "SLURM_STEP_NUM_TASKS": "8", "SLURM_PROCID": "2"}, Launch(2, 8)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, Launch(0, 1)),  # the script of a batch job
        ({"PMI_RANK": "4", "PMI_SIZE": "4"}, Launch(0, 1)),
        ({"PMI_RANK": "one", "PMI_SIZE": "4"}, Launch(0, 1)),
    ],
)
def test_who_starts_ranks_says_so(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], launch: Launch) -> None:
    for name in ("PMI_RANK", "PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert find_launch() == launch


@pytest.mark.slow
def test_a_rank_loads_neither_the_command_line_nor_onnx(folder: Path) -> None:
    program = (
        "import sys; from atcpy import InferenceSession; import atcpy.cli.rank, atcpy.cli.arrays, atcpy.verify.sizes;"
        "from atcpy.cli.job import InputSources; from atcpy.runtime.distributed.world import SingleRank;"
        "sources = InputSources(['i=0.npy'], [], 'ones', [], [], None, None, 'NCHW');"
        "sources.feeds(InferenceSession('g.om'), SingleRank());"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'onnx', 'typer', 'subprocess', 'tempfile'}))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment(), capture_output=True, text=True, check=True
    )
    assert ran.stdout == "[]\n"


def test_inputs_of_a_rank() -> None:
    texts = ["x=a.npy", "x@1=b.npy", "y@0=c={rank}", "y=d{rank}"]
    assert inputs_of_rank(texts, ["x", "y"], 1, 2) == ["x=a.npy", "y=d1", "x=b.npy"]
    assert inputs_of_rank(texts, ["x", "y"], 0, 2) == ["x=a.npy", "y=d0", "y=c=0"]
    assert inputs_of_rank(["x@1=a.npy"], ["x", "x@1"], 0, 2) == ["x@1=a.npy"]
    with pytest.raises(UsageError):
        inputs_of_rank(["x@2=a.npy"], ["x"], 0, 2)
