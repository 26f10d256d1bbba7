"""Models in GE's form as JSON: of a package, of a graph, of GE's text dumps."""

from __future__ import annotations

from pathlib import Path

from google.protobuf import json_format, text_format
from google.protobuf.message import Message

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
    return json_format.MessageToJson(message, preserving_proto_field_name=True) + "\n"
