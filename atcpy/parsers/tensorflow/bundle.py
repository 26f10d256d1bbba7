"""Checkpoints of version 2: `P.index`, a table of what there is, and the elements in `P.data-00000-of-00002`, ….

Elements stay in the mapped files: an array is a view of them. Only a variable that was saved in parts and is read as a
whole is assembled in memory.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
from google.protobuf.message import DecodeError

from atcpy.errors import AtcError, ModelInvalid, Unsupported, Where, did_you_mean, raise_os_error
from atcpy.ir import DType, Tensor
from atcpy.ir.shape import StaticShape, fits_limits
from atcpy.ir.tensor import Array
from atcpy.parsers.files import map_inside
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import BundleEntryProto, BundleHeaderProto
from atcpy.parsers.tensorflow.table import masked_crc32c, read_table, read_varint
from atcpy.parsers.tensorflow.tensors import find_dtype, read_shape, type_name

INDEX: Final = ".index"
MAX_PARTS: Final = 4096  # of one variable
_VERSION: Final = 1  # of the format that is understood here
_WHOLE: Final = -1  # the length of a slice that is all of a dim
_WIDE: Final = 2**32  # from here on, lengths of strings have 8 bytes in their checksum


@dataclass(frozen=True, slots=True)
class Slice:
    """A box in a tensor: where it starts and how long it is along each dim."""

    starts: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def slices(self) -> tuple[slice, ...]:
        """The same for numpy."""
        return tuple(slice(start, start + size) for start, size in zip(self.starts, self.sizes, strict=True))

    def inside(self, shape: StaticShape) -> bool:
        """Does it lie in a tensor of this shape?"""
        return len(self.sizes) == len(shape) and all(
            start >= 0 and size >= 0 and start + size <= dim
            for start, size, dim in zip(self.starts, self.sizes, shape, strict=True)
        )

    def common(self, other: Slice) -> Slice | None:
        """What lies in both; None if nothing does."""
        starts = tuple(map(max, self.starts, other.starts))
        ends = [
            min(a + n, b + m) for a, n, b, m in zip(self.starts, self.sizes, other.starts, other.sizes, strict=True)
        ]
        sizes = tuple(end - start for start, end in zip(starts, ends, strict=True))
        return Slice(starts, sizes) if all(size > 0 for size in sizes) else None

    def seen_from(self, starts: Sequence[int]) -> tuple[slice, ...]:
        """The same in an array that begins at `starts`."""
        return Slice(tuple(a - b for a, b in zip(self.starts, starts, strict=True)), self.sizes).slices


def map_part(root: Path, name: str, *, allow_hardlinks: bool) -> memoryview:
    """Return the bytes of a file that belongs to the model in the folder `root`; FileNotFoundError if it is missing."""
    path = Path(name)
    found: memoryview | str
    try:
        found = "it leads out of the folder"
        if path.is_relative_to(root):
            found = map_inside(root, path.relative_to(root).parts, allow_hardlinks=allow_hardlinks)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise_os_error(error, name)
    if isinstance(found, str):
        hint = "--allow-hardlinks" if "hard links" in found else f"copy the files themselves: cp -rL {root}"
        raise ModelInvalid("E13015", f"{name} is refused: {found}", where=Where(file=name), hint=hint)
    return found


class Checkpoint:
    """A checkpoint by its prefix. Its files lie in the folder `root`, which the user named, or in one inside it."""

    def __init__(self, prefix: Path, root: Path | None = None, *, allow_hardlinks: bool = False) -> None:
        self.prefix = prefix
        self.file = f"{prefix}{INDEX}"
        self._root = root or prefix.parent
        self._allow_hardlinks = allow_hardlinks
        self._table = read_table(self._part(self.file), self.file)
        self._shards: dict[int, memoryview] = {}
        self._parts: dict[str, Mapping[Slice, bytes]] = {}  # of the tensors that were saved in parts
        header = self._parse(BundleHeaderProto, b"", Where(file=self.file))
        if header.endianness != 0:
            raise Unsupported("E10055", "the checkpoint is of a big-endian machine", where=Where(file=self.file))
        if header.version.min_consumer > _VERSION:
            what = f"the checkpoint is of version {header.version.min_consumer}, {_VERSION} is the newest known"
            raise Unsupported("E10055", what, where=Where(file=self.file))
        self._shard_count = header.num_shards

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The keys of whole tensors."""
        return tuple(key.decode("utf-8", "surrogateescape") for key in self._table if key and key[0])

    def __contains__(self, key: str) -> bool:
        return bool(key) and _key_bytes(key) in self._table

    def tensor(self, key: str, box: Slice | None = None, where: Where = Where()) -> Tensor:  # noqa: B008
        """The tensor under a key, or the box in it. Its elements are checked now and read when they are asked for.

        Raises ModelInvalid that names key and file.
        """
        location = where.filled(file=self.file)
        if key not in self:
            hint = did_you_mean(key, self.keys) or "is it the checkpoint of this graph?"
            raise ModelInvalid("E12009", f'the checkpoint has no "{key}"', where=location, hint=hint)
        try:
            return self._tensor(key, box, location)
        except AtcError as error:
            raise error.located(file=self.file) from error.__cause__

    def _tensor(self, key: str, box: Slice | None, where: Where) -> Tensor:
        entry = self._parse(BundleEntryProto, _key_bytes(key), where)
        dtype, shape = self._type(key, entry, where)
        if box is not None and not box.inside(shape):
            what = f'"{key}" {list(shape)} does not hold the slice {list(box.sizes)} from {list(box.starts)}'
            raise ModelInvalid("E13014", what, where=where)
        if not entry.slices:
            whole = self._read(key, entry, dtype, shape, where)
            return whole if box is None else _cut(whole, box.slices, box.sizes)
        if key not in self._parts:
            self._parts[key] = self._find_parts(key, entry, shape, where)
        parts = self._parts[key]
        requested = box or Slice((0,) * len(shape), shape)
        if requested in parts:
            return self._read_part(key, requested, dtype, where)
        needed = [part for part in parts if requested.common(part) is not None]
        return _assembled(dtype, requested, [(part, self._read_part(key, part, dtype, where)) for part in needed])

    def _type(self, key: str, entry: BundleEntryProto, where: Where) -> tuple[DType, StaticShape]:
        dtype = find_dtype(entry.dtype)
        if dtype is None:
            raise Unsupported("E10055", f'"{key}" is of type {type_name(entry.dtype)}', where=where)
        shape = read_shape(entry.shape)
        if shape is None or not fits_limits(shape) or any(size < 0 for size in shape):
            self._damaged(f'"{key}" has the shape {shape}', where)
        return dtype, shape

    def _read(self, key: str, entry: BundleEntryProto, dtype: DType, shape: StaticShape, where: Where) -> Tensor:
        count = math.prod(shape)
        content = self._content(key, entry, where)
        if dtype is DType.STRING:
            return Tensor.of(self._strings(key, entry, content, count, where).reshape(shape), dtype)
        item = dtype.numpy.itemsize
        if len(content) != count * item:
            what = f'"{key}" has {len(content)} bytes, {dtype.long}{list(shape)} needs {count * item}'
            self._damaged(what, where)
        if masked_crc32c(content) != entry.crc32c:
            self._damaged(f'the checksum of "{key}" is wrong', where)
        aligned = entry.offset % item == 0
        return Tensor(dtype, shape, lambda: _view(content, dtype, shape, aligned))

    def _content(self, key: str, entry: BundleEntryProto, where: Where) -> memoryview:
        if not 0 <= entry.shard_id < max(self._shard_count, 1):
            self._damaged(f'"{key}" is in part {entry.shard_id} of {self._shard_count}', where)
        shard = self._shard(entry.shard_id, key, where)
        if entry.offset < 0 or entry.size < 0 or entry.offset + entry.size > len(shard):
            name = os.path.basename(self._shard_name(entry.shard_id))
            what = f'"{key}" is bytes {entry.offset} to {entry.offset + entry.size} of {name}, which has {len(shard)}'
            self._damaged(what, where)
        return shard[entry.offset : entry.offset + entry.size]

    def _shard_name(self, number: int) -> str:
        return f"{self.prefix}.data-{number:05}-of-{self._shard_count:05}"

    def _shard(self, number: int, key: str, where: Where) -> memoryview:
        if number not in self._shards:
            name = self._shard_name(number)
            try:
                self._shards[number] = self._part(name)
            except FileNotFoundError:
                what = f'{os.path.basename(name)} is missing, which "{key}" is in'
                raise ModelInvalid("E13015", what, where=where, hint="copy all parts of the checkpoint") from None
        return self._shards[number]

    def _part(self, name: str) -> memoryview:
        return map_part(self._root, name, allow_hardlinks=self._allow_hardlinks)

    def _strings(self, key: str, entry: BundleEntryProto, content: memoryview, count: int, where: Where) -> Array:
        """The lengths, their checksum, and the texts one after the other."""
        if count > len(content):
            self._damaged(f'"{key}" has {len(content)} bytes for {count} texts', where)
        lengths, at = [], 0
        try:
            for _ in range(count):
                length, at = read_varint(content, at)
                lengths.append(length)
        except ValueError as error:
            self._damaged(f'"{key}": {error}', where)
        widened = b"".join(n.to_bytes(4 if n < _WIDE else 8, "little") for n in lengths)
        at += 4
        if at + sum(lengths) != len(content):
            self._damaged(f'the texts of "{key}" do not fill its {len(content)} bytes', where)
        check = content[at - 4 : at]
        if int.from_bytes(check, "little") != masked_crc32c(widened) or entry.crc32c != masked_crc32c(
            widened, check, content[at:]
        ):
            self._damaged(f'the checksum of "{key}" is wrong', where)
        texts = np.empty(count, np.object_)
        for index, length in enumerate(lengths):
            texts[index] = bytes(content[at : at + length]).decode("utf-8", "surrogateescape")
            at += length
        return texts

    def _find_parts(self, key: str, entry: BundleEntryProto, shape: StaticShape, where: Where) -> Mapping[Slice, bytes]:
        """Where in the tensor each of its parts lies, and the part's key."""
        boxes = [_box(proto, shape) for proto in entry.slices[: MAX_PARTS + 1]]
        good = len(boxes) <= MAX_PARTS and all(len(b.starts) == len(shape) and b.inside(shape) for b in boxes)
        if not good or sum(math.prod(b.sizes) for b in boxes) != math.prod(shape):
            self._damaged(f'the parts of "{key}" do not make {list(shape)}', where)
        return {
            box: _part_key(key, [(e.start, e.length if e.HasField("length") else _WHOLE) for e in proto.extent])
            for proto, box in zip(entry.slices, boxes, strict=True)
        }

    def _read_part(self, key: str, box: Slice, dtype: DType, where: Where) -> Tensor:
        name = self._parts[key][box]
        if name not in self._table:
            raise ModelInvalid("E12009", f'the part {list(box.starts)} of "{key}" is missing', where=where)
        part = self._parse(BundleEntryProto, name, where)
        if self._type(key, part, where) != (dtype, box.sizes):
            self._damaged(f'the part {list(box.starts)} of "{key}" has another type than it', where)
        return self._read(key, part, dtype, box.sizes, where)

    def _parse(self, kind: Any, key: bytes, where: Where) -> Any:
        content = self._table.get(key)
        if content is None:
            self._damaged("it has no header", where)
        try:
            return kind.FromString(content)
        except DecodeError:
            self._damaged(f'the entry "{key.decode("utf-8", "backslashreplace")}" cannot be read', where)

    def _damaged(self, what: str, where: Where) -> NoReturn:
        hint = "copy the checkpoint again, whole"
        raise ModelInvalid("E13015", f"the checkpoint is damaged: {what}", where=where, hint=hint)


