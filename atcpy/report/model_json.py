"""Models in GE's form as JSON: of a package, of a graph, of GE's text dumps.

The JSON is that of ATC, for scripts that read it: attributes are a list of `{"key": …, "value": …}`, integers are
numbers, bytes are text with escapes, a single float is text; offsets, sizes and the data of constants are left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.text_encoding import CEscape

from atcpy.errors import UsageError, Where
from atcpy.files import read_text
from atcpy.om.container import Partition
from atcpy.om.package import parse_message
from atcpy.om.reader import read_package
from atcpy.om.schema.ge_ir_pb2 import ModelDef
from atcpy.om.writer import describe
from atcpy.ops.custom import load_custom_ops
from atcpy.options import ConvertOptions
from atcpy.stages.parse import parse

_LEFT_OUT = frozenset(
    {
        "output", "data_offset", "data", "workspace", "workspace_bytes", "memory_size", "weight_size", "size", "bt",
        "quantize_factor",
    }
)  # fmt: skip


def package_json(path: Path) -> str:
    """The model of a package. Raises PackageCorrupt."""
    definition = ModelDef()
    parse_message(definition, read_package(path).container, Partition.MODEL_DEF)
    return _json(definition)


def graph_json(path: Path, options: ConvertOptions) -> str:
    """The graph of a model, with the shapes that follow from its inputs, without the data of constants."""
    return _json(describe(parse(path, options.parse, load_custom_ops(options.custom_ops)).graph))


def dump_json(path: Path) -> str:
    """A dump of GE, a model in protobuf's text form. Raises UsageError (E13018)."""
    try:
        return _json(text_format.Parse(read_text(str(path)), ModelDef(), allow_unknown_field=True))
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise UsageError("E13018", f"{path}: {error}", where=Where(file=str(path))) from error


def _json(message: Message) -> str:
    return json.dumps(_fields(message), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _fields(message: Message) -> dict[str, Any]:
    return {field.name: _field(field, value) for field, value in message.ListFields() if field.name not in _LEFT_OUT}


def _field(field: FieldDescriptor, value: Any) -> Any:
    if isinstance(value, Mapping):  # in a ModelDef, of attributes only
        return [{"key": key, "value": _fields(value[key])} for key in sorted(value)]
    if field.is_repeated:
        return [_plain(field, each) for each in value]
    return f"{value:g}" if isinstance(value, float) else _plain(field, value)


def _plain(field: FieldDescriptor, value: Any) -> Any:
    if isinstance(value, Message):
        return _fields(value)
    if isinstance(value, bytes):
        return CEscape(value, as_utf8=False)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value:g}"  # JSON has no number for it
    return value
