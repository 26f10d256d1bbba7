"""The time limit of a conversion, which everything that takes long asks for."""

from __future__ import annotations

import time
from collections.abc import Callable

from atcpy.errors import ResourceLimit


class Deadline:
    """The moment after which work stops; polled by passes, folding and the outer loops of long work."""

    __slots__ = ("_clock", "_end", "seconds")

    def __init__(self, seconds: float | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._end = None if seconds is None else clock() + seconds

    def check(self, doing: str) -> None:
        """Raise R0003 if the time is over; `doing` names the pass or the step."""
        if self._end is not None and self._clock() > self._end:
            raise ResourceLimit(
                "R0003", f"the time limit of {self.seconds:g} s is reached in {doing}", hint="raise --timeout"
            )

    def remaining(self) -> float | None:
        """Seconds left, at least 0; None without a limit."""
        return None if self._end is None else max(0.0, self._end - self._clock())
