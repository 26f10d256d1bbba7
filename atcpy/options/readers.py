"""Readers of plain values: `(option, text or natural value) -> value`. Each raises UsageError with ATC's code."""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from atcpy.errors import UsageError, Where, did_you_mean, raise_os_error
from atcpy.files import read_file
from atcpy.options.records import KIB, MIB
from atcpy.precision_options import CustomDtypesFile, MixList, TextFile

Reader: TypeAlias = Callable[[str, object], Any]


def mismatch(option: str, value: object, expected: str, hint: str = "", code: str = "E10001") -> UsageError:
    """The error of a value that is not what was expected."""
    return UsageError(code, f'--{option}: "{value}" is not {expected}', where=Where(option=option), hint=hint)


def text_of(option: str, value: object) -> str:
    """A value that must be a text."""
    if not isinstance(value, str):
        raise mismatch(option, value, "a text", code="E10003")
    if not value.strip():
        raise UsageError("E10004", f"--{option} needs a value", where=Where(option=option))
    return value.strip()


_TRUE = frozenset({"1", "t", "true", "y", "yes", "on"})
_FALSE = frozenset({"0", "f", "false", "n", "no", "off"})


def read_bool(option: str, value: object) -> bool:
    """True or false, in any of ATC's spellings."""
    if isinstance(value, bool):
        return value
    if value in (0, 1):
        return value == 1
    word = text_of(option, value).lower()
    if word not in _TRUE | _FALSE:
        raise UsageError("E10005", f'--{option}: "{value}" must be true or false', where=Where(option=option))
    return word in _TRUE


def read_zero_or_one(option: str, value: object) -> bool:
    """A switch that ATC writes 0 or 1."""
    if value in (0, 1) or value in ("0", "1"):
        return int(value) == 1
    raise UsageError("E10006", f'--{option}: "{value}" must be 0 or 1', where=Where(option=option))


def read_int(option: str, value: object, lo: int, hi: int) -> int:
    """A whole number from `lo` to `hi`."""
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d{1,18}\s*", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError("E10014", f'--{option}: "{value}" is not a whole number', where=Where(option=option))
    if not lo <= value <= hi:
        raise UsageError("E10013", f"--{option}: {value} is outside {lo}..{hi}", where=Where(option=option))
    return value


def read_float(option: str, value: object, lo: float, hi: float) -> float:
    """A number from `lo` to `hi`."""
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?\s*", value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError("E10014", f'--{option}: "{value}" is not a number', where=Where(option=option))
    if not lo <= value <= hi:
        raise UsageError("E10013", f"--{option}: {value:g} is outside {lo:g}..{hi:g}", where=Where(option=option))
    return float(value)


_UNITS = {"": 1, "K": KIB, "M": MIB, "G": 1024 * MIB, "T": 1024 * 1024 * MIB}


def read_size(option: str, value: object) -> int:
    """A number of bytes: 4096, 16M, 1.5G, 8GiB."""
    if isinstance(value, int) and not isinstance(value, bool):
        return read_int(option, value, 0, 2**60)
    match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,9})?)\s*([KMGT]?)(?:I?B)?", text_of(option, value).upper())
    if match is None:
        hint = "write bytes, or a number with K, M, G or T: 512M, 8G"
        raise UsageError("E10014", f'--{option}: "{value}" is not a size', where=Where(option=option), hint=hint)
    return read_int(option, int(float(match[1]) * _UNITS[match[2]]), 0, 2**60)


_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


def read_seconds(option: str, value: object) -> float:
    """A time: 600, 90s, 10m, 2h."""
    if isinstance(value, str) and (match := re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([smh]?)\s*", value)):
        value = float(match[1]) * _SECONDS[match[2]]
    return read_float(option, value, 0, 1e9)


def read_names(option: str, value: object, separator: str = ",") -> tuple[str, ...]:
    """A list of names, in the order given, each once."""
    if isinstance(value, str):
        items = [item.strip() for item in value.split(separator)]
    elif isinstance(value, Iterable):
        items = [text_of(option, item) for item in value]
    else:
        raise mismatch(option, value, "a list of names", code="E10003")
    names = tuple(dict.fromkeys(item for item in items if item))
    if not names and value:
        raise UsageError("E10004", f"--{option} needs a value", where=Where(option=option))
    return names


def read_choice(option: str, value: object, choices: Mapping[str, Any]) -> Any:
    """One of a closed set, by its name; an enum member of the set is taken as it is."""
    if isinstance(value, Enum) and value in choices.values():
        return value
    word = text_of(option, value)
    if word not in choices:
        hint = did_you_mean(word, choices) or "one of " + ", ".join(choices)
        raise mismatch(option, word, "one of " + ", ".join(choices), hint)
    return choices[word]


def choice(choices: Mapping[str, Any]) -> Reader:
    """Return a reader of one of a closed set."""
    return partial(read_choice, choices=choices)


def number(read: Callable[[str, object, Any, Any], Any], lo: float, hi: float) -> Reader:
    """Return a reader of a number from `lo` to `hi`: `read_int` or `read_float`."""
    return lambda option, value: read(option, value, lo, hi)


def read_path(option: str, value: object) -> Path:
    """A path."""
    return Path(value) if isinstance(value, os.PathLike) else Path(text_of(option, value))


def read_on_off(option: str, name: str, word: object, where: Where, code: str) -> bool:
    """`on` or `off`, of what `name` names."""
    if word not in ("on", "off"):
        raise UsageError(code, f'--{option}: {name}: "{word}" is not on or off', where=where)
    return word == "on"


def pairs_of(option: str, value: object, form: str) -> Iterator[tuple[str, str]]:
    """The items of `name:word;name:word`; the name ends at the last colon."""
    for item in filter(None, map(str.strip, text_of(option, value).split(";"))):
        name, _, word = item.rpartition(":")
        if not name.strip():
            raise mismatch(option, item, form)
        yield name.strip(), word.strip()


def file_of(read: Callable[[str, str], Any]) -> Reader:
    """Return a reader of the file that a path names; what was read before is taken as it is."""

    def read_value(option: str, value: object) -> Any:
        if isinstance(value, TextFile | CustomDtypesFile | MixList):
            return value
        return read(option, str(read_path(option, value)))

    return read_value


def sha256_text(file: Any) -> str:
    """What the package records of a file: its digest."""
    return "sha256:" + str(file.sha256)


def file_sha256(path: str, shown: str) -> str:
    """The digest of a file. Raises UsageError if it cannot be read."""
    try:
        return hashlib.sha256(read_file(path)).hexdigest()
    except OSError as error:
        raise_os_error(error, shown)
