"""How many examples a test tries: few in `make test`, as many as it names in `make test-all`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeVar
from zlib import crc32

import pytest
from hypothesis import settings

Case = TypeVar("Case")
# Of these the quick tests run a third, another each day: one law on many models, or one importer on many graphs.
SAMPLED = (
    "tests/e2e/test_dynamic_package_mutants.py",
    "tests/e2e/test_odd_models.py",
    "tests/e2e/test_old_opsets.py",
    "tests/e2e/test_package_mutants.py",
    "tests/e2e/test_real_models.py",
    "tests/e2e/test_tensorflow_models.py",
    "tests/models/",
    "tests/ops/contrib/test_hostile.py",
    "tests/ops/contrib/training/",
    "tests/parsers/onnx/test_real_models.py",
    "tests/parsers/tensorflow/",
    "tests/passes/test_skipped.py",
    "tests/quantization/",
    "tests/runtime/test_hostile_bodies.py",
    "tests/runtime/test_states_grouped_query.py",
    "tests/runtime/test_unknown_shapes.py",
    "tests/stages/test_control_flow_in_plans.py",
)
THOROUGH = settings(deadline=None, derandomize=True, max_examples=60)
FAST = settings(THOROUGH, max_examples=6)


def is_thorough() -> bool:
    return settings.get_current_profile_name() == "thorough"


def trials(count: int) -> int:
    """Return how many examples to try of those that the thorough profile tries."""
    return count if is_thorough() else -(-count // 6)


def quick_and_slow(cases: Sequence[Case], count: int) -> list[Any]:
    """Return parameters of a test: `count` cases that quick tests try, and others that are slow."""
    return [*cases[:count], *(pytest.param(case, marks=pytest.mark.slow) for case in cases[count:])]


def one_in(count: int, cases: Sequence[Case]) -> Sequence[Case]:
    """Return every `count`-th of `cases`, another part each day."""
    return cases[ci_sample() % count :: count]


def in_share(name: str, count: int) -> bool:
    """True if today is the day, of `count` days, of the test of this name, with however many others it is collected."""
    return crc32(name.encode()) % count == ci_sample() % count


def in_quick_grid(point: Sequence[int], sizes: Sequence[int]) -> bool:
    """True if the quick tests run this point of a grid of parameters today: the third that has every value of every
    axis, and every pair of values where a third axis is as long. In three days all points are run. Where no two axes
    have three values it is a half.
    """
    _, second, *_ = sorted(sizes, reverse=True)
    return (sum(point) + ci_sample()) % min(second, 3) == 0


def ci_sample() -> int:
    """Return the number of the day, which CI gives: any `count` days in a row draw all parts. Without it the part is
    always the first.
    """
    return int(os.environ.get("CI_SAMPLE", "0"))
