"""The garbage collector, off while a model is worked on."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_MANY = 100_000  # objects; to search fewer takes milliseconds


@contextmanager
def collector_paused() -> Iterator[None]:
    """Nearly everything that a conversion makes stays until its end: looking for garbage meanwhile
    took 40 % of the time (50 000 nodes).

    Afterwards all of it would be the youngest generation, which is searched as a whole at the next allocation (another
    8 %). Where it is large it becomes the oldest one instead, which is searched when the process needs it, or never if
    it ends.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            # Objects that an application has frozen have to stay so. To count them is to walk over all of them.
            if gc.get_count()[0] > _MANY and gc.get_freeze_count() == 0:
                gc.freeze()
                gc.unfreeze()
            gc.enable()
