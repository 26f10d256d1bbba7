"""The engine: what GEInitialize starts and GEFinalize ends. Sessions belong to it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol
from weakref import WeakSet

from atcpy.errors import UsageError
from atcpy.ge.options import merged_options


class Closable(Protocol):
    """A session, as the engine sees it."""

    def close(self) -> None:
        """Wait for its runs and release its graphs."""


class GraphEngine:
    """Options for all sessions, and those that are there."""

    def __init__(self, options: Mapping[str, object]) -> None:
        self.options = options
        self.sessions: WeakSet[Closable] = WeakSet()


_lock = threading.Lock()
_engine: GraphEngine | None = None
_session_ids = itertools.count()
_callback = threading.local()


def GEInitialize(options: Mapping[str, object] | None = None) -> None:
    """Start the engine; there is one in a process. Raises UsageError for options, and if it is started (G0002)."""
    global _engine
    merged = merged_options({}, options)
    with _lock:
        if _engine is not None:
            raise UsageError("G0002", "GEInitialize: the graph engine is initialized", hint="ge.GEFinalize()")
        _engine = GraphEngine(merged)


def GEFinalize() -> None:
    """End the engine, then wait for all runs and release all sessions. Raises UsageError if it is not started (G0001),
    or in a callback, which would wait for itself (G0005).
    """
    global _engine
    refuse_in_callback("GEFinalize")
    with _lock:
        engine, _engine = _started("GEFinalize"), None
        sessions = list(engine.sessions)
    for session in sessions:
        session.close()


def enroll(session: Closable) -> tuple[int, Mapping[str, object]]:
    """Note a session that the engine ends with itself; return its id and the engine's options."""
    with _lock:
        engine = _started("Session")
        engine.sessions.add(session)
        return next(_session_ids), engine.options


def _started(caller: str) -> GraphEngine:
    if _engine is None:
        raise UsageError("G0001", f"{caller}: the graph engine is not initialized", hint="ge.GEInitialize()")
    return _engine


@contextmanager
def in_callback() -> Iterator[None]:
    """Marks what this thread does meanwhile as done by a callback."""
    _callback.is_running = True
    try:
        yield
    finally:
        _callback.is_running = False


def refuse_in_callback(caller: str) -> None:
    """Raise UsageError in a callback: what waits for all callbacks would wait for itself."""
    if getattr(_callback, "is_running", False):
        raise UsageError("G0005", f"{caller}: a callback cannot wait for itself", hint="call it in another thread")
