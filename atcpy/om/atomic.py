"""Write a file so that its path holds the complete old or the complete new content at every moment.

    temporary file in the same folder → write all → fsync → rename over the target → fsync of the folder

The target itself is never opened for writing. What a killed process left behind is removed by the next run that writes
the same target; a lock on the temporary file tells a dead writer from one that lives where its pid means nothing here.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import itertools
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from atcpy.errors import UsageError, Where, raise_os_error

Buffer = bytes | bytearray | memoryview

# One write stays interruptible and never meets the kernel's limit of 2 GiB a call.
_CHUNK_BYTES = 8 << 20
_STEM_LIMIT = 180
_serial = itertools.count()
_unfinished: dict[str, int] = {}  # temporary file -> descriptor of its folder


def atomic_write(
    target: str | os.PathLike[str], buffers: Iterable[Buffer], *, finish: Callable[[int], None] | None = None
) -> None:
    """Make `target` hold `buffers`, one after the other, or leave it as it is and raise.

    `finish` is called with the descriptor of the whole temporary file and may read and change it. Folders that are
    missing are created, and removed again if that raises.

    A full or failing disk is a `ResourceLimit`, a path that cannot be written a `UsageError`.
    """
    with _Folders() as folders:
        _replace([_open_target(target, buffers, finish, folders)])


def atomic_write_together(
    contents: Mapping[Path, Iterable[Buffer]], *, finish: Callable[[int], None] | None = None
) -> None:
    """`atomic_write` for files that belong together: none is replaced before all are written, and the last one, to
    which `finish` belongs, is replaced last.
    """
    last = next(reversed([*contents]), None)
    with _Folders() as folders:
        _replace(
            [
                _open_target(target, buffers, finish if target == last else None, folders)
                for target, buffers in contents.items()
            ]
        )


def require_writable(target: str | os.PathLike[str]) -> None:
    """Raise the error of `atomic_write` for a path that cannot be written, before there is anything to write."""
    shown = os.fspath(target)
    with _errors_of(shown):
        path = Path(os.path.realpath(target))
        _check_target(path, shown)
        folder = next(parent for parent in path.parents if parent.exists())
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def move(source: Path, target: Path) -> None:
    """Make `target` the file that is at `source`, in the same folder, and was written by `atomic_write`."""
    try:
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.rename(source, target)
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise_os_error(error, str(target), writing=True)


@contextmanager
def directory(path: Path) -> Iterator[Path]:
    """Create a directory, and those above it, where they are missing, for what is written within. If that raises, those
    that were created are removed again, unless something is in them.
    """
    created: list[Path] = []
    try:
        with _errors_of(str(path)):
            created += [folder for folder in (path, *path.parents) if not folder.exists()]
            path.mkdir(parents=True, exist_ok=True)
        yield path
    except BaseException:
        for folder in created:
            with suppress(OSError, ValueError):
                folder.rmdir()
        raise


@contextmanager
def _errors_of(shown: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise_os_error(error, shown, writing=True)
    except ValueError as error:
        raise UsageError("E13004", f"{shown} is no path: {error}", where=Where(file=shown)) from error


@dataclass(frozen=True, slots=True)
class _Replacement:
    """A file that is to be replaced: its open folder, its name there, and what it will hold."""

    shown: str
    folder: int
    name: str
    mode: int | None
    buffers: Iterable[Buffer]
    finish: Callable[[int], None] | None


def _open_target(
    target: str | os.PathLike[str],
    buffers: Iterable[Buffer],
    finish: Callable[[int], None] | None,
    folders: _Folders,
) -> _Replacement:
    shown = os.fspath(target)
    with _errors_of(shown):
        path = Path(os.path.realpath(target))  # a symbolic link stays one: what it names is replaced
        mode = _check_target(path, shown)
        folder = folders.open(path.parent)
        _remove_stale(folder, path.name)
    return _Replacement(shown, folder, path.name, mode, buffers, finish)


class _Folders(ExitStack):
    """The folders of files that are replaced, each opened once."""

    def __init__(self) -> None:
        super().__init__()
        self._opened: dict[Path, int] = {}

    def open(self, path: Path) -> int:
        """The descriptor of a folder, which is created if it is missing, until the context ends."""
        if path not in self._opened:
            self.enter_context(directory(path))
            self._opened[path] = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self.callback(_close, self._opened[path], str(path))
        return self._opened[path]


def _close(folder: int, shown: str) -> None:
    with _errors_of(shown):
        os.close(folder)


def _check_target(path: Path, shown: str) -> int | None:
    """Permissions of the file that is there, or None; refuses what must not be replaced."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISDIR(status.st_mode):
        hint = f"name a file, such as {os.path.join(shown, 'model.om')}"
        raise UsageError("E10022", f"{shown} names a directory", where=Where(file=shown), hint=hint)
    if not stat.S_ISREG(status.st_mode) or not os.access(path, os.W_OK):
        what = f"{shown} is write-protected or not a regular file"
        raise UsageError("E13004", what, where=Where(file=shown), hint="name another file")
    return stat.S_IMODE(status.st_mode) & 0o777


