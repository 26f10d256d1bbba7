"""The wire format of protobuf, as far as messages are put together from the bytes of others."""

from functools import lru_cache

_LENGTH = 2  # the wire type of strings and messages


@lru_cache(4096)
def field_header(field: int, size: int) -> bytes:
    """Return the bytes before a field of `size` bytes: its number and its length."""
    return _varint(field << 3 | _LENGTH) + _varint(size)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
