"""System calls that Python has no function for."""

from __future__ import annotations

import ctypes

_libc: ctypes.CDLL | None = None


def system_call(number: int, *arguments: object) -> int:
    """A system call; its result, or the negative number of its error."""
    global _libc
    if _libc is None:
        _libc = ctypes.CDLL(None, use_errno=True)
        _libc.syscall.restype = ctypes.c_long
    words = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in arguments]
    result = int(_libc.syscall(ctypes.c_long(number), *words))
    return -ctypes.get_errno() if result == -1 else result
