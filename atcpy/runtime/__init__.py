"""Loading and executing packages."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atcpy.runtime.session import InferenceSession, NodeArg

__all__ = ["InferenceSession", "NodeArg"]


def __getattr__(name: str) -> Any:
    """Who only asks what came of a run does not load what runs it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from atcpy.runtime import session

    return getattr(session, name)
