"""The thread of a rank that runs its collectives, one after the other, beside what the rank computes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class CollectiveThread:
    """A context that ends the thread; that starts when it is needed first."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "collectives", self._note)
        self._identity = 0

    def _note(self) -> None:
        self._identity = threading.get_ident()

    def is_current(self) -> bool:
        """Whether this is the thread."""
        return threading.get_ident() == self._identity

    def __enter__(self) -> CollectiveThread:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown()

    def start(self, collective: Callable[[], None]) -> Future[None]:
        """Run a collective behind those that were started before."""
        return self._executor.submit(collective)


def run_at_once(collective: Callable[[], None]) -> Future[None]:
    """Run a collective on the thread that computes."""
    done = Future[None]()
    collective()
    done.set_result(None)
    return done
