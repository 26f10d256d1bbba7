"""The quick tests keep what they must of each grid, and all shares together are everything."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.effort import in_quick_grid, in_share
from tests.grids import grid_points

Sizes = tuple[int, ...]
GRIDS: list[Sizes] = [(2, 2), (3, 2), (2, 12), (7, 5), (2, 2, 2), (2, 12, 3), (4, 3, 3), (2, 2, 12, 2), (1, 2, 3, 3)]


def points_of(sizes: Sizes) -> set[Sizes]:
    return {point for point in product(*map(range, sizes)) if in_quick_grid(point, sizes)}


@pytest.mark.parametrize(("sizes", "count"), [(sizes, len(sizes)) for sizes in GRIDS], ids=str)
@pytest.mark.parametrize("day", range(3))
def test_each_value_of_each_axis_is_quick(sizes: Sizes, count: int, day: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI_SAMPLE", str(day))
    points = points_of(sizes)
    for axis in range(count):
        assert {point[axis] for point in points} == {*range(sizes[axis])}


@pytest.mark.parametrize("day", range(3))
def test_each_pair_of_values_is_quick_where_a_third_axis_is_long(day: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI_SAMPLE", str(day))
    sizes = (4, 3, 3)
    points = points_of(sizes)
    for first, second in combinations(range(3), 2):
        assert len({(point[first], point[second]) for point in points}) == sizes[first] * sizes[second]


@pytest.mark.parametrize("sizes", GRIDS, ids=str)
def test_three_days_run_all_points(sizes: Sizes, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[Sizes] = set()
    for number in range(100, 103):
        monkeypatch.setenv("CI_SAMPLE", str(number))
        seen |= points_of(sizes)
    assert seen == {*product(*map(range, sizes))}


def test_as_many_days_as_there_are_shares_run_each_test_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in map(str, range(100)):
        days = []
        for number in range(20, 27):
            monkeypatch.setenv("CI_SAMPLE", str(number))
            days.append(in_share(name, 7))
        assert sum(days) == 1


def test_each_mark_is_an_axis(request: pytest.FixtureRequest) -> None:
    module = request.node.getparent(pytest.Module)
    items = [item for item in module.collect() if isinstance(item, pytest.Function)]
    points = {item.name: point for item, point in grid_points(items).items()}
    assert {name.partition("[")[0] for name in points} == {"test_each_value_of_each_axis_is_quick"}
    assert {sizes for _, sizes in points.values()} == {(3, len(GRIDS))}
    assert len({point for point, _ in points.values()}) == 3 * len(GRIDS)
