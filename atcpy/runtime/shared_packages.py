"""Packages that sessions of this process have open: one file is mapped, checked and parsed once for all of them.

A package is shared as long as a session has it. A file counts as the same if its inode, size and times are, and if it
begins with the same header, whose digests cover all of its bytes. One that was replaced, or written to, is opened anew;
sessions that have the old one keep it, or find at their next run that it was changed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

from atcpy.errors import PackageCorrupt
from atcpy.files import note_mapped_file, open_file
from atcpy.kernels import _kernels
from atcpy.om.container import HEADER_BYTES, Verify
from atcpy.om.package import Package
from atcpy.runtime.loader import open_package

if TYPE_CHECKING:
    from atcpy.om.signature import PublicKey
    from atcpy.runtime.weights import WeightStore


@dataclass(eq=False, slots=True, weakref_slot=True)
class SharedPackage:
    """A package, and the constants of what is compiled for the sizes of runs. Threads may share it."""

    package: Package
    _store: WeightStore | None = None
    _lock: Lock = field(default_factory=Lock)

    @property
    def store(self) -> WeightStore:
        """The constants that sessions have packed at run time."""
        from atcpy.runtime.weights import WeightStore

        with self._lock:
            if self._store is None:
                self._store = WeightStore()
            return self._store


class _Key(NamedTuple):
    """What tells packages apart: how they were opened, and what the file system and the header say of the file."""

    path: str
    verify: Verify
    mmap: bool
    signers: tuple[PublicKey, ...]
    identity: tuple[int, ...]
    header: bytes


_packages: WeakValueDictionary[_Key, SharedPackage] = WeakValueDictionary()
_lock = Lock()


def open_shared_package(
    source: str | os.PathLike[str] | bytes, *, verify: Verify, mmap: bool, signers: Sequence[PublicKey] = ()
) -> SharedPackage:
    """Return the package that a session has open already, or open it. Raises the errors of `open_package`."""
    key = None if isinstance(source, bytes) else _key_of(os.fspath(source), verify, mmap=mmap, signers=tuple(signers))
    if key is None:
        return SharedPackage(open_package(source, verify=verify, mmap=mmap, signers=signers))
    if (found := _find(key)) is not None:
        return found
    opened = SharedPackage(open_package(source, verify=verify, mmap=mmap, signers=signers))
    if opened.package.weight_files:  # of which the key says nothing; what is mapped of them is shared by the system
        return opened
    if _key_of(key.path, verify, mmap=mmap, signers=key.signers) != key:
        return opened  # it was replaced or written to meanwhile: nobody knows which of the two this is
    with _lock:
        return _packages.setdefault(key, opened)  # another thread may have been faster


def _key_of(path: str, verify: Verify, *, mmap: bool, signers: tuple[PublicKey, ...]) -> _Key | None:
    try:
        with open_file(path) as file:
            status = os.fstat(file.fileno())
            header = file.read(HEADER_BYTES)
    except OSError:
        return None  # opening the package says why
    identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return _Key(os.path.abspath(path), verify, mmap and not signers, signers, identity, header)


def _find(key: _Key) -> SharedPackage | None:
    """The open package of a key, checked at least as far, whose file is still as it was."""
    with _lock:
        found = _packages.get(key)
        if found is None and key.verify is Verify.HEADER:
            found = _packages.get(key._replace(verify=Verify.FULL))
    if found is None:
        return None
    try:
        found.package.container.check_unchanged()
    except PackageCorrupt:  # what the sessions that have it will find, too
        return None
    file = found.package.container.file
    if file is not None:
        note_mapped_file(file)
        _kernels.handle_bus_errors()
    return found