def _replace(files: Sequence[_Replacement]) -> None:
    temporaries: list[str] = []
    created: list[_Replacement] = []  # where there was none
    try:
        for file in files:
            temporaries.append(_temporary_name(file.name))
            _unfinished[temporaries[-1]] = file.folder
            with _errors_of(file.shown):
                try:
                    _write(file, temporaries[-1])
                except FileExistsError:  # it is another writer's
                    del _unfinished[temporaries.pop()]
                    raise
        for file, temporary in zip(files, temporaries, strict=True):
            with _errors_of(file.shown):
                os.rename(temporary, file.name, src_dir_fd=file.folder, dst_dir_fd=file.folder)
            if file.mode is None:
                created.append(file)
    except BaseException:  # an interrupt, too, leaves nothing behind, also one between two lines
        for temporary in temporaries:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=_unfinished[temporary])
        for file in created:
            with suppress(OSError):
                os.unlink(file.name, dir_fd=file.folder)
        raise
    finally:
        for temporary in temporaries:
            del _unfinished[temporary]
    for file in files:
        with _errors_of(file.shown):
            os.fsync(file.folder)


def abandon() -> None:
    """Remove the temporary files of this process, which is about to end without unwinding."""
    for temporary, folder in list(_unfinished.items()):
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)


def _write(file: _Replacement, temporary: str) -> None:
    fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=file.folder)
    try:
        with suppress(OSError):  # a disk without locks: the pid in the name must do
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if file.mode is not None and file.mode != stat.S_IMODE(os.fstat(fd).st_mode):
            os.fchmod(fd, file.mode)
        for buffer in file.buffers:
            _write_all(fd, buffer)
        if file.finish is not None:
            file.finish(fd)
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_all(fd: int, buffer: Buffer) -> None:
    view = memoryview(buffer).cast("B")
    while view:
        written = os.write(fd, view[:_CHUNK_BYTES])
        view = view[written:]


def _stem(name: str) -> str:
    """What all temporary files of one target begin with; it fits where the target's own name nearly fills the limit."""
    if len(os.fsencode(name)) > _STEM_LIMIT:
        return f".{hashlib.sha256(os.fsencode(name)).hexdigest()[:32]}"
    return f".{name}"


def _temporary_name(name: str) -> str:
    return f"{_stem(name)}.{os.getpid()}-{next(_serial)}.tmp"


def _remove_stale(folder: int, name: str) -> None:
    pattern = re.compile(re.escape(_stem(name)) + r"\.(\d+)-\d+\.tmp")
    for entry in sorted(os.listdir(folder)):
        match = pattern.fullmatch(entry)
        if match and not _alive(int(match[1])):
            with suppress(OSError):  # another run may have removed it, or its writer lives on another machine
                _remove_unlocked(folder, entry)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _remove_unlocked(folder: int, entry: str) -> None:
    fd = os.open(entry, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(entry, dir_fd=folder)
    finally:
        os.close(fd)
