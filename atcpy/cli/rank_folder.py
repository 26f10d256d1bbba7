"""What goes between ranks and who started them: a file says what to do, and each rank has a pipe to tell how it goes.

A rank that closes its pipe without a last word has ended. Pipes are seen in the order in which they are closed, so that
the one that ended first is known, whomever MPI stops after it; but not always where they close at nearly the same time.
"""

import json
import os
import sys
from collections.abc import Mapping
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
    """The folder, on both sides."""

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

    def listen(self, rank: int) -> int:
        """The reading end of a rank's pipe, which is there before the rank is."""
        os.mkfifo(self._pipe(rank))
        return os.open(self._pipe(rank), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def _pipe(self, rank: int) -> Path:
        return self._path / f"rank{rank}"

    @property
    def _order(self) -> Path:
        return self._path / "order"


class Teller:
    """How a rank tells that it met the others, and its last word: why it failed, or what it found. Its pipe is its
    standard input.
    """

    def __init__(self) -> None:
        self._pipe = os.dup(sys.stdin.fileno())
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, sys.stdin.fileno())
        os.close(nothing)

    def met(self) -> None:
        """MPI has started."""
        self._tell({"met": True})

    def failed(self, failure: RankFailed) -> None:
        """Why it ends."""
        self._tell({"failure": _to_record(failure)})

    def found(self, outcome: Outcome) -> None:
        """What it found."""
        warnings = [asdict(warning) for warning in outcome.warnings]
        self._tell({"outcome": {"result": outcome.result, "lines": list(outcome.lines), "warnings": warnings}})

    def _tell(self, message: Mapping[str, object]) -> None:
        content = memoryview(json.dumps(message).encode() + b"\n")
        while content:
            content = content[os.write(self._pipe, content) :]


@dataclass
class Told:
    """What a rank has told."""

    rank: int
    has_met: bool = False
    failure: RankFailed | None = None
    outcome: Outcome | None = None
    _rest: bytes = b""

    @property
    def is_done(self) -> bool:
        """Was that its last word?"""
        return self.failure is not None or self.outcome is not None

    def hear(self, content: bytes) -> None:
        """More of what it tells."""
        *messages, self._rest = (self._rest + content).split(b"\n")
        for message in map(json.loads, messages):
            self.has_met |= "met" in message
            if "failure" in message:
                self.failure = _from_record(message["failure"])
            if "outcome" in message:
                self.outcome = _outcome(message["outcome"])


def _outcome(told: Mapping[str, Any]) -> Outcome:
    warnings = [AtcWarning(each["code"], each["message"], Where(**each["where"])) for each in told["warnings"]]
    return Outcome(told["result"], told["lines"], warnings=warnings)


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
