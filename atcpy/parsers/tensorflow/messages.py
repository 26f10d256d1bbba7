"""Files of TensorFlow → messages, in binary or in text form."""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypeVar

from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

from atcpy.errors import ModelInvalid, ResourceLimit, UsageError, Where
from atcpy.parsers.sniff import is_text

MAX_BYTES: Final = 2**31 - 1  # of a protobuf
AGAIN: Final = "copy or download it again"
_HEAD: Final = 4096  # bytes by which a text is known
_Proto = TypeVar("_Proto", bound=Message)


def parse_message(path: Path, data: memoryview, proto: _Proto) -> _Proto:
    """What a file holds. Raises ModelInvalid if it is damaged or cut, UsageError that names the line of a text."""
    if is_text(bytes(data[:_HEAD])):
        return parse_text(path, bytes(data), proto)
    if len(data) > MAX_BYTES:
        what = f"{path.name} has {len(data) / 1e9:.1f} GB, a protobuf holds 2 GB at most"
        hint = "give the SavedModel or the checkpoint: its weights lie in files of their own"
        raise ResourceLimit("E13023", what, where=Where(file=str(path)), hint=hint)
    try:
        proto.ParseFromString(data)  # type: ignore[arg-type]  # which takes every buffer
    except DecodeError as error:
        what = f"{path.name} is no TensorFlow graph, or a part of one"
        raise ModelInvalid("E10041", what, where=Where(file=str(path)), hint=AGAIN) from error
    return proto


def parse_text(path: Path, data: bytes, proto: _Proto) -> _Proto:
    """What a file in text form holds."""
    try:
        return text_format.Parse(data.decode("utf-8-sig"), proto, allow_unknown_field=True)
    except text_format.ParseError as error:
        where = Where(file=str(path), line=error.GetLine(), column=error.GetColumn())
        raise UsageError("E13018", f"{path.name}: {error}", where=where) from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"{path.name}: line {line} is no UTF-8, which texts are in"
        raise UsageError("E13018", what, where=Where(file=str(path), line=line)) from error
    except RecursionError as error:
        what = f"{path.name}: its messages are nested too deep"
        raise UsageError("E13018", what, where=Where(file=str(path))) from error
