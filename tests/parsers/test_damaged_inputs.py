"""Some damaged models and configuration files of each target; `make fuzz-importers` tries thousands."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from atcpy.errors import PackageCorrupt, UsageError
from tests.effort import trials
from tests.fuzz import importers
from tests.fuzz.importers import TARGETS, Input, judge, run


@pytest.mark.slow  # reading the models that are changed takes seconds
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", sorted(TARGETS))
def test_what_is_damaged_is_read_or_refused(target: str) -> None:
    assert [fault for number in range(trials(18)) if (fault := judge(Input(target, number))[1])] == []


def grow(rng: random.Random, folder: Path) -> None:
    assert len(b"\1" * (64 << 20))


def refuse(rng: random.Random, folder: Path) -> None:
    raise UsageError("E10001", "no")


def refuse_as_package(rng: random.Random, folder: Path) -> None:
    raise PackageCorrupt("P0001", "no")


def fail(rng: random.Random, folder: Path) -> None:
    raise KeyError("a")


def kill(rng: random.Random, folder: Path) -> None:
    os._exit(9)


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        (refuse, ""),
        (refuse_as_package, "exit 7"),
        (fail, "KeyError"),
        (grow, "MiB of memory"),
        (kill, "crash"),
    ],
)
def test_what_ends_otherwise_is_a_finding(
    target: Callable[[random.Random, Path], None], fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importers, "TARGETS", {"a": (target, 1)})
    monkeypatch.setattr(importers, "SOURCES", ())
    monkeypatch.setattr(importers, "MAX_GROWTH", 1 << 20)
    ends, findings = run([Input("a", 1)])
    assert ends.total() == 1
    assert fault in "".join(findings) and bool(findings) == bool(fault)
