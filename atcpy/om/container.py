"""The bytes of a `.om`: header, 64-bit partition table, partitions, and the checksums that seal them.

    0            header, 256 bytes; checksum[64] at 12
    256          partition table: count, then (type, offset from the table's end, size) for each
    256+8+24n    partitions back to back in GE's order 8, 0, 1, 2; WEIGHTS_DATA at a multiple of 64 of the file
                 SIGNATURE behind them, in a signed package alone

    checksum = XXH3-128 (16) + SHA-256 (32) + XXH3-64 without the WEIGHTS payload (8) + zeros (8)

SHA-256 and XXH3-64 are taken with the whole field zeroed, XXH3-128 last with only its own 16 bytes zeroed, so no byte
of a file can change unseen. Digests are stored in the byte order of their usual hexadecimal form. SHA-256 is what a
signature signs: it leaves out the payload of SIGNATURE, and nothing else.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import xxhash

from atcpy.errors import CODES, PackageCorrupt, Where, raise_os_error
from atcpy.files import MappedFile, NotOrdinaryError, note_mapped_file, open_file
from atcpy.kernels import _kernels

if TYPE_CHECKING:
    from atcpy.om.signature import PublicKey

Buffer: TypeAlias = bytes | bytearray | memoryview

MAGIC = 0x444F4D49
MAGIC_BYTES = b"IMOD"
VERSION = 0x20000000
OM_IR_VERSION = 2
FORMAT_VERSION = 5  # of the task records, the kernel table and our attributes: a reader refuses every other one
HEADER_BYTES = 256
CHECKSUM_OFFSET = 12
CHECKSUM_BYTES = 64
WEIGHTS_ALIGN = 64
SIGNATURE_BYTES = 96  # public key, Ed25519 signature
_READ_BYTES = 8 << 20

_XXH128 = slice(0, 16)
_SHA256 = slice(16, 48)
_XXH64 = slice(48, 56)
_CHECKSUM_ZERO = slice(56, 64)

_HEADER = struct.Struct("<III64sI4B32sI32sII20sB3sQBB62s")
_TABLE_HEAD = struct.Struct("<II")
_TABLE_ENTRY = struct.Struct("<IIQQ")
assert _HEADER.size == HEADER_BYTES


class Partition(IntEnum):
    """GE's numbers of the partitions that atcpy writes; a loader refuses every other one."""

    MODEL_DEF = 0
    WEIGHTS_DATA = 1
    TASK_INFO = 2
    MODEL_INOUT_INFO = 8
    SIGNATURE = 23  # GE's PRE_MODEL_DESC_EXTEND, which only nano chips have; Netron skips it


ORDER = (Partition.MODEL_INOUT_INFO, Partition.MODEL_DEF, Partition.WEIGHTS_DATA, Partition.TASK_INFO)
TABLE_BYTES = _TABLE_HEAD.size + _TABLE_ENTRY.size * len(ORDER)
SIGNED_ORDER = (*ORDER, Partition.SIGNATURE)
_LARGEST_TABLE_BYTES = TABLE_BYTES + _TABLE_ENTRY.size


class Verify(StrEnum):
    """How much of a package is checked when it is opened."""

    FULL = "full"
    HEADER = "header"


