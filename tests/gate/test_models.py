"""A share of the gate's models, with fixed seeds. `python -m tests.gate.models` runs all."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import TypeVar

import pytest

from tests.gate import graphdefs, odd_models, operators, structures
from tests.gate.cases import Case
from tests.gate.models import faults_of, odd_faults

Item = TypeVar("Item")
CHUNKS = 6
EACH_CHUNK = [pytest.param(chunk, marks=() if chunk == 1 else pytest.mark.slow) for chunk in range(CHUNKS)]
SECONDS = 100.0  # other tests run beside these; the gate itself takes 10 for a hang
GROUPS = {
    "structures": (lambda: list(structures.own_cases()), 25),
    "schemas": (lambda: list(operators.cases_by_schema()), 40),
    "graphdefs": (lambda: list(graphdefs.cases()), 30),
}


@cache
def chosen(group: str) -> Sequence[Case]:
    make, count = GROUPS[group]
    return sample(make(), count * CHUNKS)


@cache
def chosen_doubtful() -> Sequence[operators.Doubtful]:
    return sample(list(operators.doubtful()), 12 * CHUNKS)


def sample(items: Sequence[Item], count: int) -> list[Item]:
    return random.Random(7).sample(items, count)


@pytest.mark.parametrize("chunk", EACH_CHUNK)
@pytest.mark.parametrize("group", GROUPS)
def test_hostile_models_are_refused(group: str, chunk: int) -> None:
    assert list(faults_of(chosen(group)[chunk::CHUNKS], seconds=SECONDS)) == []


@pytest.mark.slow
@pytest.mark.parametrize("chunk", EACH_CHUNK)
def test_operators_that_make_no_sense_are_refused(chunk: int) -> None:
    cases = list(operators.cases_without_sense(chosen_doubtful()[chunk::CHUNKS]))
    assert list(faults_of(cases, seconds=SECONDS)) == []


@pytest.mark.parametrize("chunk", EACH_CHUNK)
def test_odd_models_compute_what_the_standard_says(chunk: int) -> None:
    own = [case for case in odd_models.own_cases() if "500" not in case.name]
    assert list(odd_faults(sample(own, 12 * CHUNKS)[chunk::CHUNKS])) == []


def test_there_are_enough_of_them() -> None:
    hostile = [*structures.cases(), *operators.cases_by_schema(), *graphdefs.cases()]
    names = [case.name for case in hostile]
    assert len(set(names)) == len(names) >= 500
    assert len({case.name for case in odd_models.cases()}) >= 100
