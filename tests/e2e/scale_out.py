"""Data sets scored by clusters of two workers: `make scale-out`, in an environment with Dask and Ray, without onnx."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from dask.distributed import Client, LocalCluster

import atcpy

REPO = Path(__file__).resolve().parents[2]
PACKAGE = str(Path.cwd() / "digits.om")  # of a fixed batch of one
SHARDS = [str(number) for number in range(8)]


def pictures(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).random((count, 1, 28, 28), np.float32)


def expected(x: np.ndarray) -> np.ndarray:
    session = atcpy.InferenceSession(PACKAGE, threads=1)
    return np.concatenate([session.run(None, {"image": row[None]})[0] for row in x])


class Load:
    """The inputs of a shard. The first process that asks for that of `killed` ends at once."""

    def __init__(self, folder: Path, killed: str) -> None:
        self.folder, self.killed = folder, killed

    def __call__(self, shard: str) -> dict[str, np.ndarray]:
        if shard == self.killed:
            try:
                (self.folder / "killed").touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return {"image": pictures(int(shard), 5)}


@pytest.fixture(scope="module")
def dask() -> Iterator[Client]:
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def ray_data() -> Iterator[Any]:
    ray.init(num_cpus=3, include_dashboard=False, runtime_env={"env_vars": {"PYTHONPATH": str(REPO)}})
    yield ray.data
    ray.shutdown()


def check(folder: Path) -> None:
    for shard in SHARDS:
        with np.load(folder / f"{shard}.npz") as stored:
            np.testing.assert_array_equal(stored["probabilities"], expected(pictures(int(shard), 5)))


@pytest.mark.parametrize("killed", ["", "3"])
def test_dask_loses_nothing(dask: Client, tmp_path: Path, killed: str) -> None:
    job = atcpy.ScoreShard(atcpy.Scorer(PACKAGE), Load(tmp_path, killed), str(tmp_path / "out"))
    results = dask.gather(dask.map(job, SHARDS, pure=False))
    assert [result.shard for result in results] == SHARDS
    assert (tmp_path / "killed").exists() == bool(killed)
    assert job.missing(SHARDS) == []
    assert all(result.was_done for result in dask.gather(dask.map(job, SHARDS, pure=False)))
    check(tmp_path / "out")


def test_dask_workers_open_one_session_each(dask: Client, tmp_path: Path) -> None:
    def session_of_worker(_: int) -> tuple[int, int]:
        return os.getpid(), id(atcpy.Scorer(PACKAGE).session)

    found = set(dask.gather(dask.map(session_of_worker, range(20), pure=False)))
    assert len(found) == len({process for process, _ in found}) <= 2


@pytest.mark.parametrize("kill", [False, True])
def test_ray_gives_the_results_of_one_session(ray_data: Any, tmp_path: Path, kill: bool) -> None:
    def load(row: dict[str, int]) -> dict[str, Any]:
        if kill and row["id"] == 30:
            Load(tmp_path, "30")("30")
        return {"id": row["id"], "image": pictures(row["id"], 1)[0]}

    class ScoreRows(atcpy.Scorer):
        """Keeps the number of each row."""

        def __call__(self, batch: Any) -> dict[str, Any]:
            return {"id": batch["id"], **super().__call__({"image": batch["image"]})}

    scored = (
        ray_data.range(60, override_num_blocks=4)
        .map(load)
        .map_batches(
            ScoreRows, fn_constructor_args=(PACKAGE,), compute=ray_data.ActorPoolStrategy(size=2), batch_size=16
        )
    )
    rows = sorted(scored.take_all(), key=lambda row: row["id"])
    assert [row["id"] for row in rows] == list(range(60))
    assert (tmp_path / "killed").exists() == kill
    x = np.concatenate([pictures(number, 1) for number in range(60)])
    np.testing.assert_array_equal(np.stack([row["probabilities"] for row in rows]), expected(x))


@pytest.mark.parametrize(
    ("program", "count", "last"), [("with_dask.py", "4", "4 of 4: "), ("with_ray.py", "100", "100 rows")]
)
def test_the_examples_run(tmp_path: Path, program: str, count: str, last: str) -> None:
    command = [sys.executable, str(REPO / "examples" / "scale_out" / program), PACKAGE, str(tmp_path / "out"), count]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    assert ran.stdout.splitlines()[-1].startswith(last)
