"""MODEL_INOUT_INFO: names, types and shapes of the model's inputs and outputs, as blocks of (type, length, value).

    block   u32 type (0 inputs, 1 outputs), u32 length, value
    value   u32 count, then per tensor u64 size, u32 format, u32 dtype, u32 × 4 lengths in bytes of what follows:
            name, dims int64[], dims int64[] (again, before gears), shape range (int64 low, int64 high)[]

Formats and element types are GE's numbers (`ge::DataType`). A dim that varies is -1.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from atcpy.errors import PackageCorrupt
from atcpy.om.container import corrupt

_BLOCK = struct.Struct("<II")
_COUNT = struct.Struct("<I")
_TENSOR = struct.Struct("<QIIIIII")
_INPUTS, _OUTPUTS = 0, 1
_PART = "MODEL_INOUT_INFO"


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """An input or output of the whole model, as in MODEL_INOUT_INFO."""

    name: str
    nbytes: int
    format: int
    dtype: int
    dims: tuple[int, ...]
    origin_dims: tuple[int, ...]
    shape_range: tuple[tuple[int, int], ...] = ()


def encode(inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> bytes:
    """The partition; a block without tensors is left out, as GE does, except that outputs are always there."""
    blocks = [(_INPUTS, inputs)] if inputs else []
    blocks.append((_OUTPUTS, outputs))
    values = [(kind, _COUNT.pack(len(infos)) + b"".join(map(_encode_tensor, infos))) for kind, infos in blocks]
    return b"".join(_BLOCK.pack(kind, len(value)) + value for kind, value in values)


def _encode_tensor(info: TensorInfo) -> bytes:
    name = info.name.encode()
    dims, origin = (struct.pack(f"<{len(d)}q", *d) for d in (info.dims, info.origin_dims))
    ranges = b"".join(struct.pack("<qq", low, high) for low, high in info.shape_range)
    lengths = (len(name), len(dims), len(origin), len(ranges))
    return _TENSOR.pack(info.nbytes, info.format, info.dtype, *lengths) + name + dims + origin + ranges


def decode(payload: memoryview, *, source: str, offset: int) -> tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
    """(inputs, outputs) of the partition that begins at `offset` of the file `source`."""
    cursor = _Cursor(payload, source, offset)
    found: dict[int, tuple[TensorInfo, ...]] = {}
    while cursor.left:
        kind, length = cursor.unpack(_BLOCK)
        if kind not in (_INPUTS, _OUTPUTS) or kind in found:
            raise cursor.error(f"block of type {kind} is unknown or repeated")
        block = cursor.nested(length)
        (count,) = block.unpack(_COUNT)
        if count > block.left // _TENSOR.size:
            raise block.error(f"{count} tensors do not fit into {block.left} bytes")
        found[kind] = tuple(_decode_tensor(block) for _ in range(count))
        if block.left:
            raise block.error(f"{block.left} bytes after the last tensor")
    return found.get(_INPUTS, ()), found.get(_OUTPUTS, ())


def _decode_tensor(cursor: "_Cursor") -> TensorInfo:
    nbytes, form, dtype, *lengths = cursor.unpack(_TENSOR)
    if lengths[1] % 8 or lengths[2] % 8 or lengths[3] % 16:
        raise cursor.error(f"lengths {lengths} of dims are no multiple of their items")
    try:
        name = bytes(cursor.take(lengths[0])).decode()
    except UnicodeDecodeError:
        raise cursor.error("a name is not UTF-8") from None
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

    def nested(self, length: int) -> "_Cursor":
        start = self._offset + self._at
        return _Cursor(self.take(length), self._source, start)

    def error(self, what: str) -> PackageCorrupt:
        return corrupt("P0005", self._source, self._offset + self._at, _PART, what)
