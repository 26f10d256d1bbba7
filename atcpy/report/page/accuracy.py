"""Errors of values at the borders of tasks, read out of what `verify --layers --json` prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atcpy.errors import UsageError, Where
from atcpy.report.page.measured import read_record

_KIND = "a result of verify --layers --json"


@dataclass(frozen=True, slots=True)
class ComparedValue:
    """A value that a node of the package computes: its largest error, what is allowed, and whether it is right."""

    node: str
    op: str
    value: str
    max_abs: float
    allowed: float
    passed: bool

    @property
    def share(self) -> float:
        """The error as a multiple of what is allowed."""
        if not self.max_abs:
            return 0.0
        return self.max_abs / self.allowed if self.allowed else math.inf


def worst_first(compared: Sequence[ComparedValue]) -> list[ComparedValue]:
    """Those that differ, then by their share of what is allowed."""
    return sorted(compared, key=lambda value: (value.passed, -value.share))


def read_accuracy(path: str) -> tuple[ComparedValue, ...]:
    """Read the values that were compared. Raises UsageError (E13005, or what opening raises)."""
    record = read_record(path, _KIND)
    try:
        return tuple(map(_value, record["result"]["layers"]["table"]))
    except (KeyError, TypeError, ValueError) as error:
        what = f"{path} is not {_KIND}: {type(error).__name__} {error}"
        raise UsageError("E13005", what, where=Where(file=path)) from error


def _value(layer: Mapping[str, Any]) -> ComparedValue:
    node, op, value = (layer[key] for key in ("node", "op", "value"))
    if not all(isinstance(text, str) for text in (node, op, value)):
        raise TypeError("a name is no text")
    passed = layer["passed"]
    if not isinstance(passed, bool):
        raise TypeError("passed is neither true nor false")
    return ComparedValue(node, op, value, _error(layer["max_abs"]), _error(layer["allowed"]), passed)


def _error(number: object) -> float:
    """JSON has neither NaN nor infinity: null stands for both."""
    if number is None:
        return math.inf
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < math.inf:
        raise ValueError(f"{number!r:.40} is no error")
    return float(number)
