"""TensorFlow's tables: sorted keys and values in blocks, as LevelDB lays them out, each block with a checksum.

data blocks, index block (last key of a data block → where it lies), footer (where the index block lies)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import google_crc32c
import numpy as np

from atcpy.errors import ModelInvalid, Unsupported, Where

MAGIC: Final = 0xDB4775248B80FB57
_FOOTER_BYTES: Final = 48
_TRAILER_BYTES: Final = 5  # behind a block: its compression, and its checksum
_MAX_KEY_BYTES: Final = 1 << 14
_MAX_GROWTH: Final = 32  # of the keys, which are stored without what they share with the one before
_VARINT_BYTES: Final = 10


def masked_crc32c(*parts: memoryview | bytes) -> int:
    """The checksum of these bytes as files of TensorFlow hold it."""
    crc = 0
    for part in parts:
        content: Any = np.frombuffer(part, np.uint8) if len(part) else b""
        crc = google_crc32c.extend(crc, content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def read_varint(data: memoryview | bytes, at: int) -> tuple[int, int]:
    """(the number at `at`, where the next byte is); ValueError if it does not end."""
    value = 0
    for index in range(_VARINT_BYTES):
        byte = data[at + index] if at + index < len(data) else -1
        if byte < 0:
            break
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise ValueError("a number does not end")


def is_table(data: memoryview) -> bool:
    """Does it end as a table does?"""
    return len(data) >= _FOOTER_BYTES and data[-8:] == MAGIC.to_bytes(8, "little")


def read_table(data: memoryview, file: str) -> dict[bytes, bytes]:
    """The values by their keys. Raises ModelInvalid if anything is not as a table must be, before memory is taken for
    it; Unsupported for compressed blocks.
    """
    return _Table(data, file).read()


class _Table:
    def __init__(self, data: memoryview, file: str) -> None:
        self._data = data
        self._file = file
        self._key_bytes = 0

    def read(self) -> dict[bytes, bytes]:
        if not is_table(self._data):
            self._damaged("it does not end as a checkpoint's index does: the copy is incomplete")
        try:
            return self._read()
        except ValueError as error:
            self._damaged(str(error))

    def _read(self) -> dict[bytes, bytes]:
        end = len(self._data) - _FOOTER_BYTES
        footer = self._data[end:]
        _, at = read_varint(footer, read_varint(footer, 0)[1])  # the meta index, which nobody needs
        offset, size, _ = self._handle(footer, at)
        entries: dict[bytes, bytes] = {}
        last, done = b"", 0
        for _, handle in self._entries(self._block(offset, size, end)):
            start, length, _ = self._handle(handle, 0)
            if start < done:
                raise ValueError("two of its blocks lie in the same place")
            done = start + length
            for key, value in self._entries(self._block(start, length, end)):
                if entries and key <= last:
                    raise ValueError("its keys are not in order")
                entries[key] = value
                last = key
        return entries

    def _handle(self, data: memoryview | bytes, at: int) -> tuple[int, int, int]:
        offset, at = read_varint(data, at)
        size, at = read_varint(data, at)
        return offset, size, at

    def _block(self, offset: int, size: int, end: int) -> bytes:
        if offset + size + _TRAILER_BYTES > end:
            raise ValueError("a block reaches beyond its end")
        whole = self._data[offset : offset + size + 1]
        (crc,) = struct.unpack_from("<I", self._data, offset + size + 1)
        if crc != masked_crc32c(whole):
            raise ValueError(f"the checksum of the block at byte {offset} is wrong")
        if whole[-1] == 1:
            hint = "write the checkpoint with TensorFlow 2, which does not compress it"
            raise Unsupported("E10055", "the index is compressed with Snappy", where=self._where(), hint=hint)
        if whole[-1]:
            raise ValueError(f"a block is compressed in the unknown way {whole[-1]}")
        return bytes(whole[:-1])

    def _entries(self, block: bytes) -> Iterator[tuple[bytes, bytes]]:
        if len(block) < 4:
            raise ValueError("a block is too short")
        (restarts,) = struct.unpack_from("<I", block, len(block) - 4)
        end = len(block) - 4 - 4 * restarts
        if end < 0:
            raise ValueError("a block has more restarts than bytes")
        at, key = 0, b""
        while at < end:
            shared, own, size = block[at : at + 3].ljust(3, b"\xff")
            if (shared | own | size) < 0x80:
                at += 3
            else:
                shared, at = read_varint(block, at)
                own, at = read_varint(block, at)
                size, at = read_varint(block, at)
            if shared > len(key) or at + own + size > end:
                raise ValueError("an entry reaches beyond its block")
            key = key[:shared] + block[at : at + own]
            self._count(len(key))
            at += own
            yield key, block[at : at + size]
            at += size

    def _count(self, key_bytes: int) -> None:
        self._key_bytes += key_bytes
        if key_bytes > _MAX_KEY_BYTES or self._key_bytes > _MAX_GROWTH * len(self._data):
            raise ValueError("its keys are longer than names can be")

    def _where(self) -> Where:
        return Where(file=self._file)

    def _damaged(self, what: str) -> NoReturn:
        hint = "copy the checkpoint again, whole"
        raise ModelInvalid("E13015", f"the index is damaged: {what}", where=self._where(), hint=hint)
