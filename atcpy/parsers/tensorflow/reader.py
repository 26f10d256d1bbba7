"""A path → the TensorFlow graph in it, and what the file says about its inputs and outputs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from atcpy.errors import ModelInvalid, UsageError, Where, raise_os_error
from atcpy.ir import Source
from atcpy.parsers.sniff import is_graphdef
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import GraphDef
from atcpy.parsers.tensorflow.variables import Variables


@dataclass(frozen=True, slots=True)
class TfFile:
    """What a path leads to."""

    graph: GraphDef
    variables: Variables
    source: Source


def is_tensorflow(path: Path) -> bool:
    """Is this a TensorFlow graph, by what it holds?"""
    if path.suffix == ".pbtxt":
        return True
    try:
        with path.open("rb") as file:
            return is_graphdef(file.read(512))
    except OSError:
        return False  # whose reader says why


def read_file(path: Path) -> TfFile:
    """Reads a frozen graph, binary or as text."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise_os_error(error, str(path))
    proto = _parse_text(path, data) if path.suffix == ".pbtxt" else _parse(path, data)
    source = Source(hashlib.sha256(data).hexdigest(), "tensorflow", (("", proto.versions.producer),), "")
    return TfFile(proto, Variables(), source)


def _parse(path: Path, data: bytes) -> GraphDef:
    try:
        return GraphDef.FromString(data)
    except DecodeError as error:
        what = f"{path.name} is no TensorFlow graph, or a part of one"
        raise ModelInvalid("E10041", what, where=Where(file=str(path)), hint="copy or download it again") from error


def _parse_text(path: Path, data: bytes) -> GraphDef:
    try:
        return text_format.Parse(data.decode("utf-8"), GraphDef(), allow_unknown_field=True)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise UsageError("E13018", f"{path.name}: {error}", where=Where(file=str(path))) from error
