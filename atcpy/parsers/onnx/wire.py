"""Leaves the large weights of a model file where they are: mapped, not parsed.

protobuf copies every field that it parses, so a model of 1 GB would take 2 GB while it is read.
This walks over the lengths in ModelProto.graph.initializer.raw_data alone, gives protobuf the rest,
and says where the weights lie. Whatever looks unusual is left to protobuf as a whole.
"""

from collections.abc import Iterator

from atcpy.wire_format import field_header

MIN_FILE = 8 << 20
MIN_WEIGHT = 64 << 10
GRAPH, INITIALIZER, RAW_DATA = 7, 5, 9  # numbers of fields: ModelProto.graph, its initializers, their raw_data
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED_SIZE = {_FIXED64: 8, _FIXED32: 4}


class _Unusual(Exception):
    """The bytes are not what a writer of ONNX makes; protobuf shall say what is wrong, or read them."""


def split_weights(file: memoryview) -> tuple[bytes, dict[int, memoryview]] | None:
    """The model without its large weights, and these by number of initializer; None if that is not worth it."""
    if len(file) < MIN_FILE:
        return None
    try:
        return _split(file)
    except _Unusual:
        return None


def _split(file: memoryview) -> tuple[bytes, dict[int, memoryview]]:
    graphs = [field for field in _fields(file, 0, len(file)) if field[0] == GRAPH]
    if len(graphs) != 1:
        raise _Unusual
    _, start, body, end = graphs[0]
    weights: dict[int, memoryview] = {}
    pieces: list[bytes | memoryview] = []
    kept = body  # from here on nothing is written yet
    number = 0
    for field, at, inner, after in _fields(file, body, end):
        if field != INITIALIZER:
            continue
        if after - inner >= MIN_WEIGHT and (raw := _raw_data(file, inner, after)) is not None:
            raw_at, raw_body, raw_end = raw
            tensor = bytes(file[inner:raw_at]) + bytes(file[raw_end:after])
            pieces += [file[kept:at], field_header(INITIALIZER, len(tensor)), tensor]
            kept = after
            weights[number] = file[raw_body:raw_end]
        number += 1
    pieces.append(file[kept:end])
    size = sum(map(len, pieces))
    return b"".join([file[:start], field_header(GRAPH, size), *pieces, file[end:]]), weights


def _raw_data(file: memoryview, start: int, end: int) -> tuple[int, int, int] | None:
    """Where a tensor's raw_data lies, if it is large: start of the field, of its bytes, and their end."""
    found = [(at, body, after) for field, at, body, after in _fields(file, start, end) if field == RAW_DATA]
    if len(found) > 1:
        raise _Unusual
    return found[0] if found and found[0][2] - found[0][1] >= MIN_WEIGHT else None


def _fields(file: memoryview, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """(number, start, start of the bytes, end) of each field of a message that has a length, in order."""
    at = start
    while at < end:
        key, body = _varint(file, at, end)
        kind = key & 7
        if kind == _LENGTH:
            size, body = _varint(file, body, end)
            after = body + size
            if after > end:
                raise _Unusual
            yield key >> 3, at, body, after
        elif kind == _VARINT:
            _, after = _varint(file, body, end)
        elif kind in _FIXED_SIZE:
            after = body + _FIXED_SIZE[kind]
        else:
            raise _Unusual
        if after > end:
            raise _Unusual
        at = after


def _varint(file: memoryview, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 64:
        byte = file[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise _Unusual
