"""A time at which the runs of a thread end, done or not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from atcpy.errors import ResourceLimit, UsageError
from atcpy.kernels import _kernels


@contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Let the runs of this thread within the context take `seconds` altogether; None: as long as they need.

    Kernels are ended within some milliseconds, nodes that run on the host when they are done. A deadline of a context
    around this one holds as well. Raises ResourceLimit (R0003) when the time is over, UsageError (E10013) if there is
    none.
    """
    if seconds is None:
        yield
        return
    if not seconds > 0:
        raise UsageError("E10013", f"timeout: {seconds} is not more than 0 seconds")
    ends = time.monotonic_ns() + int(min(seconds, _LONGEST) * 1e9)
    outer = _kernels.set_deadline(0)
    _kernels.set_deadline(min(outer, ends) if outer else ends)
    try:
        yield
    except TimeoutError as error:
        if outer and outer <= ends:
            raise
        raise ResourceLimit("R0003", f"the time limit of {seconds:g} s is reached in a run", hint="timeout") from error
    finally:
        _kernels.set_deadline(outer)


_LONGEST = 1e9  # seconds, that nanoseconds fit into 63 bits
