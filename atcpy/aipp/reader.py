"""Reads the file of --insert_op_conf: textproto of `aipp_op` blocks, checked as far as that goes without the model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf import text_format

from atcpy.aipp.config import DYNAMIC, Aipp, AippConfig, DynamicAipp, Fields
from atcpy.aipp.schema.insert_op_pb2 import AippOpParams, InsertNewOps
from atcpy.aipp.settings import Values, block_of, dynamic_block_of, dynamic_problems, problems
from atcpy.errors import AtcError, UsageError, Where, did_you_mean, raise_all, raise_os_error
from atcpy.files import read_file


def read_aipp(path: str) -> AippConfig:
    """Read a configuration. Raises UsageError (E13018, E10052) or Unsupported (E10055), with all that is wrong with its
    values.
    """
    try:
        text = read_file(path).decode("utf-8-sig")
    except OSError as error:
        raise_os_error(error, path)
    except UnicodeDecodeError as error:
        raise UsageError("E13005", f"{path} is not UTF-8 text", where=Where(file=path, offset=error.start)) from error
    message = _parse(path, text)
    places = list(_blocks(path, text))
    if not message.aipp_op:
        raise UsageError("E10052", f"AIPP: {path} has no aipp_op block", where=Where(file=path))
    blocks = list(zip(map(_values, message.aipp_op), places, strict=True))
    raise_all([problem for values, fields in blocks for problem in _problems(values, fields)])
    return AippConfig(tuple(_record(values, fields) for values, fields in blocks))


# --------------------------------------------------------------------------------------------------------------------
# Text


def _parse(path: str, text: str) -> InsertNewOps:
    try:
        return text_format.Parse(text, InsertNewOps())
    except text_format.ParseError as error:
        line, column = error.GetLine(), error.GetColumn()
        problem = re.sub(r"^\d+:\d+ : ('.*?': (?=[A-Z]))?", "", str(error), flags=re.DOTALL).replace("atcpy.aipp.", "")
        hint = ""
        if unknown := re.search(r'"(\w+)" has no field named "(\w+)"', problem):
            owner = AippOpParams if unknown[1] == "AippOpParams" else InsertNewOps
            hint = did_you_mean(unknown[2], [known.name for known in owner.DESCRIPTOR.fields])
        elif unknown := re.search(r'"AippOpParams\.(\w+)" has no value named (\w+)', problem):
            hint = did_you_mean(unknown[2], AippOpParams.DESCRIPTOR.enum_types_by_name[unknown[1]].values_by_name)
        where = Where(file=path, line=line, column=column)
        raise UsageError("E13018", f"{path}:{line}:{column}: {problem}", where=where, hint=hint) from error


_COMMENT_OR_STRING = re.compile(r"""#[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""")
_BLOCK = re.compile(r"[{<]([^{}<>]*)[}>]")  # no field of a block is a message
_FIELD = re.compile(r"\b([a-z]\w*)\s*:")


def _blocks(path: str, text: str) -> Iterator[Fields]:
    """Find where the blocks of a text that was parsed begin, and the first line of each field."""
    code = _COMMENT_OR_STRING.sub(lambda match: " " * len(match[0]), text)
    for block in _BLOCK.finditer(code):
        lines: dict[str, int] = {}
        for match in _FIELD.finditer(code, *block.span(1)):
            lines.setdefault(match[1], code.count("\n", 0, match.start()) + 1)
        yield Fields(path, code.count("\n", 0, block.start()) + 1, lines)


# --------------------------------------------------------------------------------------------------------------------
# Blocks


def _values(block: AippOpParams) -> Values:
    """The values of the fields that are set; an enum's by its name."""
    values: dict[str, Sequence[Any]] = {}
    for field, value in block.ListFields():
        found = list(value) if field.is_repeated else [value]
        if field.enum_type is not None:
            found = [field.enum_type.values_by_number[number].name for number in found]
        values[field.name] = found
    return values


def _problems(values: Values, fields: Fields) -> Iterator[AtcError]:
    mode = next(iter(values.get("aipp_mode", ())), "undefined")
    if mode == "undefined":
        yield fields.error("aipp_mode is required", "aipp_mode", hint="aipp_mode: static")
    else:
        yield from dynamic_problems(values, fields) if mode == DYNAMIC else problems(values, fields)


def _record(values: Values, fields: Fields) -> Aipp | DynamicAipp:
    return dynamic_block_of(values, fields) if DYNAMIC in values["aipp_mode"] else block_of(values, fields)
