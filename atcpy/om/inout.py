"""MODEL_INOUT_INFO: names, types and shapes of the model's inputs and outputs, as blocks of (type, length, value).

    block   u32 type, u32 length, value
    0, 1    inputs, outputs: u32 count, then per tensor u64 size, u32 format, u32 dtype, u32 × 4 lengths in bytes of
            what follows: name, dims int64[], dims int64[] (again, before gears), shape range (int64 low, high)[]
    2       gears that are batches: u32 count, u64[]
    3, 4    gears that are images or any dims: u32 count, u32[] lengths, then int64[] of each
    5, 6    shapes of the outputs by gear, names of the inputs in the order of the dims: u32 count, u32[] lengths, texts

Formats and element types are GE's numbers (`ge::DataType`). A dim that varies is -1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from atcpy.errors import PackageCorrupt
from atcpy.om.container import corrupt
from atcpy.sizes import MAX_DIM, GearKind, Gears

_BLOCK = struct.Struct("<II")
_COUNT = struct.Struct("<I")
_TENSOR = struct.Struct("<QIIIIII")
_INPUTS, _OUTPUTS = 0, 1
_GEARS = {2: GearKind.BATCH, 3: GearKind.IMAGE, 4: GearKind.DIMS}
_OUTPUT_SHAPES, _ORDER = 5, 6
_PART = "MODEL_INOUT_INFO"


class TensorInfo(NamedTuple):
    """An input or output of the whole model, as in MODEL_INOUT_INFO."""

    name: str
    nbytes: int
    format: int
    dtype: int
    dims: tuple[int, ...]
    origin_dims: tuple[int, ...]
    shape_range: tuple[tuple[int, int], ...] = ()


class GearInfo(NamedTuple):
    """The gears of a package: their sizes, the shapes of outputs as GE writes them, and the names of the inputs."""

    gears: Gears
    output_shapes: tuple[str, ...]
    order: tuple[str, ...]


class ModelInfo(NamedTuple):
    """The content of the partition."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    gears: GearInfo | None = None


def encode(inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo], gears: GearInfo | None = None) -> bytes:
    """The partition; a block without tensors is left out, as GE does, except that outputs are always there."""
    blocks = [(_INPUTS, inputs)] if inputs else []
    blocks.append((_OUTPUTS, outputs))
    values = [(kind, _COUNT.pack(len(infos)) + b"".join(map(_encode_tensor, infos))) for kind, infos in blocks]
    if gears is not None:
        values += _encode_gears(gears)
    return b"".join(_BLOCK.pack(kind, len(value)) + value for kind, value in values)


def _encode_gears(info: GearInfo) -> Iterator[tuple[int, bytes]]:
    kind, rows = info.gears.kind, info.gears.rows
    number = next(number for number, known in _GEARS.items() if known is kind)
    if kind is GearKind.BATCH:
        yield number, struct.pack(f"<I{len(rows)}Q", len(rows), *(row[0] for row in rows))
    else:
        items = [struct.pack(f"<{len(row)}q", *row) for row in rows]
        yield number, _encode_list([len(row) for row in rows], items)
    for block, texts in ((_OUTPUT_SHAPES, info.output_shapes), (_ORDER, info.order)):
        raw = [text.encode() for text in texts]
        yield block, _encode_list([len(text) for text in raw], raw)


def _encode_list(lengths: Sequence[int], items: Sequence[bytes]) -> bytes:
    return struct.pack(f"<{1 + len(lengths)}I", len(lengths), *lengths) + b"".join(items)


def _encode_tensor(info: TensorInfo) -> bytes:
    name = info.name.encode()
    dims, origin = (struct.pack(f"<{len(d)}q", *d) for d in (info.dims, info.origin_dims))
    ranges = b"".join(struct.pack("<qq", low, high) for low, high in info.shape_range)
    lengths = (len(name), len(dims), len(origin), len(ranges))
    return _TENSOR.pack(info.nbytes, info.format, info.dtype, *lengths) + name + dims + origin + ranges