def _view(content: memoryview, dtype: DType, shape: StaticShape, aligned: bool) -> Array:
    little = dtype.numpy.newbyteorder("<") if dtype.numpy.kind in "iufc" else dtype.numpy
    array = np.frombuffer(content, little).reshape(shape)
    return array if aligned else array.copy()


def _cut(whole: Tensor, slices: tuple[slice, ...], sizes: StaticShape) -> Tensor:
    return Tensor(whole.dtype, sizes, lambda: whole.array[slices])


def _assembled(dtype: DType, requested: Slice, parts: Sequence[tuple[Slice, Tensor]]) -> Tensor:
    def read() -> Array:
        whole = np.zeros(requested.sizes, dtype.numpy)
        for part, tensor in parts:
            both = requested.common(part)
            if both is not None:
                whole[both.seen_from(requested.starts)] = tensor.array[both.seen_from(part.starts)]
        return whole

    return Tensor(dtype, requested.sizes, read)


def _box(proto: Any, shape: StaticShape) -> Slice:
    if len(proto.extent) != len(shape):
        return Slice((), ())
    starts = tuple(extent.start for extent in proto.extent)
    sizes = tuple(e.length if e.HasField("length") else size for e, size in zip(proto.extent, shape, strict=True))
    return Slice(starts, sizes)


# --- keys: a plain name, or a part's in a code whose order is that of what it says -----------------------------------


def _key_bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")


def _part_key(key: str, extents: Sequence[tuple[int, int]]) -> bytes:
    """\\0, the name, the number of dims, and the start and length along each."""
    name = re.sub(rb"[\0\xff]", lambda found: found[0] + bytes([found[0][0] ^ 0xFF]), _key_bytes(key))
    numbers = b"".join(_ordered(start) + _ordered(length) for start, length in extents)
    return b"\0" + name + b"\0\1" + bytes([1, len(extents)]) + numbers


def _ordered(number: int) -> bytes:
    """As many leading ones as there are bytes, then the number; all bits but the first turned where it is negative."""
    size = next(n for n in range(1, 11) if -(1 << (7 * n - 1)) <= number < 1 << (7 * n - 1))
    return ((number % (1 << 8 * size)) ^ (((1 << size) - 1) << 7 * size)).to_bytes(size, "big")
