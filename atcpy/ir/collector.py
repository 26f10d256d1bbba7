"""The garbage collector, off while a model is worked on."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Nearly everything that a conversion makes stays until its end: looking for garbage meanwhile
    took 40 % of the time (50 000 nodes).

    Afterwards all of it would be the youngest generation, which is searched as a whole at the next allocation (another
    8 %). It becomes the oldest one instead, which is searched when the process needs it, or never if it ends.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if gc.get_freeze_count() == 0:  # else an application has frozen objects, which have to stay so
                gc.freeze()
                gc.unfreeze()
            gc.enable()