def decode(payload: memoryview, *, source: str, offset: int) -> ModelInfo:
    """The content of the partition that begins at `offset` of the file `source`."""
    cursor = _Cursor(payload, source, offset)
    blocks: dict[int, _Cursor] = {}
    while cursor.left:
        kind, length = cursor.unpack(_BLOCK)
        if kind not in (_INPUTS, _OUTPUTS, *_GEARS, _OUTPUT_SHAPES, _ORDER) or kind in blocks:
            raise cursor.error(f"block of type {kind} is unknown or repeated")
        blocks[kind] = cursor.nested(length)
    inputs, outputs = (_decode_tensors(blocks.get(kind)) for kind in (_INPUTS, _OUTPUTS))
    kinds = [kind for kind in _GEARS if kind in blocks]
    if not kinds:
        return ModelInfo(inputs, outputs)
    if len(kinds) > 1:
        raise cursor.error("it has gears of two kinds")
    gears = _decode_gears(_GEARS[kinds[0]], blocks[kinds[0]])
    texts = (_decode_texts(blocks.get(block)) for block in (_OUTPUT_SHAPES, _ORDER))
    return ModelInfo(inputs, outputs, GearInfo(gears, *texts))


def _decode_tensors(block: _Cursor | None) -> tuple[TensorInfo, ...]:
    if block is None:
        return ()
    (count,) = block.unpack(_COUNT)
    if count > block.left // _TENSOR.size:
        raise block.error(f"{count} tensors do not fit into {block.left} bytes")
    infos = tuple(_decode_tensor(block) for _ in range(count))
    block.end()
    return infos


def _decode_gears(kind: GearKind, block: _Cursor) -> Gears:
    (count,) = block.unpack(_COUNT)
    rows: tuple[tuple[int, ...], ...]
    if kind is GearKind.BATCH:
        rows = tuple((size,) for size in block.numbers("Q", count))
    else:
        rows = tuple(block.numbers("q", length) for length in block.numbers("I", count))
    block.end()
    if not rows or not rows[0] or len({len(row) for row in rows}) > 1 or len({*rows}) < len(rows):
        raise block.error("its gears are not distinct rows of as many sizes each")
    if any(not 0 < size <= MAX_DIM for row in rows for size in row):
        raise block.error(f"a size of a gear is outside 1..{MAX_DIM}")
    return Gears(kind, rows)


def _decode_texts(block: _Cursor | None) -> tuple[str, ...]:
    if block is None:
        return ()
    (count,) = block.unpack(_COUNT)
    texts = tuple(block.text(length) for length in block.numbers("I", count))
    block.end()
    return texts


def _decode_tensor(cursor: _Cursor) -> TensorInfo:
    nbytes, form, dtype, *lengths = cursor.unpack(_TENSOR)
    if lengths[1] % 8 or lengths[2] % 8 or lengths[3] % 16:
        raise cursor.error(f"lengths {lengths} of dims are no multiple of their items")
    name = cursor.text(lengths[0])
    dims, origin, bounds = (struct.unpack(f"<{n // 8}q", cursor.take(n)) for n in lengths[1:])
    ranges = tuple(zip(bounds[::2], bounds[1::2], strict=True))
    return TensorInfo(name, nbytes, form, dtype, dims, origin, ranges)


class _Cursor:
    """Reads forward and refuses to leave its bytes."""

    def __init__(self, payload: memoryview, source: str, offset: int) -> None:
        self._payload = payload
        self._source = source
        self._offset = offset
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._payload) - self._at

    def take(self, length: int) -> memoryview:
        if length > self.left:
            raise self.error(f"{length} bytes are asked for, {self.left} are left")
        self._at += length
        return self._payload[self._at - length : self._at]

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        return layout.unpack(self.take(layout.size))

    def numbers(self, code: str, count: int) -> tuple[int, ...]:
        """`count` numbers of a type of `struct`."""
        return struct.unpack(f"<{count}{code}", self.take(count * struct.calcsize(f"<{code}")))

    def text(self, length: int) -> str:
        try:
            return bytes(self.take(length)).decode()
        except UnicodeDecodeError:
            raise self.error("a name is not UTF-8") from None

    def end(self) -> None:
        """Refuse bytes that are left."""
        if self.left:
            raise self.error(f"{self.left} bytes are left over")

    def nested(self, length: int) -> _Cursor:
        start = self._offset + self._at
        return _Cursor(self.take(length), self._source, start)

    def error(self, what: str) -> PackageCorrupt:
        return corrupt("P0005", self._source, self._offset + self._at, _PART, what)
