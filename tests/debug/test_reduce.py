"""The smallest part of a model that shows a fault, where the fault is that some nodes are together."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.debug.reduce import MAX_TRIALS, reduce
from atcpy.debug.submodel import IndexedModel
from tests.models_in_text import model as model_of

LENGTH = 100
CHAIN = " ".join(f"v{i + 1} = Relu(v{i})" for i in range(LENGTH))
SOURCE = IndexedModel(model_of(f"chain (float[4] v0) => (float[4] v{LENGTH}) {{ {CHAIN} }}"))


def test_the_part_around_a_match_shrinks_to_the_nodes_that_matter() -> None:
    assert reduce(SOURCE, [37], lambda nodes: {37, 41} <= set(nodes)) == [37, 41]


def test_without_a_match_both_ends_are_cut() -> None:
    assert reduce(SOURCE, [], lambda nodes: {3, 90} <= set(nodes)) == [3, 90]


def test_a_fault_that_no_part_shows_has_no_part() -> None:
    assert reduce(SOURCE, [37], lambda nodes: False) == []


def test_a_search_ends_after_the_largest_number_of_trials() -> None:
    trials: list[Sequence[int]] = []

    def shows(nodes: Sequence[int]) -> bool:
        trials.append(nodes)
        return sum(node % 2 == 0 for node in nodes) == LENGTH // 2  # every other node is needed

    found = reduce(SOURCE, [], shows)
    assert len(trials) <= MAX_TRIALS
    assert set(range(0, LENGTH, 2)) <= set(found)
