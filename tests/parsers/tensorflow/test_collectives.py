"""Collectives in graphs of TensorFlow, on simulated ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.errors import AtcError
from atcpy.runtime.collectives import World
from atcpy.runtime.simulated_world import run_simulated
from tests.parsers.tensorflow.graphs import TfBuilder, Type

RANKS = 3


def run(g: TfBuilder, folder: Path, *outputs: str) -> list[list[np.ndarray]]:
    """The outputs of each rank, whose x is rank + 1, …"""
    g.converted(folder, *outputs)

    def work(world: World) -> list[np.ndarray]:
        session = InferenceSession(str(folder / "model.om"), threads=1, world=world)
        return [np.asarray(y) for y in session.run(None, {"x": np.arange(6, dtype=np.float32) + world.rank + 1})]

    return run_simulated(work, RANKS)


def test_each_spelling_is_its_reduction(tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", (6,))
    key = g.const(np.int32(1))
    g.add("HcomAllReduce", x, name="ge", reduction="max", group="hccl_world_group")
    g.add("HorovodAllreduce", x, name="mean", reduce_op=0, prescale_factor=2.0)
    g.add("HorovodAllreduce", x, name="sum")
    v2 = {"merge_op": "Add", "final_op": "Div", "T": Type("float32")}
    g.add("CollectiveReduceV2", x, key, key, key, name="v2", **v2)
    g.add("NcclAllReduce", x, name="nccl", reduction="prod", num_devices=RANKS, shared_name="c0")
    g.add("HcomBroadcast", x, name="root", root_rank=2)
    every = np.stack([np.arange(6, dtype=np.float32) + rank + 1 for rank in range(RANKS)])
    expected = [every.max(0), 2 * every.mean(0), every.sum(0), every.mean(0), every.prod(0), every[2]]
    for results in run(g, tmp_path, "ge", "mean", "sum", "v2", "nccl", "root"):
        for result, array in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, array, rtol=1e-6)


def test_what_is_no_plain_reduction_is_refused(tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", (6,))
    g.add("HorovodAllreduce", x, name="adasum", reduce_op=2)
    g.add("CollectiveReduce", x, name="divided", merge_op="Max", final_op="Div")
    with pytest.raises(AtcError, match="adasum") as caught:
        g.run(tmp_path, {}, "adasum", "divided")
    assert [problem.code for problem in caught.value.problems] == ["E10055", "E10055"]
