"""Files that users and models name: only ordinary ones are read.

A FIFO, a socket or a device may never begin, or never end: opening it does not wait, and reading it is refused.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader


class NotOrdinaryError(OSError):
    """A path leads to a FIFO, a socket or a device."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EINVAL, "it is no ordinary file", path)


def open_file(path: str | os.PathLike[str]) -> BufferedReader:
    """Open an ordinary file for reading. Raises OSError: IsADirectoryError or NotOrdinaryError for what is none."""
    name = os.fspath(path)
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a device that nobody drives
            raise NotOrdinaryError(name) from error
        raise
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return open(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    raise NotOrdinaryError(name)


def read_file(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of an ordinary file. Raises OSError as `open_file`."""
    with open_file(path) as file:
        return file.read()


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the text of an ordinary file in UTF-8. Raises OSError as `open_file`, and UnicodeDecodeError."""
    return read_file(path).decode("utf-8")
