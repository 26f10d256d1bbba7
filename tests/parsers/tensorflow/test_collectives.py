"""Collectives of TensorFlow graphs, on simulated ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.errors import AtcError
from atcpy.runtime.distributed.failures import RankFailed
from atcpy.runtime.distributed.groups import NO_GROUPS
from atcpy.runtime.distributed.simulated_world import run_simulated
from atcpy.runtime.distributed.world import World
from tests.parsers.tensorflow.graphs import TfBuilder, Type

RANKS = 3


def run(
    g: TfBuilder, folder: Path, *outputs: str, ranks: int = RANKS, groups: Mapping[str, Sequence[int]] = NO_GROUPS
) -> list[list[np.ndarray]]:
    """The outputs of all ranks; x is rank + 1, …"""
    g.converted(folder, *outputs)

    def work(world: World) -> list[np.ndarray]:
        session = InferenceSession(str(folder / "model.om"), threads=1, world=world)
        return [np.asarray(y) for y in session.run(None, {"x": np.arange(6, dtype=np.float32) + world.rank + 1})]

    return run_simulated(work, ranks, groups)


def test_each_op_becomes_its_reduction(tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", (6,))
    size, key, instance = (g.const(np.int32(number)) for number in (RANKS, 1, 7))
    g.add("HcomAllReduce", x, name="ge", reduction="max", group="hccl_world_group")
    g.add("HorovodAllreduce", x, name="mean", reduce_op=0, prescale_factor=2.0)
    g.add("HorovodAllreduce", x, name="sum")
    g.add("HorovodGroupedAllreduce", x, x, name="both", reduce_op=3, num_tensors=2)
    v2 = {"merge_op": "Add", "final_op": "Div", "T": Type("float32")}
    g.add("CollectiveReduceV2", x, size, key, instance, name="v2", **v2)
    g.add("NcclAllReduce", x, name="nccl", reduction="prod", num_devices=RANKS, shared_name="c0")
    g.add("HcomBroadcast", x, name="root", root_rank=2)
    every = np.stack([np.arange(6, dtype=np.float32) + rank + 1 for rank in range(RANKS)])
    expected = [every.max(0), 2 * every.mean(0), every.sum(0), every.mean(0), every.prod(0), every[2], every.min(0)]
    for results in run(g, tmp_path, "ge", "mean", "sum", "v2", "nccl", "root", "both:1"):
        for result, array in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, array, rtol=1e-6)


@pytest.mark.parametrize(
    "attrs",
    [
        {"prescale_factor": 2.0},
        {"postscale_factor": 2.0},
        {"prescale_factor": 2.0, "postscale_factor": 0.5},
        {"reduce_op": 0},
        {"reduce_op": 3},
    ],
    ids=str,
)
def test_allreduces_that_scale_differently_do_not_share_a_factor(tmp_path: Path, attrs: dict[str, Any]) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", (6,))
    y = g.add("Neg", x)
    g.add("HorovodAllreduce", x, name="first", reduce_op=1)
    g.add("HorovodAllreduce", y, name="other", **{"reduce_op": 1, **attrs})
    g.add("HorovodAllreduce", g.add("Square", x), name="last", reduce_op=1)
    every = np.stack([np.arange(6, dtype=np.float32) + rank + 1 for rank in range(RANKS)])
    # The minimum of the negated values is the negated maximum.
    combined = {0: every.mean(0), 1: every.sum(0), 3: every.max(0)}[attrs.get("reduce_op", 1)]
    factor = attrs.get("prescale_factor", 1.0) * attrs.get("postscale_factor", 1.0)
    for first, other, last in run(g, tmp_path, "first", "other", "last"):
        np.testing.assert_allclose(first, every.sum(0), rtol=1e-6)
        np.testing.assert_allclose(other, -factor * combined, rtol=1e-6)
        np.testing.assert_allclose(last, np.square(every).sum(0), rtol=1e-6)


def test_unsupported_reductions_are_refused(tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", (6,))
    g.add("HorovodAllreduce", x, name="adasum", reduce_op=2)
    g.add("CollectiveReduce", x, name="divided", merge_op="Max", final_op="Div")
    with pytest.raises(AtcError, match="adasum") as caught:
        g.run(tmp_path, {}, "adasum", "divided")
    assert [problem.code for problem in caught.value.problems] == ["E10055", "E10055"]


def collective(
    g: TfBuilder, op: str, x: str, name: str, *, size: int, key: int, device: str = "", **attrs: object
) -> None:
    """Add a V2 collective op."""
    numbers = (g.const(np.int32(number)) for number in (size, key, 5))
    g.add(op, x, *numbers, name=name, T=Type("float32"), **attrs)
    g.graph.node[-1].device = device


SUM = {"merge_op": "Add", "final_op": "Id"}


def test_groups_are_identified_by_their_keys(tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", (6,))
    collective(g, "CollectiveReduceV2", x, "pair", size=2, key=3, **SUM)
    collective(g, "CollectiveReduceV2", x, "all", size=4, key=9, **SUM)
    g.add("HorovodAllreduce", x, name="set", reduce_op=1, process_set_id=2)
    groups = {"tf_group_3": (0, 1), "process_set_2": (1, 3)}
    found = run(g, tmp_path, "pair", "all", "set", ranks=4, groups=groups)
    assert [[y[0] for y in results] for results in found] == [[3, 10, 1], [3, 10, 6], [3, 10, 3], [4, 10, 6]]


def test_a_group_smaller_than_the_world_needs_a_rank_table(tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", (6,))
    collective(g, "CollectiveReduceV2", x, "pair", size=2, key=3, **SUM)
    with pytest.raises(RankFailed) as caught:
        run(g, tmp_path, "pair", ranks=4)
    assert caught.value.what == 'no table says which ranks the group "tf_group_3" has'
    with pytest.raises(RankFailed) as caught:
        run(g, tmp_path, "pair", ranks=4, groups={"tf_group_3": (0, 1, 2)})
    assert "it is for 2 ranks, 3 are running" in caught.value.what
    (results,) = run(g, tmp_path, "pair", ranks=1)
    np.testing.assert_array_equal(results[0], np.arange(6) + 1)


def test_gathering_and_scattering(tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", (6,))
    collective(g, "CollectiveGatherV2", x, "all", size=3, key=1)
    collective(g, "CollectiveReduceScatterV2", x, "part", size=3, key=1, merge_op="Add", final_op="Div")
    attrs = {"group_size": 3, "group_key": 1, "instance_key": 2}
    g.add("CollectiveGather", x, name="old", **attrs)
    g.add("CollectiveReduce", x, name="sum", **attrs, **SUM)
    every = np.stack([np.arange(6, dtype=np.float32) + rank + 1 for rank in range(3)])
    for rank, results in enumerate(run(g, tmp_path, "all", "part", "old", "sum")):
        expected = (every.reshape(-1), every.mean(0)[2 * rank :][:2], every.reshape(-1), every.sum(0))
        for result, array in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, array, rtol=1e-6)


def test_collectives_that_not_every_rank_can_run_are_refused(tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", (6,))
    for number in range(2):
        collective(g, "CollectiveReduceV2", x, f"tower{number}", size=2, key=1, device=f"/device:GPU:{number}", **SUM)
    numbers = [g.const(np.int32(number)) for number in (2, 1, 5)]
    g.add("CollectiveBcastSendV2", x, *numbers, name="send")
    g.add("HorovodBroadcast", x, name="root", root_rank=0, process_set_id=1)
    collective(g, "CollectiveReduceV2", x, "none", size=0, key=1, **SUM)
    with pytest.raises(AtcError) as caught:
        g.run(tmp_path, {}, "tower0", "tower1", "send", "root", "none")
    reported = sorted((problem.where.node, problem.code) for problem in caught.value.problems)
    assert reported == [("none", "E13014"), ("root", "E10055"), ("send", "E10055"), ("tower1", "E10055")]
