"""A time at which the runs of a thread end, done or not."""

from __future__ import annotations

import time
from types import TracebackType

from atcpy.errors import ResourceLimit, UsageError
from atcpy.kernels import _kernels


class RunDeadline:
    """A context in which the runs of this thread take `seconds` altogether; None: as long as they need.

    Kernels are ended within some milliseconds, nodes that run on the host when they are done. A deadline of a context
    around this one holds as well. Raises ResourceLimit (R0003) when the time is over, UsageError (E10013) if there is
    none.
    """

    def __init__(self, seconds: float | None) -> None:
        if seconds is not None and not seconds > 0:
            raise UsageError("E10013", f"timeout: {seconds} is not more than 0 seconds")
        self._seconds = seconds
        self._ends = self._outer = 0  # nanoseconds of the monotonic clock, 0: never

    def __enter__(self) -> None:
        if self._seconds is not None:
            self._ends = time.monotonic_ns() + int(min(self._seconds, _LONGEST) * 1e9)
            self._outer = _kernels.set_deadline(0)
            _kernels.set_deadline(min(self._outer, self._ends) if self._outer else self._ends)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._seconds is None:
            return
        _kernels.set_deadline(self._outer)
        if isinstance(error, TimeoutError) and not 0 < self._outer <= self._ends:
            # Frames of the run in a traceback would keep its buffers until the garbage collector finds them.
            del traceback
            cause = error.with_traceback(None)
            what = f"the time limit of {self._seconds:g} s is reached in a run"
            raise ResourceLimit("R0003", what, hint="timeout") from cause


_LONGEST = 1e9  # seconds, that nanoseconds fit into 63 bits