class Extent(NamedTuple):
    """One partition's offset and size, counted from the file's first byte."""

    partition: Partition
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Container:
    """A package whose header, table and checksum were checked; partitions are views, nothing is copied."""

    source: str
    name: str
    platform_version: str
    dynamic: bool
    extents: tuple[Extent, ...]
    buffer: memoryview
    file: PackageFile | None = None  # that is mapped
    path: str | None = None  # if it was in a file
    space: MappedFile | None = None  # files with its weights that are mapped: `weight_files.py`

    def check_unchanged(self) -> None:
        """Refuse a package whose files were changed or cut short since it was opened: what was read of it is worth
        nothing.
        """
        if self.file is not None:
            self.file.check_unchanged()
        if self.space is not None:
            self.space.check_unchanged()

    def extent(self, partition: Partition) -> Extent:
        """Where `partition` lies in the file."""
        return next(e for e in self.extents if e.partition is partition)

    def partition(self, partition: Partition) -> memoryview:
        """The partition's bytes, as a read-only view of the file."""
        at = self.extent(partition)
        return self.buffer[at.offset : at.offset + at.size]

    @property
    def sha256(self) -> bytes:
        """The recorded SHA-256; `check_sha256` compares it."""
        return bytes(self.buffer[CHECKSUM_OFFSET : CHECKSUM_OFFSET + CHECKSUM_BYTES])[_SHA256]

    @property
    def is_signed(self) -> bool:
        """Is there a signature, whoever made it?"""
        return self.extents[-1].partition is Partition.SIGNATURE

    @property
    def signer(self) -> PublicKey | None:
        """The key that the package says it was signed with; `check_signer` proves it."""
        if not self.is_signed:
            return None
        from atcpy.om.signature import signer_of

        return signer_of(self.partition(Partition.SIGNATURE))

    def check_sha256(self) -> None:
        """Refuse a package whose recorded SHA-256 is not that of its bytes."""
        if _sha256(lambda first, end: [self.buffer[first:end]], len(self.buffer)) != self.sha256:
            raise corrupt("P0003", self.source, CHECKSUM_OFFSET, "header", "the SHA-256 is not that of the file")

    def check_signer(self, signers: Sequence[PublicKey]) -> None:
        """Refuse a package that none of `signers` signed as it is: every byte is read, whatever `Verify` left out."""
        from atcpy.om.signature import check_signature

        self.check_sha256()
        payload = self.partition(Partition.SIGNATURE) if self.is_signed else None
        check_signature(payload, self.sha256, signers, self.source)


def corrupt(code: str, source: str, offset: int, part: str, what: str) -> PackageCorrupt:
    """The error for bytes that are not as they must be, naming partition and offset in the file."""
    where = Where(file=source, partition=part, offset=offset)
    return PackageCorrupt(code, what, where=where, hint=CODES[code].help)


# ---- writing


def frame(
    sizes: Mapping[Partition, int], *, name: str, platform_version: str, dynamic: bool = False
) -> tuple[bytes, tuple[Partition, ...]]:
    """Header, without its checksum, and table for partitions of these sizes, and the order in which they follow."""
    order = _order(sizes)
    if any(sizes[p] <= 0 for p in order) or weights_offset(sizes) % WEIGHTS_ALIGN:
        raise ValueError(f"partitions are empty or leave WEIGHTS_DATA unaligned: {sizes}")
    table = _pack_table(sizes, order)
    return _pack_header(name, platform_version, len(table) + sum(sizes.values()), dynamic=dynamic) + table, order


def _order(sizes: Mapping[Partition, int]) -> tuple[Partition, ...]:
    return SIGNED_ORDER if Partition.SIGNATURE in sizes else ORDER


def _data_offset(partitions: int) -> int:
    """Where the first of so many partitions begins."""
    return HEADER_BYTES + _TABLE_HEAD.size + _TABLE_ENTRY.size * partitions


def weights_offset(sizes: Mapping[Partition, int]) -> int:
    """Where WEIGHTS_DATA begins in the file, from the sizes of the partitions before it."""
    return _data_offset(len(sizes)) + sum(sizes[p] for p in ORDER[: ORDER.index(Partition.WEIGHTS_DATA)])


Sign: TypeAlias = Callable[[bytes], bytes]  # the payload of SIGNATURE for a SHA-256


def reseal(package: bytes, sign: Sign | None = None) -> bytes:
    """`package` with checksums that fit its bytes, whatever they are; with `sign`, its signature is replaced."""
    if len(package) < HEADER_BYTES:
        return package

    def read(first: int, end: int) -> list[Buffer]:
        return [memoryview(package)[first:end]]

    if sign is not None:
        package = package[:-SIGNATURE_BYTES] + sign(_sha256(read, len(package)))
    return _sealed(read, len(package)) + package[HEADER_BYTES:]


def seal_file(fd: int, sign: Sign | None = None) -> None:
    """Set the checksums of a package file that is complete but for them, and the signature; it is read in pieces."""

    def read(first: int, end: int) -> Iterator[bytes]:
        while first < end and (chunk := os.pread(fd, min(_READ_BYTES, end - first), first)):
            yield chunk
            first += len(chunk)

    size = os.fstat(fd).st_size
    if sign is not None:
        os.pwrite(fd, sign(_sha256(read, size)), size - SIGNATURE_BYTES)
    os.pwrite(fd, _sealed(read, size), 0)


