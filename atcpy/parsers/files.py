"""Files of models: mapped, or an error that says what they are instead."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from atcpy.errors import ModelInvalid, ResourceLimit, UsageError, Where, did_you_mean, raise_os_error
from atcpy.files import NotOrdinaryError, note_mapped_file, open_file
from atcpy.kernels import _kernels
from atcpy.parsers.sniff import what_folder


class ModelFile(_kernels.MappedFile):
    """A file of a model that is mapped."""

    def __init__(self, descriptor: int, size: int, path: str) -> None:
        super().__init__(descriptor, size)
        self._path = path
        note_mapped_file(self)

    def check_unchanged(self) -> None:
        """Refuse a model that was written to or cut short while it was read, as a disk that fails is refused."""
        if self.has_changed():
            what = f"{self._path} was written to or cut short while it was read"
            raise ResourceLimit("E13003", what, where=Where(file=self._path), hint="wait until it is written")


def _map(descriptor: int, size: int, path: str) -> memoryview:
    return memoryview(ModelFile(descriptor, size, path) if size else b"")


def map_file(path: Path, kind: str) -> memoryview:
    """The bytes of an ordinary file; `kind` says what it should be, as `an ONNX model`."""
    try:
        with open_file(path) as file:
            return _map(file.fileno(), os.fstat(file.fileno()).st_size, str(path))
    except FileNotFoundError:
        raise _missing(path) from None
    except IsADirectoryError:
        raise no_model(path, kind, *what_folder(path)) from None
    except NotOrdinaryError:
        raise no_model(path, kind, "no ordinary file", "copy the model into a file") from None
    except OSError as error:
        raise_os_error(error, str(path))


def map_inside(folder: Path, parts: Sequence[str], *, allow_hardlinks: bool) -> memoryview | str:
    """The bytes of an ordinary file in a folder, or why it is refused; FileNotFoundError if it is not there.

    Folder by folder from a descriptor of the first, and never through a link: a check of the path alone can be raced.
    The first folder may be a link itself: it is the user's own word. What lies in it may not.
    """
    if ".." in parts:
        return "it leads out of the folder"
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for index, part in enumerate(parts):
            flags = _UNLINKED | (os.O_DIRECTORY if index < len(parts) - 1 else 0)
            following = os.open(part, flags, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = following
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return "it is no ordinary file"
        if status.st_nlink != 1 and not allow_hardlinks:
            return f"the file has {status.st_nlink} names (hard links)"
        return _map(descriptor, status.st_size, str(folder.joinpath(*parts)))
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
            return "it is, or leads through, a link or something that is no folder"
        raise
    finally:
        os.close(descriptor)


_UNLINKED = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def _missing(path: Path) -> UsageError:
    folder = path.parent
    hint = ""
    if not folder.is_dir():
        hint = f"the folder {folder} does not exist either"
    elif os.access(folder, os.R_OK | os.X_OK):
        hint = did_you_mean(path.name, sorted(entry.name for entry in folder.iterdir() if entry.is_file()))
    return UsageError("E10410", f"{path} does not exist", where=Where(file=str(path)), hint=hint)


def no_model(path: Path, kind: str, what: str, hint: str) -> ModelInvalid:
    """The error for a file that is something else, or damaged."""
    is_state = what.startswith(("empty", "full", "damaged", "larger", "gzip", "xz", "zstd", "bzip2"))
    text = f"{path.name} is not {kind}: it is {what}" if not is_state else f"{path.name} is {what}"
    return ModelInvalid("E10041", text, where=Where(file=str(path)), hint=hint)
