"""The limits that users set."""

import signal
from types import FrameType

from atcpy.cli.signals import time_is_over
from atcpy.errors import ResourceLimit


class Limits:
    """`--timeout` and `--memory-limit` as backstops: the work's own checks name the place and come first."""

    def __init__(self, seconds: float | None, nbytes: int | None) -> None:
        self._seconds = seconds
        self._bytes = nbytes

    def __enter__(self) -> None:
        if self._seconds is not None:
            time_is_over.clear()
            signal.signal(signal.SIGALRM, self._time_is_over)
            signal.setitimer(signal.ITIMER_REAL, max(self._seconds, 1e-6))
        if self._bytes is not None:
            import resource

            import numpy  # noqa: F401  its BLAS ends the process if it finds no memory at its start

            # Of writable private memory: address space counts mapped weights, too, which cost nothing.
            _, hard = resource.getrlimit(resource.RLIMIT_DATA)
            limit = self._bytes if hard == resource.RLIM_INFINITY else min(self._bytes, hard)
            resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))

    def __exit__(self, *_: object) -> None:
        if self._seconds is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _time_is_over(self, _number: int, _frame: FrameType | None) -> None:
        time_is_over.set()
        what = f"the time limit of {self._seconds:g} s is reached"
        raise ResourceLimit("R0003", what, hint="raise --timeout")
