"""Constants in files of their own, in the folder `weight` beside the package: docs/big-models.md.

The package records the name, the size and the digests of each file. Tasks address all constants in one space:

    0                      WEIGHTS_DATA
    next multiple of 64 Ki the first file
    next multiple of 64 Ki the second file …

A file is mapped where it lies in the space, so that kernels know nothing of files. Of a combined file, whose name does
not say what is in it, the last 32 bytes are the SHA-256 of those before: they are compared whatever else is left out.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple

import xxhash

from atcpy.errors import CODES, PackageCorrupt, ResourceLimit, Where, raise_os_error
from atcpy.files import note_mapped_file
from atcpy.kernels import _kernels
from atcpy.om.container import Container, Partition, Verify, corrupt

FOLDER = "weight"
FILE_CONSTANT = "FileConstant"  # GE's op of a constant in a file
COMBINED = "_weight_combined"  # how the name of the one file with all constants ends
SPACE_ALIGN = 1 << 16  # of files in the space: the largest page that CPUs have
MAX_FILES = 512  # each takes a descriptor, and a look at it behind every run
SEAL_BYTES = 32
_NAME_BYTES = 255
_MAX_BYTES = 1 << 46  # of the space: addresses have 47 bits
_UNLINKED = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class WeightFile(NamedTuple):
    """A file with constants: its name, its size, and the XXH3-128 and SHA-256 of what is in front of its seal."""

    name: str
    nbytes: int
    xxh128: bytes
    sha256: bytes

    @property
    def location(self) -> str:
        """Its path from the package's folder, as GE names it."""
        return f"{FOLDER}/{self.name}"

    @property
    def content_bytes(self) -> int:
        """How many bytes there are in front of the seal, which only a combined file has."""
        return self.nbytes - SEAL_BYTES if self.name.endswith(COMBINED) else self.nbytes


def encode(files: Iterable[WeightFile]) -> str:
    """What the package records of files."""
    return json.dumps([[file.name, file.nbytes, file.xxh128.hex(), file.sha256.hex()] for file in files])


def decode(text: str) -> tuple[WeightFile, ...]:
    """The files that a package records. Raises ValueError or TypeError for what no writer writes."""
    files = tuple(_decode_file(*entry) for entry in json.loads(text))
    if len({file.name for file in files}) < len(files):
        raise ValueError("two files have one name")
    if not 0 < len(files) <= MAX_FILES:
        raise ValueError(f"{len(files)} files, where 1 to {MAX_FILES} are possible")
    return files


def _decode_file(name: str, nbytes: int, xxh128: str, sha256: str) -> WeightFile:
    if type(name) is not str or type(nbytes) is not int:
        raise TypeError("a file without name and size")
    if name in ("", ".", "..") or "/" in name or "\0" in name or len(os.fsencode(name)) > _NAME_BYTES:
        raise ValueError(f"{name!r:.80} is no name of a file in a folder")
    file = WeightFile(name, nbytes, bytes.fromhex(xxh128), bytes.fromhex(sha256))
    if not 0 < file.content_bytes <= _MAX_BYTES or (len(file.xxh128), len(file.sha256)) != (16, 32):
        raise ValueError(f"a file of {nbytes} bytes, or digests of other lengths")
    return file


