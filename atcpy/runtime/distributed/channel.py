"""The channel between ranks and the process that started them: a file with the work, and a pipe for each rank.

A rank that closes its pipe without a final message has died. Pipes are read in the order in which they are closed, so
that the rank that died first is known, whichever others MPI stops after it, unless its last message was still unread.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atcpy.errors import AtcError, as_known_error
from atcpy.errors.record import error_from_record, error_to_record
from atcpy.runtime.distributed.failures import RankFailed


class RankFolder:
    """The folder that both sides know."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def write_work(self, work: Mapping[str, Any]) -> None:
        """Leave what the ranks are to do, as JSON."""
        self._work.write_text(json.dumps(work), encoding="utf-8")

    def read_work(self) -> dict[str, Any]:
        """The JSON that was left."""
        work: dict[str, Any] = json.loads(self._work.read_text(encoding="utf-8"))
        return work

    def open_pipe(self, rank: int) -> int:
        """Create a rank's pipe before the rank starts; return the end that is read."""
        os.mkfifo(self._pipe(rank))
        return os.open(self._pipe(rank), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def _pipe(self, rank: int) -> Path:
        return self._path / f"rank{rank}"

    @property
    def _work(self) -> Path:
        return self._path / "work"


class RankChannel:
    """The rank's end: sends that MPI has started, and finally the result or the failure. Its pipe is the process's
    standard input.
    """

    def __init__(self) -> None:
        self._pipe = os.dup(sys.stdin.fileno())
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, sys.stdin.fileno())
        os.close(nothing)

    def send_starting(self) -> None:
        """MPI is about to start."""
        self._send({"starting": True})

    def send_started(self) -> None:
        """MPI has started."""
        self._send({"started": True})

    def send_failure(self, failure: RankFailed) -> None:
        """Why the rank ends."""
        self._send({"failure": _to_record(failure)})

    def send_result(self, result: Mapping[str, Any]) -> None:
        """What the rank computed, as JSON."""
        self._send({"result": result})

    def _send(self, message: Mapping[str, object]) -> None:
        content = memoryview(json.dumps(message).encode() + b"\n")
        while content:
            content = content[os.write(self._pipe, content) :]


@dataclass
class RankStatus:
    """What a rank has reported."""

    rank: int
    is_starting: bool = False
    has_started: bool = False
    failure: RankFailed | None = None
    result: dict[str, Any] | None = None
    _rest: bytes = b""

    @property
    def is_done(self) -> bool:
        """Whether the final message is here."""
        return self.failure is not None or self.result is not None

    def receive(self, content: bytes) -> None:
        """Take the next bytes from the rank's pipe."""
        *messages, self._rest = (self._rest + content).split(b"\n")
        for message in map(json.loads, messages):
            self.is_starting |= "starting" in message
            self.has_started |= "started" in message
            if "failure" in message:
                self.failure = _from_record(message["failure"])
            if "result" in message:
                self.result = message["result"]


def _to_record(failure: RankFailed) -> dict[str, Any]:
    """A failure as JSON has it."""
    error = as_known_error(failure.error)
    first = error.problems[0] if isinstance(error, AtcError) else error
    return {"rank": failure.rank, "ranks": failure.ranks, "error": error_to_record(first)}


def _from_record(record: Mapping[str, Any]) -> RankFailed:
    """The failure of such a record."""
    return RankFailed(record["rank"], record["ranks"], error_from_record(record["error"]))