def _claimed(partition: Partition, head: bytes, size: int) -> tuple[int, int]:
    """Begin and end of a partition by a table that is not checked yet; without an entry, twice the file's end."""
    if len(head) < HEADER_BYTES + _TABLE_HEAD.size:
        return size, size
    count = min(_TABLE_HEAD.unpack_from(head, HEADER_BYTES)[0], len(SIGNED_ORDER))
    table = head[HEADER_BYTES + _TABLE_HEAD.size : _data_offset(count)]
    for kind, _, offset, length in _TABLE_ENTRY.iter_unpack(
        table[: len(table) // _TABLE_ENTRY.size * _TABLE_ENTRY.size]
    ):
        if kind == partition:
            first = min(_data_offset(count) + offset, size)
            return first, min(first + length, size)
    return size, size


def _pack_header(name: str, platform_version: str, model_length: int, *, dynamic: bool) -> bytes:
    return _HEADER.pack(
        MAGIC, HEADER_BYTES, VERSION, bytes(CHECKSUM_BYTES), 0,
        0, 0, 0, 0,  # not encrypted, checksum counts, IR model, offline
        _text(name, 31), 0, bytes(32), OM_IR_VERSION, 1, _text(platform_version, 19),
        0, bytes(3), model_length, 0, dynamic, bytes(62),
    )  # fmt: skip


def _text(text: str, limit: int) -> bytes:
    """UTF-8 without control characters, cut at a character."""
    clean = "".join(c if c.isprintable() else "_" for c in text).encode(errors="replace")
    return clean[:limit].decode(errors="ignore").encode()


def _pack_table(sizes: Mapping[Partition, int], order: Sequence[Partition]) -> bytes:
    table = _TABLE_HEAD.pack(len(order), 0)
    offset = 0
    for partition in order:
        table += _TABLE_ENTRY.pack(partition, 0, offset, sizes[partition])
        offset += sizes[partition]
    return table


# ---- checksums


_Read = Callable[[int, int], Iterable[Buffer]]  # the bytes from the first offset up to the second, in chunks


def _sealed(read: _Read, size: int) -> bytes:
    """The header with its checksum field set for the file of `size` bytes that `read` reads."""
    head = _head(read, size)
    first, end = _claimed(Partition.WEIGHTS_DATA, head, size)
    blank = _with_checksum(head, bytes(CHECKSUM_BYTES))
    field = bytearray(CHECKSUM_BYTES)
    field[_SHA256] = _sha256(read, size)
    field[_XXH64] = _feed(xxhash.xxh3_64(), [blank], read(HEADER_BYTES, first), read(end, size))
    field[_XXH128] = _feed(xxhash.xxh3_128(), [_with_checksum(head, bytes(field))], read(HEADER_BYTES, size))
    return _with_checksum(head, bytes(field))


def _sha256(read: _Read, size: int) -> bytes:
    """SHA-256 of a file but for its checksum field and the payload of its signature."""
    import hashlib  # it loads OpenSSL, which running a package does not need

    head = _head(read, size)
    first, end = _claimed(Partition.SIGNATURE, head, size)
    blank = _with_checksum(head, bytes(CHECKSUM_BYTES))
    return _feed(hashlib.sha256(), [blank], read(HEADER_BYTES, first), read(end, size))


def _head(read: _Read, size: int) -> bytes:
    """The header and the longest table that there can be."""
    return b"".join(bytes(b) for b in read(0, min(HEADER_BYTES + _LARGEST_TABLE_BYTES, size)))


def _with_checksum(header: Buffer, field: bytes) -> bytes:
    return bytes(header[:CHECKSUM_OFFSET]) + field + bytes(header[CHECKSUM_OFFSET + CHECKSUM_BYTES : HEADER_BYTES])


class _Hash(Protocol):
    def update(self, data: Buffer, /) -> None: ...
    def digest(self) -> bytes: ...


def _feed(state: _Hash, *runs: Iterable[Buffer]) -> bytes:
    for run in runs:
        for buffer in run:
            state.update(buffer)
    return state.digest()


# ---- reading


def open_container(
    path: str | os.PathLike[str],
    *,
    mmap: bool = True,
    verify: Verify = Verify.FULL,
    signers: Sequence[PublicKey] = (),
) -> Container:
    """Open the package at `path`: mapped read-only and private, or read into memory with `mmap=False`. If there are
    `signers`, one of them must have signed it, and it is read into memory: what was checked is what runs, also where
    somebody writes to the file meanwhile.

    What is cut off a mapped file, or written over it, is noticed by `Container.check_unchanged`.
    """
    source = os.fspath(path)
    mapped: PackageFile | None = None
    try:
        with open_file(source) as file:
            size = os.fstat(file.fileno()).st_size
            if mmap and not signers and size >= HEADER_BYTES:
                mapped = PackageFile(file.fileno(), size, source)
                buffer = memoryview(mapped)
            else:
                buffer = memoryview(file.read(size))
    except (IsADirectoryError, NotOrdinaryError):
        raise _no_package(source, "it is not a regular file") from None
    except OSError as error:
        raise_os_error(error, source)
    return parse(buffer, source=source, verify=verify, signers=signers, file=mapped, path=source)


class PackageFile(_kernels.MappedFile):
    """The file of a package that is mapped."""

    def __init__(self, descriptor: int, size: int, source: str) -> None:
        super().__init__(descriptor, size)
        self._source = source
        note_mapped_file(self)

    def check_unchanged(self) -> None:
        """Refuse a package that was written to or cut short since it was opened, also if it is the same again."""
        if self.has_changed():
            what = f"{self._source} was written to or cut short while it was in use"
            raise PackageCorrupt("P0009", what, where=Where(file=self._source), hint=CODES["P0009"].help)


def parse(
    package: Buffer,
    *,
    source: str = "package",
    verify: Verify = Verify.FULL,
    signers: Sequence[PublicKey] = (),
    file: PackageFile | None = None,
    path: str | None = None,
) -> Container:
    """Check header, table, checksum and, for `signers`, the signature of `package`; failures are `PackageCorrupt`.
    `file`: where the bytes are mapped; `path`: that of the file that they are from.
    """
    buffer = memoryview(package).toreadonly().cast("B")
    _check_size_and_magic(buffer, source)
    name, platform_version, dynamic = _check_header(buffer, source)
    extents = _check_table(buffer, source)
    container = Container(source, name, platform_version, dynamic, extents, buffer, file, path)
    _check_checksum(container, verify)
    if signers:
        container.check_signer(signers)
    return container


def _no_package(source: str, why: str) -> PackageCorrupt:
    what = f"{source} is not an atcpy package: {why}"
    return PackageCorrupt("P0001", what, where=Where(file=source, offset=0), hint=CODES["P0001"].help)


def _check_size_and_magic(buffer: memoryview, source: str) -> None:
    size = len(buffer)
    if size == 0:
        raise _no_package(source, "it is empty")
    if bytes(buffer[: len(MAGIC_BYTES)]) != MAGIC_BYTES[:size]:
        raise _no_package(source, f"it does not begin with {MAGIC_BYTES.decode()}")
    if size < HEADER_BYTES + TABLE_BYTES:
        what = f"the file ends after {size} bytes, header and table need {HEADER_BYTES + TABLE_BYTES}"
        raise corrupt("P0004", source, size, "header", what)


def _check_header(buffer: memoryview, source: str) -> tuple[str, str, bool]:
    (
     _, headsize, version, checksum, length, encrypted, unchecked, kind, genmode, name, ops, user, ir_version, models,
     platform, platform_type, pad, model_length, os_check, unknown_shape, reserved,
    ) = _HEADER.unpack_from(buffer)  # fmt: skip
    if not any(checksum):
        raise _no_package(source, "it has no checksum; packages of CANN hold kernels for another chip")
    if version > VERSION:
        raise corrupt("P0002", source, 8, "header", f"format version 0x{version:x} is newer than 0x{VERSION:x}")
    if ir_version > OM_IR_VERSION:
        raise corrupt("P0002", source, 152, "header", f"IR version {ir_version} is newer than {OM_IR_VERSION}")
    facts = (
        (4, headsize == HEADER_BYTES, f"header size is {headsize}, not {HEADER_BYTES}"),
        (8, version == VERSION, f"format version is 0x{version:x}, not 0x{VERSION:x}"),
        (CHECKSUM_OFFSET + _CHECKSUM_ZERO.start, not any(checksum[_CHECKSUM_ZERO]), "reserved bytes are not zero"),
        (76, length == 0, f"old length field is {length}, not 0"),
        (80, (encrypted, unchecked, kind, genmode) == (0, 0, 0, 0), "encrypted, unchecked or of another model type"),
        (116, ops == 0 and not any(user), "reserved fields are not zero"),
        (152, ir_version == OM_IR_VERSION, f"IR version is {ir_version}, not {OM_IR_VERSION}"),
        (156, models == 1, f"{models} models in the file, not 1"),
        (180, platform_type == 0 and not any(pad), "reserved fields are not zero"),
        (192, os_check == 0 and unknown_shape <= 1 and not any(reserved), "reserved fields are not zero"),
    )  # fmt: skip
    for offset, holds, what in facts:
        if not holds:
            raise corrupt("P0005", source, offset, "header", what)
    actual = len(buffer) - HEADER_BYTES
    if model_length != actual:
        code = "P0004" if model_length > actual else "P0005"
        raise corrupt(code, source, 184, "header", f"{model_length} bytes must follow the header, {actual} are there")
    return _c_string(name, source, 84), _c_string(platform, source, 160), bool(unknown_shape)


def _c_string(field: bytes, source: str, offset: int) -> str:
    text, _, rest = field.partition(b"\0")
    try:
        decoded = text.decode()
    except UnicodeDecodeError:
        decoded = None
    if decoded is None or any(rest) or len(text) == len(field):
        raise corrupt("P0005", source, offset, "header", "text is not UTF-8 with zeros behind it")
    return decoded


def _check_table(buffer: memoryview, source: str) -> tuple[Extent, ...]:
    count, zero = _TABLE_HEAD.unpack_from(buffer, HEADER_BYTES)
    if count not in (len(ORDER), len(SIGNED_ORDER)) or zero != 0:
        what = f"{count} partitions, not {len(ORDER)}, or with a signature {len(SIGNED_ORDER)}"
        raise corrupt("P0005", source, HEADER_BYTES, "partition table", what)
    if len(buffer) < _data_offset(count):
        what = f"the file ends after {len(buffer)} bytes, header and table need {_data_offset(count)}"
        raise corrupt("P0004", source, len(buffer), "header", what)
    extents = []
    expected = 0
    left = len(buffer) - _data_offset(count)
    for i, partition in enumerate(SIGNED_ORDER[:count]):
        at = HEADER_BYTES + _TABLE_HEAD.size + i * _TABLE_ENTRY.size
        kind, zero, offset, size = _TABLE_ENTRY.unpack_from(buffer, at)
        if kind != partition or zero != 0:
            what = f"entry {i} is of type {kind}, not {partition} ({partition.name})"
            raise corrupt("P0005", source, at, "partition table", what)
        if offset != expected:
            what = f"offset {offset} leaves a gap or an overlap, must be {expected}"
            raise corrupt("P0005", source, at + 8, partition.name, what)
        if not 0 < size <= left - expected:
            raise corrupt("P0005", source, at + 16, partition.name, f"size {size} is outside 1..{left - expected}")
        if partition is Partition.SIGNATURE and size != SIGNATURE_BYTES:
            raise corrupt("P0005", source, at + 16, partition.name, f"size {size} is not {SIGNATURE_BYTES}")
        extents.append(Extent(partition, _data_offset(count) + offset, size))
        expected += size
    if expected != left:
        what = f"{left - expected} bytes after the last partition"
        raise corrupt("P0005", source, HEADER_BYTES, "partition table", what)
    weights = extents[ORDER.index(Partition.WEIGHTS_DATA)]
    if weights.offset % WEIGHTS_ALIGN:
        raise corrupt("P0005", source, weights.offset, "WEIGHTS_DATA", f"begins at no multiple of {WEIGHTS_ALIGN}")
    return tuple(extents)


def _check_checksum(container: Container, verify: Verify) -> None:
    """Compare XXH3-128 of the file, or XXH3-64 of all but the weights, which also shows which part is damaged."""
    buffer, source = container.buffer, container.source
    header = bytes(buffer[:HEADER_BYTES])
    stored = header[CHECKSUM_OFFSET : CHECKSUM_OFFSET + CHECKSUM_BYTES]
    if verify is Verify.FULL:
        unsealed = _with_checksum(header, bytes(16) + stored[16:])
        if _feed(xxhash.xxh3_128(), [unsealed, buffer[HEADER_BYTES:]]) == stored[_XXH128]:
            return
    weights = container.extent(Partition.WEIGHTS_DATA)
    blank = _with_checksum(header, bytes(CHECKSUM_BYTES))
    rest = [buffer[HEADER_BYTES : weights.offset], buffer[weights.offset + weights.size :]]
    if _feed(xxhash.xxh3_64(), [blank, *rest]) != stored[_XXH64]:
        what = "header, graph or tasks are not as they were written: wrong checksum"
        raise corrupt("P0003", source, CHECKSUM_OFFSET, "header", what)
    if verify is Verify.FULL:
        what = "the weights are not as they were written: wrong checksum"
        raise corrupt("P0003", source, weights.offset, "WEIGHTS_DATA", what)