def space_offsets(first: int, sizes: Iterable[int]) -> tuple[list[int], int]:
    """Where files lie in the space behind `first` bytes of WEIGHTS_DATA, and where the last one ends."""
    offsets = []
    end = first
    for size in sizes:
        offsets.append(-(-end // SPACE_ALIGN) * SPACE_ALIGN)
        end = offsets[-1] + size
    return offsets, end


class _WeightSpace(_kernels.MappedSpace):
    """WEIGHTS_DATA and the files of a package, mapped in a row."""

    def __init__(self, nbytes: int, paths: Sequence[str]) -> None:
        super().__init__(nbytes)
        self._paths = paths
        note_mapped_file(self)

    def check_unchanged(self) -> None:
        """Refuse files that were written to or cut short since they were opened, also if they are the same again."""
        number = self.changed_file()
        if number is not None:
            what = f"{self._paths[number]} was written to or cut short while it was in use"
            raise PackageCorrupt("P0009", what, where=Where(file=self._paths[number]), hint=CODES["P0009"].help)


class Weights(NamedTuple):
    """The space of a package's constants; the package, which checks that the files stay as they are; where each file
    begins in the space.
    """

    container: Container
    space: memoryview
    offsets: tuple[int, ...]


def open_weights(opened: Container, files: Sequence[WeightFile], *, verify: Verify, is_signed: bool) -> Weights:
    """Open and check the files of a package: mapped if the package is, else read into memory. With `is_signed`, the
    SHA-256 of each, which the signature covers, is checked as well.

    Raises PackageCorrupt for a file that is missing or too short (P0004), another one (P0003), or no file (P0005).
    """
    own = opened.extent(Partition.WEIGHTS_DATA)
    offsets, end = space_offsets(own.size, (file.nbytes for file in files))
    folder = _folder_of(opened, files[0])
    paths = [os.path.join(folder, file.name) for file in files]
    with ExitStack() as stack:
        descriptors = list(_open_files(opened, folder, files, stack))
        try:
            if opened.file is None:
                space = memoryview(mmap.mmap(-1, end))
                space[: own.size] = opened.partition(Partition.WEIGHTS_DATA)
                for descriptor, file, at in zip(descriptors, files, offsets, strict=True):
                    _read(descriptor, space[at : at + file.nbytes])
                space = space.toreadonly()
            else:
                if own.offset % SPACE_ALIGN:
                    what = f"begins at no multiple of {SPACE_ALIGN}, which a package with weight files needs"
                    raise corrupt("P0005", opened.source, own.offset, own.partition.name, what)
                mapped = _WeightSpace(end, [opened.source, *paths])
                mapped.map(opened.file.fileno(), own.offset, own.size, 0)
                for descriptor, file, at in zip(descriptors, files, offsets, strict=True):
                    mapped.map(descriptor, 0, file.nbytes, at)
                opened, space = replace(opened, space=mapped), memoryview(mapped)
        except MemoryError as error:
            raise ResourceLimit("R0001", f"no memory for {end} bytes of weights") from error
        except OSError as error:
            raise_os_error(error, opened.source)
    for path, file, at in zip(paths, files, offsets, strict=True):
        _check_content(path, file, space[at : at + file.nbytes], verify)
        if is_signed:
            _check_sha256(path, file, space[at : at + file.nbytes])
    return Weights(opened, space, tuple(offsets))


def check_sha256(opened: Container, files: Mapping[WeightFile, int], weights: memoryview) -> None:
    """Refuse files whose SHA-256 is not the one that the package records; `files` says where each is in the weights."""
    for file, at in files.items():
        _check_sha256(os.path.join(_folder_of(opened, file), file.name), file, weights[at : at + file.nbytes])


def _folder_of(opened: Container, first: WeightFile) -> str:
    if opened.path is None:
        what = f"{opened.source} needs {first.location} beside it, and is not in a file"
        hint = "open the package by its path"
        raise PackageCorrupt("P0004", what, where=Where(file=opened.source), hint=hint)
    return os.path.join(os.path.dirname(os.path.realpath(opened.path)), FOLDER)


def _open_files(opened: Container, folder: str, files: Sequence[WeightFile], stack: ExitStack) -> Iterator[int]:
    """Descriptors of ordinary files of the recorded sizes; no link is followed from the package's folder on."""
    inside = _open(opened, os.path.dirname(folder), FOLDER, os.O_DIRECTORY, files[0], None, stack)
    for file in files:
        descriptor = _open(opened, folder, file.name, 0, file, inside, stack)
        path, status = os.path.join(folder, file.name), os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _no_file(path)
        if status.st_size != file.nbytes:
            code = "P0004" if status.st_size < file.nbytes else "P0005"
            what = f"{path} has {status.st_size} bytes, {opened.source} was written for {file.nbytes}"
            raise PackageCorrupt(code, what, where=Where(file=path), hint=CODES[code].help)
        yield descriptor


def _open(
    opened: Container, folder: str, name: str, flags: int, file: WeightFile, inside: int | None, stack: ExitStack
) -> int:
    path = os.path.join(folder, name)
    try:
        descriptor = os.open(path if inside is None else name, _UNLINKED | flags, dir_fd=inside)
    except FileNotFoundError:
        what = f"{opened.source} needs {file.location} ({file.nbytes} bytes) beside it"
        hint = f"copy the folder {FOLDER} together with the package"
        raise PackageCorrupt("P0004", what, where=Where(file=path), hint=hint) from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK, errno.ENXIO):
            raise _no_file(path) from None
        raise_os_error(error, path)
    stack.callback(os.close, descriptor)
    return descriptor


def _no_file(path: str) -> PackageCorrupt:
    what = f"{path} is a link or no ordinary file"
    return PackageCorrupt("P0005", what, where=Where(file=path), hint="copy the file itself")


def _read(descriptor: int, target: memoryview) -> None:
    """Read a file that has as many bytes as the target; what is cut off meanwhile fails the digest."""
    while target and (count := os.readv(descriptor, [target])):
        target = target[count:]


def _check_content(path: str, file: WeightFile, content: memoryview, verify: Verify) -> None:
    """Compare the seal, and if all is to be checked the XXH3-128."""
    if content[file.content_bytes :] not in (b"", file.sha256):
        raise _changed(path)
    if verify is Verify.FULL and xxhash.xxh3_128(content[: file.content_bytes]).digest() != file.xxh128:
        raise _changed(path)


def _check_sha256(path: str, file: WeightFile, content: memoryview) -> None:
    import hashlib  # it loads OpenSSL, which running a package does not need

    if hashlib.sha256(content[: file.content_bytes]).digest() != file.sha256:
        raise _changed(path)


def _changed(path: str) -> PackageCorrupt:
    what = f"{path} is not the file that belongs to the package: wrong checksum"
    return PackageCorrupt("P0003", what, where=Where(file=path), hint=CODES["P0003"].help)
