"""Which allreduces meet: the rules of splitting, dependencies, and the model of costs."""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest

from atcpy.errors import UsageError
from atcpy.ir.decisions import AllReducePlan
from atcpy.om.reader import parse_package, read_model
from atcpy.options import AllReduceSplit, Network, SplitBy
from atcpy.passes.prepare.collectives import fuse_allreduces
from atcpy.passes.prepare.collectives.gradient_segments import (
    MAX_SEGMENTS,
    Member,
    cut_for_dependencies,
    ends_by_costs,
    ends_by_size,
    plan_segments,
    predict_seconds,
)
from tests.models_in_text import package

CASES = Path(__file__).parents[5] / "shared" / "reference" / "allreduce_cases.json"


def members_of(sizes: list[int], **fields: Any) -> list[Member]:
    return [Member(f"m{number}", "world", "f32", size, **fields) for number, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "percents", "ends"),
    [
        ([4096] * 100, (96.54, 3.46), [96, 99]),
        ([9654, 200, 146], (96.54, 3.46), [0, 2]),
        ([100, 100, 10000], (96.54, 3.46), [2]),
        ([5000, 4700, 300], (96.54, 3.46), [1, 2]),
        ([1] * 10, (60, 20, 20), [5, 7, 9]),
        ([10, 8000, 10, 10, 1970], (20, 20, 60), [0, 1, 4]),
        ([0, 100, 0, 100, 0], (50, 50), [1, 4]),
        ([10, 10, 10, 10, 10, 10, 40], (58, 42), [5, 6]),
        ([0, 0, 0], (50, 50), [0, 2]),
        ([7], (30, 70), [0]),
    ],
)
def test_a_cut_is_where_the_bytes_so_far_are_nearest(
    sizes: list[int], percents: tuple[float, ...], ends: list[int]
) -> None:
    assert ends_by_size(sizes, percents) == ends


