"""Objects as JSON: what `--json` prints."""

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from os import PathLike, fspath
from typing import Any


def to_json(value: object) -> Any:
    """`value` in terms of JSON: records become objects, enums their values, NaN and infinity null."""
    if value is None or (isinstance(value, bool | int | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Enum):
        return to_json(value.value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, PathLike):
        return fspath(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(item) for item in value]
    if hasattr(value, "item"):  # a number of numpy
        return to_json(value.item())
    return str(value)


def dumps(value: object) -> str:
    """One line of ASCII: text of a model cannot carry a control character into a terminal."""
    return json.dumps(to_json(value), ensure_ascii=True, allow_nan=False)
