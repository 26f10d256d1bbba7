"""How a case ended."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class Status(Enum):
    """How a case ended on an engine, the best first."""

    PASS = "pass"
    WRONG = "wrong result"
    ERROR = "clear error"
    INTERNAL = "internal error"
    CRASH = "crash"
    TIMEOUT = "timeout"


@dataclass(frozen=True)
class Outcome:
    """`code` is the error's, or its class; `detail` what was wrong, in a line."""

    status: Status
    code: str = ""
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.status.value}: " + " ".join(filter(None, (self.code, self.detail)))


Results = dict[str, dict[str, Outcome]]  # by engine, then by case


def read_outcomes(path: Path) -> Results:
    """The outcomes of earlier runs, or none."""
    if not path.exists():
        return {}
    return {
        engine: {name: Outcome(Status(status), code, detail) for name, (status, code, detail) in found.items()}
        for engine, found in json.loads(path.read_text(encoding="utf-8")).items()
    }


def write_outcomes(path: Path, results: Results) -> None:
    """Keeps outcomes for later runs, and for whoever looks for the cause of one."""
    listed = {
        engine: {name: (outcome.status.value, outcome.code, outcome.detail) for name, outcome in found.items()}
        for engine, found in results.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(listed, indent=1, sort_keys=True), encoding="utf-8")