def test_what_differs_does_not_meet() -> None:
    members = [
        Member("a", "world", "f32", 10),
        Member("b", "world", "f16", 10),
        Member("c", "tp", "f32", 10),
        Member("d", "world", "f32", 10, fusion=0),
        Member("e", "world", "f32", 10, fusion=2, fusion_id=3),
        Member("f", "world", "f32", 10, may_meet=False),
        Member("g", "world", "f32", 10, fusion=2, fusion_id=3),
        Member("h", "world", "f32", 10),
    ]
    whole = AllReduceSplit(sizes={"": (100,)})
    assert plan_segments(members, whole) == [[1], [2], [3], [5], [4, 6], [0, 7]]


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (AllReduceSplit(sizes={"": (60, 30)}), "60,30"),
        (AllReduceSplit(sizes={"": (-20, 120)}), "100"),
        (AllReduceSplit(sizes={"": (10,) * 10}), "10 segments"),
        (AllReduceSplit(indices={"": (3, 8)}), "the last one is 9"),
        (AllReduceSplit(indices={"": (5, 3, 9)}), "ascend"),
        (AllReduceSplit(indices={"": (3.5, 9)}), "whole"),
        (AllReduceSplit(indices={"world": tuple(range(1, 10))}), "8 segments"),
    ],
)
def test_a_split_that_does_not_fit_is_refused(split: AllReduceSplit, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        plan_segments(members_of([10] * 10), split)
    assert caught.value.code == "EI0003"


@pytest.mark.parametrize(("fusion", "fusion_id"), [(3, -1), (-1, -1), (1, 4), (2, -1), (2, 2**31)])
def test_attributes_that_contradict_are_refused(fusion: int, fusion_id: int) -> None:
    with pytest.raises(UsageError, match="fusion"):
        plan_segments(members_of([1], fusion=fusion, fusion_id=fusion_id), AllReduceSplit())


def test_an_entry_of_a_group_beats_the_one_for_all() -> None:
    split = AllReduceSplit(sizes={"world": (50, 50)}, indices={"": (0, 3), "world": (2, 3)})
    assert plan_segments(members_of([1, 1, 1, 1]), split) == [[0, 1], [2, 3]]
    other = [Member(f"m{n}", "tp", "f32", 1) for n in range(4)]
    assert plan_segments(other, split) == [[0], [1, 2, 3]]


@pytest.mark.parametrize(
    ("threshold", "segments"),
    [
        (0, [[0], [1], [2], [3], [4]]),
        (29, [[0, 1], [2], [3], [4]]),
        (30, [[0, 1, 2], [3], [4]]),
        (60, [[0, 1, 2], [3, 4]]),
        (90, [[0, 1, 2, 3, 4]]),
    ],
)
def test_no_collective_of_several_has_more_bytes_than_the_threshold(threshold: int, segments: list[list[int]]) -> None:
    members = members_of([10, 10, 10, 50, 10])
    assert plan_segments(members, AllReduceSplit(threshold=threshold)) == segments
    assert plan_segments(members, AllReduceSplit(by=SplitBy.COSTS, threshold=threshold)) == segments
    assert plan_segments(members, AllReduceSplit(indices={"": (4,)}, threshold=threshold)) == [[0, 1, 2, 3, 4]]
    # What asks for one collective by its number gets one.
    numbered = members_of([10, 10, 10], fusion=2, fusion_id=1)
    assert plan_segments(numbered, AllReduceSplit(threshold=0)) == [[0, 1, 2]]


def test_no_collective_waits_for_itself() -> None:
    assert cut_for_dependencies([[0, 1, 2, 3]], {2: frozenset({0})}) == [[0, 1], [2, 3]]
    assert cut_for_dependencies([[0, 1, 2]], {1: frozenset({0}), 2: frozenset({1})}) == [[0], [1], [2]]
    # By way of another collective: 0 → 1 → 3.
    assert cut_for_dependencies([[1], [0, 2, 3]], {1: frozenset({0}), 3: frozenset({1})}) == [[0, 2], [1], [3]]
    # Two that would wait for each other: 0 → 1 and 2 → 3.
    assert cut_for_dependencies([[0, 3], [1, 2]], {1: frozenset({0}), 3: frozenset({2})}) == [[0], [1, 2], [3]]


@pytest.mark.parametrize("seed", range(40))
def test_whatever_depends_on_whatever_there_is_an_order(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randrange(2, 24)
    waits = {
        number: frozenset(rng.sample(range(number), min(number, rng.randrange(3))))
        for number in range(count)
        if rng.random() < 0.4
    }
    buckets: list[list[int]] = [[] for _ in range(rng.randrange(1, 6))]
    for number in range(count):
        rng.choice(buckets).append(number)
    segments = cut_for_dependencies([bucket for bucket in buckets if bucket], waits)
    assert sorted(number for segment in segments for number in segment) == list(range(count))
    done: set[int] = set()
    for segment in segments:
        assert all(waits.get(number, frozenset()) <= done for number in segment)
        done |= set(segment)


def test_costs_put_small_ones_together_and_hide_large_ones_behind_compute() -> None:
    assert ends_by_costs(members_of([4096] * 400), Network()) == [399]
    late = [Member(f"m{n}", "world", "f32", 4 << 20, ready=n * 2e-3) for n in range(16)]
    ends = ends_by_costs(late, Network())
    assert len(ends) > 1
    assert ends[-1] == 15
    # A start that is dear puts together what a cheap one sends early.
    assert len(ends_by_costs(late, Network(alpha=1e-2))) < len(ends)


def test_very_many_are_planned_in_time() -> None:
    for count in (2000, 20_000):
        bucket = [Member(f"m{n}", "world", "f32", 1 << 16, ready=n * 1e-5) for n in range(count)]
        started = time.process_time()
        ends = ends_by_costs(bucket, Network(ranks=6))
        assert time.process_time() - started < 10
        assert ends[-1] == count - 1
        assert len(ends) <= MAX_SEGMENTS


@pytest.mark.parametrize("seed", range(20))
def test_the_cheapest_cuts_are_found(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randrange(2, 11)
    bucket = [
        Member(f"m{n}", "world", "f32", rng.randrange(1, 1 << 22), ready=rng.random() * 1e-3) for n in range(count)
    ]
    network = Network(alpha=rng.random() * 1e-3, ranks=rng.choice([2, 3, 6, 16, 1000]))

    def seconds(cuts: tuple[int, ...]) -> float:
        ends = [-1, *cuts, count - 1]
        return predict_seconds(bucket, [range(a + 1, b + 1) for a, b in pairwise(ends)], network)

    every = [cuts for number in range(MAX_SEGMENTS) for cuts in combinations(range(count - 1), number)]
    assert seconds(tuple(ends_by_costs(bucket, network)[:-1])) == pytest.approx(min(map(seconds, every)))


def test_a_prediction_waits_for_what_is_ready_last_and_for_the_one_before() -> None:
    bucket = [Member("a", "world", "f32", 1000, ready=1.0), Member("b", "world", "f32", 3000, ready=0.5)]
    network = Network(alpha=0.25, beta=1e-3, gamma=0.0)
    assert predict_seconds(bucket, [[0], [1]], network) == pytest.approx(1.0 + 0.25 + 1.0 + 0.25 + 3.0)
    assert predict_seconds(bucket, [[0, 1]], network) == pytest.approx(1.0 + 0.25 + 4.0)
    of_eight = [replace(member, ranks=8) for member in bucket]  # whatever the network has
    assert predict_seconds(of_eight, [[0, 1]], network) == predict_seconds(bucket, [[0, 1]], network.between(8)) > 5.25


def decisions_of(text: str, **options: str) -> AllReducePlan:
    plan = read_model(parse_package(package(text, options))).graph.decisions.allreduce
    assert plan is not None
    return plan


def gradients(count: int) -> str:
    """A graph of so many allreduces of 4 KB, each of a value that is computed."""
    lines = [f'g{n} = Exp(x{n}) s{n} = HcomAllReduce<reduction = "sum">(g{n}) y{n} = Neg(s{n})' for n in range(count)]
    ins, outs = (", ".join(f"float[1024] {name}{n}" for n in range(count)) for name in "xy")
    return f"g ({ins}) => ({outs}) {{ {' '.join(lines)} }}"


def test_what_became_of_allreduces_is_in_the_package() -> None:
    text = gradients(40)
    by_size, auto = decisions_of(text), decisions_of(text, allreduce_split="auto")
    assert (by_size.allreduces, by_size.collectives, by_size.ranks) == (40, 2, 2)
    assert by_size.seconds == by_size.seconds_default == auto.seconds_default
    assert by_size.seconds_alone == auto.seconds_alone
    assert auto.seconds <= auto.seconds_default < auto.seconds_alone
    assert sum(auto.algorithms.values()) == auto.collectives
    assert auto == decisions_of(text, allreduce_split="auto")
    # Computed gradients are made in their places, and their readers find the results there.
    assert (by_size.fused_copies, by_size.port_copies) == (auto.fused_copies, auto.port_copies) == (0, 0)


def test_more_gradients_than_a_split_has_sizes_become_one_collective(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse_allreduces, "MAX_DATA_ELEMENTS", 8)
    monkeypatch.setattr(fuse_allreduces, "_BLOCK", 3)
    count = 40
    lines = [f'g{n} = Exp(x{n}) s{n} = HcomAllReduce<reduction = "sum">(g{n}) y{n} = Neg(s{n})' for n in range(count)]
    ins, outs = (", ".join(f"float[2,3] {name}{n}" for n in range(count)) for name in "xy")
    text = f"g ({ins}) => ({outs}) {{ {' '.join(lines)} }}"
    read = read_model(parse_package(package(text, {"allreduce_split": "auto", "allreduce_cost": "alpha=1"})))
    plan = read.graph.decisions.allreduce
    assert plan is not None
    assert (plan.collectives, plan.fused_copies, plan.port_copies) == (1, 0, 0)
    assert len(read.task_nodes) == 2 * count + 1
    # What is there once a gradient stands for that gradient alone.
    views = [node for node in read.graph.nodes if node.op_type == "Reshape"]
    assert len(views) == 2 * count
    assert sum(len(node.sources) for node in views) < 6 * count


def test_the_networks_numbers_decide() -> None:
    text = gradients(40)
    costs = ("alpha=1", "alpha=0,beta=1e-7", "alpha=1e-6,beta=0,gamma=0,ranks=1024")
    plans = [decisions_of(text, allreduce_split="auto", allreduce_cost=cost) for cost in costs]
    assert [plan.collectives for plan in plans[:2]] == [1, 2]
    assert plans[0].seconds == pytest.approx(1, rel=0.01)
    assert plans[2].ranks == 1024
    assert plans[2].seconds_alone == pytest.approx(40 * 10e-6, rel=0.2)


def test_arrays_of_the_caller_are_copied_to_their_places_once() -> None:
    plan = decisions_of(
        """g (float[64] a, float[64] b) => (float[64] x, float[64] y) {
        x = HcomAllReduce<reduction = "sum">(a)
        y = HcomAllReduce<reduction = "sum">(b)
    }""",
        allreduce_split_size="100",
    )
    assert (plan.collectives, plan.fused_copies, plan.port_copies) == (1, 0, 4)


def test_a_gradient_that_is_an_output_too_costs_a_copy() -> None:
    plan = decisions_of(
        """g (float[64] a, float[64] b) => (float[64] g, float[64] x, float[64] y) {
        g = Exp(a)
        g0 = HcomAllReduce<reduction = "sum">(g)
        x = Neg(g0)
        h = Sin(b)
        h0 = HcomAllReduce<reduction = "sum">(h)
        y = Neg(h0)
    }""",
        allreduce_split_size="100",
    )
    assert (plan.fused_copies, plan.port_copies) == (1, 0)


@pytest.mark.skipif(not CASES.exists(), reason="the reference's cases are not beside the project")
def test_the_cases_of_the_reference() -> None:
    for case in json.loads(CASES.read_text())["cases"]:
        strategy = case.get("strategy", {})
        split = AllReduceSplit(
            SplitBy.DEFAULT,
            {group: tuple(settings["size"]) for group, settings in strategy.items() if "size" in settings},
            {group: tuple(settings["idx"]) for group, settings in strategy.items() if "idx" in settings},
        )
        members = [
            Member(
                str(number),
                tensor.get("group", "hccl_world_group"),
                (tensor.get("op", ""), tensor.get("dtype", "float32"), tensor.get("reduction", "sum")),
                tensor["bytes"],
                tensor.get("fusion", 1),
                tensor.get("fusion_id", -1),
                may_meet=tensor.get("reduction", "sum") == "sum" and not tensor.get("dynamic"),
            )
            for number, tensor in enumerate(case["tensors"])
        ]
        waits = {int(number): frozenset(others) for number, others in case.get("depends", {}).items()}
        if "error" in case["expect"]:
            with pytest.raises(UsageError, match=r"fusion|allreduce_split"):
                plan_segments(members, split)
        else:
            segments = cut_for_dependencies(plan_segments(members, split), waits)
            assert sorted(segments, key=lambda segment: segment[-1]) == case["expect"]["segments"], case["id"]
