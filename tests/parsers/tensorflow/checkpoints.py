"""Writes checkpoints and SavedModels for tests, without TensorFlow."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import numpy.typing as npt

from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import (
    BundleEntryProto,
    BundleHeaderProto,
    DataType,
    MetaGraphDef,
    SavedModel,
    SignatureDef,
    TensorInfo,
    TensorSliceProto,
)
from tests.parsers.tensorflow.graphs import NUMBERS, TfBuilder, shape_proto

Array = npt.NDArray[Any]
Box = Sequence[tuple[int, int]]  # start and length along each dim


def masked(data: bytes) -> int:
    """The masked CRC-32C that TensorFlow writes."""
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(number: int) -> bytes:
    """Encode a number as a varint."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def block(entries: Sequence[tuple[bytes, bytes]]) -> bytes:
    """A block of entries with prefix-compressed keys and a restart point every 16 entries."""
    out, restarts, last = bytearray(), [], b""
    for index, (key, value) in enumerate(entries):
        shared = 0
        if index % 16 == 0:
            restarts.append(len(out))
        else:
            while shared < min(len(key), len(last)) and key[shared] == last[shared]:
                shared += 1
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        last = key
    return bytes(out) + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def table(entries: Mapping[bytes, bytes], per_block: int = 40, kind: int = 0) -> bytes:
    """A whole SSTable; `kind` is the declared compression of its blocks."""
    out, index = bytearray(), []

    def put(content: bytes) -> bytes:
        handle = varint(len(out)) + varint(len(content))
        content += bytes([kind])
        out.extend(content + struct.pack("<I", masked(content)))
        return handle

    ordered = sorted(entries.items())
    for at in range(0, len(ordered), per_block):
        part = ordered[at : at + per_block]
        index.append((part[-1][0], put(block(part))))
    handles = put(block([])) + put(block(index))
    return bytes(out) + handles.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


def ordered_number(number: int) -> bytes:
    """Encode a start or length of a part key, for numbers in 0..8191."""
    return bytes([0x80 + number]) if number < 64 else struct.pack(">H", 0xC000 + number)


def part_key(name: str, box: Box) -> bytes:
    """The key of one part of a partitioned variable."""
    numbers = b"".join(ordered_number(number) for pair in box for number in pair)
    return b"\0" + name.encode() + b"\0\1" + bytes([1, len(box)]) + numbers


def string_content(texts: Sequence[bytes]) -> tuple[bytes, int]:
    """The content of a string tensor, and its checksum."""
    widened = b"".join(struct.pack("<I", len(text)) for text in texts)
    check, body = struct.pack("<I", masked(widened)), b"".join(texts)
    return b"".join(varint(len(text)) for text in texts) + check + body, masked(widened + check + body)


def write_checkpoint(
    prefix: Path,
    tensors: Mapping[str, Array | list[bytes]],
    *,
    parts: Mapping[str, Sequence[Box]] | None = None,
    shards: int = 1,
    pad: int = 0,
    **layout: int,
) -> None:
    """Write `prefix.index` and its data files; `pad` bytes before each tensor make it unaligned."""
    data = [bytearray() for _ in range(shards)]
    entries = {b"": BundleHeaderProto(num_shards=shards).SerializeToString()}

    def put(key: bytes, array: Array | list[bytes], number: int) -> None:
        shard = data[number % shards]
        shard.extend(bytes(pad))
        if isinstance(array, list):
            content, crc = string_content(array)
            kind, shape = DataType.DT_STRING, (len(array),)
        else:
            content = array.tobytes()
            crc, kind, shape = masked(content), NUMBERS[str(array.dtype)], array.shape
        entry = BundleEntryProto(dtype=kind, shape=shape_proto(shape), crc32c=crc)
        entry.shard_id, entry.offset, entry.size = number % shards, len(shard), len(content)
        shard.extend(content)
        entries[key] = entry.SerializeToString()

    for number, (name, array) in enumerate(tensors.items()):
        boxes = (parts or {}).get(name)
        if boxes is None:
            put(name.encode(), array, number)
            continue
        assert not isinstance(array, list)
        whole = BundleEntryProto(dtype=NUMBERS[str(array.dtype)], shape=shape_proto(array.shape))
        for index, box in enumerate(boxes):
            extents = [TensorSliceProto.Extent(start=start, length=length) for start, length in box]
            whole.slices.append(TensorSliceProto(extent=extents))
            slices = tuple(slice(start, start + length) for start, length in box)
            put(part_key(name, box), array[slices], number + index)
        entries[name.encode()] = whole.SerializeToString()
    prefix.parent.mkdir(parents=True, exist_ok=True)
    prefix.with_name(prefix.name + ".index").write_bytes(table(entries, **layout))
    for number, content in enumerate(data):
        prefix.with_name(f"{prefix.name}.data-{number:05}-of-{shards:05}").write_bytes(content)


def signature(inputs: Mapping[str, TensorInfo], outputs: Mapping[str, str]) -> SignatureDef:
    """A signature from inputs by key, and output tensor names by key."""
    return SignatureDef(inputs=inputs, outputs={key: TensorInfo(name=name) for key, name in outputs.items()})


def tensor_info(name: str, dtype: str, shape: Sequence[int | None]) -> TensorInfo:
    """The TensorInfo of a signature's input."""
    return TensorInfo(name=name, dtype=DataType.ValueType(NUMBERS[dtype]), tensor_shape=shape_proto(shape))


def write_saved_model(
    folder: Path,
    graphs: Mapping[str, tuple[TfBuilder, Mapping[str, SignatureDef], str]],
    tensors: Mapping[str, Array | list[bytes]],
) -> Path:
    """Write a SavedModel; `graphs` maps tags (`serve` or `serve,gpu`) to graph, signatures and restore op."""
    model = SavedModel(saved_model_schema_version=1)
    for tags, (builder, signatures, restore_op) in graphs.items():
        meta = MetaGraphDef(graph_def=builder.graph, signature_def=signatures)
        meta.meta_info_def.tags.extend(tags.split(","))
        meta.saver_def.restore_op_name = restore_op
        model.meta_graphs.append(meta)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "saved_model.pb").write_bytes(model.SerializeToString(deterministic=True))
    write_checkpoint(folder / "variables" / "variables", tensors)
    return folder
