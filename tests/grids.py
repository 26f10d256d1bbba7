"""Grids of parameters: tests under two marks `parametrize` or more, which run for each combination of their values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pytest


def grid_points(items: Iterable[pytest.Item]) -> dict[pytest.Item, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Map each test of a grid to its position on each axis, and to the lengths of the axes. A mark is an axis."""
    grids: dict[str, list[dict[tuple[int, ...], int]]] = defaultdict(list)
    points: dict[pytest.Item, list[int]] = {}
    for item in items:
        marks = list(item.iter_markers("parametrize"))
        if len(marks) < 2:
            continue
        axes = grids[_function_of(item)]
        axes.extend({} for _ in marks[len(axes) :])
        values = [tuple(map(id, _values(item, mark))) for mark in marks]
        points[item] = [axis.setdefault(value, len(axis)) for axis, value in zip(axes, values, strict=True)]
    return {item: (tuple(point), tuple(map(len, grids[_function_of(item)]))) for item, point in points.items()}


def _function_of(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _values(item: pytest.Item, mark: pytest.Mark) -> list[object]:
    """The values of a test that a mark gives."""
    names = mark.args[0] if mark.args else mark.kwargs["argnames"]
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",")]
    assert isinstance(item, pytest.Function)
    return [item.callspec.params[name] for name in names]
