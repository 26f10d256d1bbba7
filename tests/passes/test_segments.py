"""Which allreduces meet: the rules of splitting, dependencies, and the model of costs."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from atcpy.errors import UsageError
from atcpy.options import AllReduceSplit, SplitBy
from atcpy.passes.segments import Costs, Member, cut_for_dependencies, ends_by_costs, ends_by_size, plan_segments

CASES = Path(__file__).parents[3] / "shared" / "reference" / "allreduce_cases.json"


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
    places: list[list[int]] = [[] for _ in range(rng.randrange(1, 6))]
    for number in range(count):
        rng.choice(places).append(number)
    segments = cut_for_dependencies([place for place in places if place], waits)
    assert sorted(number for segment in segments for number in segment) == list(range(count))
    done: set[int] = set()
    for segment in segments:
        assert all(waits.get(number, frozenset()) <= done for number in segment)
        done |= set(segment)


def test_costs_put_small_ones_together_and_hide_large_ones_behind_compute() -> None:
    assert ends_by_costs(members_of([4096] * 400), Costs()) == [399]
    late = [Member(f"m{n}", "world", "f32", 4 << 20, ready=n * 2e-3) for n in range(16)]
    ends = ends_by_costs(late, Costs())
    assert len(ends) > 1
    assert ends[-1] == 15
    assert ends_by_costs(members_of([1 << 20] * 3000), Costs())[-1] == 2999


@pytest.mark.parametrize("seed", range(10))
def test_the_cheapest_cuts_are_found(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randrange(2, 8)
    bucket = [
        Member(f"m{n}", "world", "f32", rng.randrange(1, 1 << 22), ready=rng.random() * 1e-3) for n in range(count)
    ]
    costs = Costs(rng.random() * 1e-3)

    def end_of(ends: list[int]) -> float:
        done, first, ready = 0.0, 0, 0.0
        for end in ends:
            ready = max(ready, *(member.ready for member in bucket[first : end + 1]))
            done = max(done, ready) + costs.of(sum(member.nbytes for member in bucket[first : end + 1]))
            first = end + 1
        return done

    every = [[*(cut for cut in range(count - 1) if mask >> cut & 1), count - 1] for mask in range(1 << (count - 1))]
    assert end_of(ends_by_costs(bucket, costs)) == pytest.approx(min(map(end_of, every)))


@pytest.mark.skipif(not CASES.exists(), reason="the reference's cases are not beside the project")
def test_the_cases_of_the_reference() -> None:
    for case in json.loads(CASES.read_text())["cases"]:
        strategy = case.get("strategy", {})
        split = AllReduceSplit(
            SplitBy.DEFAULT,
            {group: tuple(given["size"]) for group, given in strategy.items() if "size" in given},
            {group: tuple(given["idx"]) for group, given in strategy.items() if "idx" in given},
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
