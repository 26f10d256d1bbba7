"""Configuration files of users: texts and JSON, read with errors that say where."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from atcpy.errors import UsageError, Where, did_you_mean, raise_os_error
from atcpy.files import parse_json, read_file


def read_text_file(path: str | Path) -> tuple[str, str]:
    """The text of a file, and the digest of its bytes. Raises UsageError for one that is none."""
    name = str(path)
    try:
        raw = read_file(name)
    except OSError as error:
        raise_os_error(error, name)
    try:
        return raw.decode("utf-8-sig"), hashlib.sha256(raw).hexdigest()
    except UnicodeDecodeError as error:
        raise UsageError("E13005", f"{name} is not UTF-8 text", where=Where(file=name, offset=error.start)) from error


def config_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that hold something, each with its number; `#` begins a comment."""
    for number, line in enumerate(text.splitlines(), 1):
        if content := line.partition("#")[0].strip():
            yield number, content


def parse_config(path: str, text: str) -> Any:
    """The value of a JSON text. Raises UsageError (E10025) that says where it is none."""
    try:
        return parse_json(text)
    except ValueError as error:
        line, column = (error.lineno, error.colno) if isinstance(error, json.JSONDecodeError) else (1, 1)
        words = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        at = Where(file=path, line=line, column=column)
        raise UsageError("E10025", f"{path}:{line}:{column}: {words}", where=at) from error


def members_of(path: str, name: str, value: object, keys: tuple[str, ...] | None) -> Mapping[str, Any]:
    """The members of an object of a file. Raises UsageError (E20003) if it is none, or has others than these keys."""
    if not isinstance(value, dict):
        raise UsageError("E20003", f"{path}: {name} is not an object", where=Where(file=path))
    for key in value:
        if keys is not None and key not in keys:
            hint = did_you_mean(key, keys) or "one of " + ", ".join(keys)
            raise UsageError("E20003", f'{path}: {name} has the unknown key "{key}"', where=Where(file=path), hint=hint)
    return value
