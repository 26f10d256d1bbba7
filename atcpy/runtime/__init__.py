"""Loading and executing packages."""

from atcpy.runtime.session import InferenceSession, NodeArg

__all__ = ["InferenceSession", "NodeArg"]
