"""Files that users and models name: only ordinary ones are read.

A FIFO, a socket or a device may never begin, or never end: opening it does not wait, and reading it is refused.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from io import BufferedReader
from typing import Any, Protocol


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
    except ValueError as error:  # a NUL, or a character that no name of a file has
        raise OSError(errno.EINVAL, f"it is no path: {error}", name) from error
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


class MappedFile(Protocol):
    """A file whose bytes are read where they lie, as long as it is needed."""

    def check_unchanged(self) -> None:
        """Raise AtcError if the file was written to or cut short since it was mapped."""


_mapped: ContextVar[list[MappedFile] | None] = ContextVar("mapped files", default=None)


@contextmanager
def require_unchanged_files() -> Iterator[list[MappedFile]]:
    """Refuse, at the end, files that this thread mapped within and that were changed meanwhile: whatever was computed,
    or failed, has that as its cause. Yields the list of them, which does not have those of a call inside.
    """
    files: list[MappedFile] = []
    token = _mapped.set(files)
    try:
        yield files
    except Exception:
        check_unchanged(files)
        raise
    finally:
        _mapped.reset(token)
    check_unchanged(files)


def note_mapped_file(file: MappedFile) -> None:
    """Have a file checked at the end, where one is required."""
    if (files := _mapped.get()) is not None:
        files.append(file)


def check_unchanged(files: Iterable[MappedFile]) -> None:
    """Raise the error of a file that was changed while it was in use."""
    for file in files:
        file.check_unchanged()


def parse_json(text: str) -> Any:
    """Return the value of a JSON text. Raises ValueError for what is none, is nested too deep, or has an integer of
    thousands of digits; json.JSONDecodeError, which says where, is one.
    """
    import json  # most packages need none

    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
