"""Where ranks leave what who started them is to know: their numbers, the first failure, what rank 0 found.

So exactly one message comes of a run, whatever MPI says meanwhile.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from atcpy.cli.job import Given, Job, Wanted
from atcpy.cli.outcome import Outcome, as_known_error
from atcpy.errors import (
    AtcError,
    AtcWarning,
    InternalError,
    ModelInvalid,
    PackageCorrupt,
    ResourceLimit,
    Unsupported,
    UsageError,
    VerifyFailed,
    Where,
)
from atcpy.runtime.failures import RankFailed

_KINDS: dict[str, type[AtcError]] = {
    kind.kind: kind for kind in (UsageError, ModelInvalid, Unsupported, VerifyFailed, ResourceLimit, PackageCorrupt)
}


@dataclass(frozen=True)
class Order:
    """What each rank is to do."""

    job: Job
    groups: str | None
    wait: float
    memory_limit: int | None


class RankFolder:
    """The folder, as a rank sees it, or as who started all of them does."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def leave_order(self, order: Order) -> None:
        """What the ranks are to do."""
        self._order.write_text(json.dumps(asdict(order)), encoding="utf-8")

    def order(self) -> Order:
        """The same."""
        told = json.loads(self._order.read_text(encoding="utf-8"))
        job = told.pop("job")
        given, wanted = Given(**job.pop("given")), Wanted(**job.pop("wanted"))
        return Order(Job(given=given, wanted=wanted, **job), **told)

    def enter(self, rank: int) -> None:
        """Leaves the number of this process."""
        self._number(os.getpid()).write_text(str(rank), encoding="ascii")

    def rank_of(self, pid: int) -> int:
        """The rank that a process was; -1 if it did not live to say."""
        number = self._number(pid)
        return int(number.read_text(encoding="ascii")) if number.exists() else -1

    def leave_failure(self, failure: RankFailed) -> None:
        """Why a rank failed; only the first failure is kept."""
        own = self._path / f"failure.{failure.rank}"
        own.write_text(json.dumps(_to_record(failure)), encoding="utf-8")
        with suppress(FileExistsError):
            os.link(own, self._failure)

    def failure(self) -> RankFailed | None:
        """The first failure."""
        left = self._failure
        return _from_record(json.loads(left.read_text(encoding="utf-8"))) if left.exists() else None

    def leave_outcome(self, outcome: Outcome) -> None:
        """What rank 0 found."""
        warnings = [asdict(warning) for warning in outcome.warnings]
        told = {"result": outcome.result, "lines": list(outcome.lines), "warnings": warnings}
        self._outcome.write_text(json.dumps(told), encoding="utf-8")

    def outcome(self) -> Outcome | None:
        """The same, if it came so far."""
        if not self._outcome.exists():
            return None
        told = json.loads(self._outcome.read_text(encoding="utf-8"))
        warnings = [AtcWarning(each["code"], each["message"], Where(**each["where"])) for each in told["warnings"]]
        return Outcome(told["result"], told["lines"], warnings=warnings)

    def _number(self, pid: int) -> Path:
        return self._path / f"{pid}.pid"

    @property
    def _order(self) -> Path:
        return self._path / "order"

    @property
    def _failure(self) -> Path:
        return self._path / "failure"

    @property
    def _outcome(self) -> Path:
        return self._path / "outcome"


def _to_record(failure: RankFailed) -> dict[str, Any]:
    """A failure as JSON has it."""
    error = as_known_error(failure.error)
    first = error.problems[0] if isinstance(error, AtcError) else error
    why = first.why if isinstance(first, AtcError) else ""
    told = {"code": first.code, "what": first.what, "where": asdict(first.where), "why": why, "hint": first.hint}
    return {"rank": failure.rank, "ranks": failure.ranks, "kind": first.kind, "error": told}


def _from_record(record: Mapping[str, Any]) -> RankFailed:
    """The failure of such a record."""
    told = dict(record["error"])
    told["where"] = Where(**told["where"])
    error: AtcError | InternalError
    if (kind := _KINDS.get(record["kind"])) is not None:
        error = kind(told.pop("code"), told.pop("what"), **told)
    else:
        error = InternalError(told["what"], code=told["code"], where=told["where"])
    return RankFailed(record["rank"], record["ranks"], error)


def outcome_of(failure: RankFailed) -> Outcome:
    """The outcome of a run of which a rank failed: one line on stderr."""
    error = as_known_error(failure.error)
    told: AtcError | InternalError
    if isinstance(error, AtcError):
        first = error.problems[0]
        told = type(first)(first.code, failure.what, where=first.where, why=first.why, hint=first.hint)
    else:
        told = InternalError(failure.what, code=error.code, where=error.where)
    return Outcome(None, error=told, verdict=str(failure))
