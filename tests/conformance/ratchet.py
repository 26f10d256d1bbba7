"""passing.txt: the cases that must pass. It grows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.conformance.cases import RANDOM
from tests.conformance.outcome import Outcome, Status

RATCHET = Path(__file__).parent / "passing.txt"


def read_ratchet() -> list[str]:
    """The names, sorted."""
    return RATCHET.read_text(encoding="utf-8").split() if RATCHET.exists() else []


def write_ratchet(names: Iterable[str]) -> None:
    """Replaces the names."""
    RATCHET.write_text("".join(f"{name}\n" for name in sorted(names)), encoding="utf-8")


def passing(outcomes: Mapping[str, Outcome]) -> set[str]:
    """The cases that pass, without those of random draws: they pass by chance."""
    return {name for name, outcome in outcomes.items() if outcome.status is Status.PASS} - RANDOM
