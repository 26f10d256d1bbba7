"""Batches of any size through packages of each kind, and shards that are done once."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atcpy
from atcpy import Scorer, ScoreShard
from atcpy.errors import UsageError
from atcpy.runtime.scoring import BatchSizes, ShardResult
from tests.models_in_text import package

TEXT = """m ({dims} x) => ({dims} y, float[] total) {{
    y = Relu (x)
    total = ReduceSum <keepdims = 0> (x)
}}"""
RNG = np.random.default_rng(3)


def written(folder: Path, dims: str, **options: str) -> Path:
    path = folder / "m.om"
    path.write_bytes(package(TEXT.format(dims=dims), options))
    return path


@pytest.mark.parametrize(
    ("sizes", "samples", "runs"),
    [
        (BatchSizes((4,)), 0, [(0, 0, 4)]),
        (BatchSizes((4,)), 1, [(0, 1, 4)]),
        (BatchSizes((4,)), 4, [(0, 4, 4)]),
        (BatchSizes((4,)), 5, [(0, 4, 4), (4, 1, 4)]),
        (BatchSizes((1, 4, 16)), 7, [(0, 4, 4), (4, 3, 4)]),
        (BatchSizes((1, 4, 16)), 8, [(0, 4, 4), (4, 4, 4)]),
        (BatchSizes((1, 4, 16)), 9, [(0, 9, 16)]),
        (BatchSizes((1, 4, 16)), 2, [(0, 1, 1), (1, 1, 1)]),
        (BatchSizes((2, 4)), 1, [(0, 1, 2)]),
        (BatchSizes(high=3), 7, [(0, 3, 3), (3, 3, 3), (6, 1, 1)]),
        (BatchSizes(low=2, high=3), 7, [(0, 3, 3), (3, 3, 3), (6, 1, 2)]),
        (BatchSizes(high=3), 0, [(0, 0, 1)]),
    ],
)
def test_batches_take_every_sample_once(sizes: BatchSizes, samples: int, runs: list[tuple[int, int, int]]) -> None:
    assert list(sizes.split(samples)) == runs


@pytest.mark.parametrize(
    ("dims", "options"),
    [
        ("float[4,3]", {}),
        ("float[n,3]", {}),
        ("float[n,3]", {"input_shape": "x:2~5,3"}),
        ("float[n,3]", {"input_shape": "x:-1,3", "dynamic_batch_size": "1,2,8"}),
    ],
)
@pytest.mark.parametrize("samples", [0, 1, 4, 5, 11])
def test_results_are_those_of_single_samples(tmp_path: Path, dims: str, options: dict[str, str], samples: int) -> None:
    scorer = Scorer(written(tmp_path, dims, **options), ["y"], batch_size=4)
    x = RNG.standard_normal((samples, 3)).astype(np.float32)
    [y] = scorer({"x": x}).values()
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    assert y.dtype == np.float32


@pytest.mark.parametrize(("batch_size", "fed"), [(3, [3, 3, 1]), (6, [6, 1]), (7, [7]), (8, [7])])
def test_batch_size_bounds_what_is_fed_at_once(
    tmp_path: Path, batch_size: int, fed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = Scorer(written(tmp_path, "float[n,3]"), ["y"], batch_size=batch_size)
    seen: list[int] = []
    run = scorer.session.run

    def noted(names: Any, feeds: Mapping[str, Any]) -> Any:
        seen.append(len(feeds["x"]))
        return run(names, feeds)

    monkeypatch.setattr(scorer.session, "run", noted)
    scorer({"x": np.zeros((7, 3), np.float32)})
    assert seen == fed


def test_copies_share_the_session_of_the_process(tmp_path: Path) -> None:
    scorer = Scorer(written(tmp_path, "float[n,3]"))
    again = pickle.loads(pickle.dumps(scorer))
    assert again.session is scorer.session
    assert Scorer(tmp_path / "m.om", threads=2).session is not scorer.session
    before = scorer.session
    written(tmp_path, "float[n,5]")
    assert scorer.session is not before
    assert scorer.session.get_inputs()[0].shape == ("n", 5)


def test_fixed_inputs_are_fed_with_each_batch(tmp_path: Path) -> None:
    path = tmp_path / "m.om"
    path.write_bytes(package("m (float[n,3] x, float[3] w) => (float[n,3] y) { y = Mul(x, w) }"))
    w = np.float32([1, 2, 3])
    x = RNG.standard_normal((5, 3)).astype(np.float32)
    np.testing.assert_array_equal(Scorer(path, fixed={"w": w}, batch_size=2)({"x": x})["y"], x * w)


@pytest.mark.parametrize(
    ("batch", "code", "what"),
    [
        ({}, "E10401", "no input"),
        ({"x": np.float32(1)}, "E10405", "is a scalar"),
        ({"x": np.zeros((2, 3), np.float32), "z": np.zeros(3)}, "E10405", '"x" has 2, "z" has 3'),
        ({"z": np.zeros((2, 3), np.float32)}, "E13025", 'no input "z"'),
        ({"x": np.zeros((2, 4), np.float32)}, "E10405", "needs"),
        ({"x": np.zeros((2, 3))}, "E10403", "float64"),
    ],
)
def test_batches_that_do_not_fit(tmp_path: Path, batch: dict[str, Any], code: str, what: str) -> None:
    with pytest.raises(UsageError, match=what) as refused:
        Scorer(written(tmp_path, "float[n,3]"), ["y"])(batch)
    assert refused.value.code == code


def test_an_output_without_a_row_for_each_sample_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match='"total" has no row for each of 2 samples') as refused:
        Scorer(written(tmp_path, "float[n,3]"))({"x": np.zeros((2, 3), np.float32)})
    assert refused.value.code == "E13031"


@pytest.mark.parametrize(("batch_size", "fits"), [(0, False), (1, True)])
def test_the_batch_size_is_one_at_least(tmp_path: Path, batch_size: int, fits: bool) -> None:
    path = written(tmp_path, "float[n,3]")
    if fits:
        assert Scorer(path, batch_size=batch_size).batch_size == batch_size
        return
    with pytest.raises(UsageError) as refused:
        Scorer(path, batch_size=batch_size)
    assert refused.value.code == "E10013"


def load(shard: str) -> Mapping[str, Any]:
    if shard == "bad":
        raise OSError("the disk is gone")
    return {"x": np.full((int(shard), 3), int(shard), np.float32)}


def test_shards_are_done_once(tmp_path: Path) -> None:
    job = ScoreShard(Scorer(written(tmp_path, "float[n,3]"), ["y"]), load, str(tmp_path / "out" / "scores"))
    assert job.missing(["2", "3"]) == ["2", "3"]
    assert job("2") == ShardResult("2", 2, was_done=False)
    assert job.missing(["2", "3"]) == ["3"]
    with pytest.raises(OSError, match="the disk is gone"):
        job("bad")
    again = pickle.loads(pickle.dumps(job))
    assert again("2") == ShardResult("2", 0, was_done=True)
    assert again("3") == ShardResult("3", 3, was_done=False)
    assert sorted(path.name for path in Path(job.folder).iterdir()) == ["2.npz", "3.npz", "scoring.json"]
    with np.load(Path(job.folder) / "3.npz") as stored:
        np.testing.assert_array_equal(stored["y"], np.full((3, 3), 3, np.float32))


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b"])
def test_a_shard_is_named_as_a_file(tmp_path: Path, name: str) -> None:
    job = ScoreShard(Scorer(written(tmp_path, "float[n,3]"), ["y"]), load, str(tmp_path))
    with pytest.raises(UsageError) as refused:
        job(name)
    assert refused.value.code == "E10001"


def test_a_folder_belongs_to_one_package_and_its_outputs(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    job = ScoreShard(Scorer(written(tmp_path, "float[n,3]"), ["y"]), load, str(folder))
    job("1")
    assert json.loads((folder / "scoring.json").read_text())["package"] == job.scorer.session.package_sha256
    other = ScoreShard(Scorer(tmp_path / "m.om", ["total"]), load, str(folder))
    with pytest.raises(UsageError, match="of another package, or of other outputs") as refused:
        other("2")
    assert refused.value.code == "E10047"
    written(tmp_path, "float[n,m]")
    with pytest.raises(UsageError, match="of another package"):
        job("2")


def test_an_output_may_have_any_name(tmp_path: Path) -> None:
    path = tmp_path / "m.om"
    path.write_bytes(package("m (float[n,3] x) => (float[n,3] file) { file = Relu(x) }"))
    ScoreShard(Scorer(path), load, str(tmp_path / "out"))("2")
    with np.load(tmp_path / "out" / "2.npz") as stored:
        assert stored["file"].shape == (2, 3)


def test_names_of_the_package() -> None:
    assert {"Scorer", "ScoreShard"} <= set(atcpy.__all__)
