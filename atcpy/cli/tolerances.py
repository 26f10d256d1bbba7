"""The tolerances of `atcpy verify` in configuration files: the table [verify.tolerance].

[verify.tolerance]
atol = 1e-5                                # of types that are not listed
float16 = { atol = 2e-3, rtol = 2e-3 }
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING

from atcpy.cli.config import Setting, refuse
from atcpy.errors import did_you_mean

if TYPE_CHECKING:
    from atcpy.ir import DType
    from atcpy.verify.compare import Bounds

_BOUNDS = ("atol", "rtol")
_TABLE = "tolerance"


def read_tolerances(path: str, table: object) -> Iterator[Setting]:
    """The settings of the table, each named `tolerance.KEY`. Raises UsageError (E20003) for unknown keys, and for what
    is no bound.
    """
    if not isinstance(table, dict):
        raise refuse(path, "[verify] tolerance is no table", "[verify.tolerance]")
    types = _types()
    for key, value in table.items():
        name = f"[verify.{_TABLE}] {key}"
        if key in types:
            if not isinstance(value, dict) or not value:
                raise refuse(path, f"{name}: {value!r} is no table of bounds", f"{key} = {{ atol = 2e-3 }}")
            for bound, number in value.items():
                if bound not in _BOUNDS:
                    raise refuse(path, f"{name}: there is no bound {bound}", f"{' or '.join(_BOUNDS)}")
                _require_bound(path, f"{name}.{bound}", number)
        elif key in _BOUNDS:
            _require_bound(path, name, value)
        else:
            hint = did_you_mean(key, (*types, *_BOUNDS)) or f"{', '.join(_BOUNDS)}, or a type, such as float16"
            raise refuse(path, f"{name}: there is no such type or bound", hint)
        yield Setting("verify", f"{_TABLE}.{key}", value, path)


def bounds_by_type(settings: Iterable[Setting]) -> dict[DType, Bounds]:
    """The absolute and the relative bound of each type for which the settings, strongest first, have some. Those that a
    file has for all types come before what weaker files say of single ones.
    """
    types = _types()
    found: dict[DType, Bounds] = {}
    of_table = (setting for setting in settings if setting.option.startswith(f"{_TABLE}."))
    for _, settings_of_file in groupby(of_table, lambda setting: setting.source):
        general: dict[str, object] = {}
        for setting in settings_of_file:
            key = setting.option.removeprefix(f"{_TABLE}.")
            if key in types and isinstance(setting.value, dict):
                found.setdefault(types[key], _bounds(setting.value))
            else:
                general[key] = setting.value
        if general:
            found = dict.fromkeys(types.values(), _bounds(general)) | found
    return found


def _types() -> dict[str, DType]:
    """The types of numbers by name."""
    from atcpy.ir import DType

    return {dtype.long: dtype for dtype in DType if dtype.bits and dtype is not DType.BOOL}


def _bounds(record: Mapping[str, object]) -> Bounds:
    atol, rtol = (float(str(record.get(bound, 0.0))) for bound in _BOUNDS)
    return atol, rtol


def _require_bound(path: str, name: str, value: object) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and math.isfinite(value) and value >= 0):  # type: ignore[operator, arg-type]
        raise refuse(path, f"{name}: {value!r} is not a number from 0 on", "2e-3")
