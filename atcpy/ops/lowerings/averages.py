"""Running averages, such as statistics of BatchNormalization and moments of Adam."""

from __future__ import annotations

from atcpy.ir import Builder, Value


def moving_average(b: Builder, average: Value, new: Value, momentum: float) -> Value:
    """Return average · momentum + new · (1 − momentum) in the type of `average`."""
    new = b.cast_like(new, average)
    if momentum == 0:
        return new
    return b.op("Add", b.scale(average, momentum), b.scale(new, 1 - momentum))
