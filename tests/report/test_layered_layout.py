"""Positions of boxes: each below what it reads, none over another, and no time that grows faster than the graph."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy.report.layered_layout import LayeredLayout, Spacing, lay_out
from tests.effort import trials

SPACING = Spacing(10, 30)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[tuple[float, float]], list[list[int]]]:
    count = draw(st.integers(0, 60))
    sizes = draw(st.lists(st.tuples(st.floats(1, 200), st.floats(1, 50)), min_size=count, max_size=count))
    reads = [
        draw(st.lists(st.integers(0, number - 1), max_size=3, unique=True)) if number else [] for number in range(count)
    ]
    return sizes, reads


def overlap(layout: LayeredLayout, one: int, other: int) -> bool:
    a, b = layout.positions[one], layout.positions[other]
    apart = a.x + a.width <= b.x + 1e-6 or b.x + b.width <= a.x + 1e-6
    return not (apart or a.y + a.height <= b.y or b.y + b.height <= a.y)


@given(graphs())
@settings(max_examples=trials(100))
def test_boxes_are_below_what_they_read_and_apart(graph: tuple[list[tuple[float, float]], list[list[int]]]) -> None:
    sizes, reads = graph
    layout = lay_out(sizes, reads, SPACING)
    for target, sources in enumerate(reads):
        for source in sources:
            above = layout.positions[source]
            assert above.y + above.height + SPACING.step <= layout.positions[target].y + 1e-6
    assert not any(overlap(layout, *pair) for pair in itertools.combinations(range(len(sizes)), 2))
    assert sorted(number for row in layout.rows for number in row) == list(range(len(sizes)))
    assert [(p.width, p.height) for p in layout.positions] == sizes
    assert [(edge.source, edge.target) for edge in layout.edges()] == [
        (source, target) for target, sources in enumerate(reads) for source in sources
    ]


def test_a_chain_is_straight() -> None:
    layout = lay_out([(50, 10)] * 5, [[], [0], [1], [2], [3]], SPACING)
    assert {position.middle for position in layout.positions} == {0}


def test_branches_lie_around_what_they_read() -> None:
    layout = lay_out([(50, 10)] * 4, [[], [0], [0], [1, 2]], SPACING)
    assert [position.middle for position in layout.positions] == [0, -30, 30, 0]


def test_an_input_lies_just_above_its_first_reader() -> None:
    layout = lay_out([(50, 10)] * 5, [[], [0], [1], [], [2, 3]], SPACING)
    assert [position.row for position in layout.positions] == [0, 1, 2, 2, 3]


def test_what_an_edge_passes_is_avoided() -> None:
    layout = lay_out([(50, 10)] * 4, [[], [0], [1], [2, 0]], SPACING)
    asides = {(edge.source, edge.target): edge.aside for edge in layout.edges()}
    assert asides[2, 3] == asides[0, 1] == 0
    assert abs(asides[0, 3]) * 0.75 > 25  # half of the boxes between


@pytest.mark.parametrize("count", [1, 48, 49, 500])
def test_a_wide_layer_takes_several_rows(count: int) -> None:
    layout = lay_out([(50, 10)] * (count + 1), [[], *([0] for _ in range(count))], SPACING)
    assert len(layout.rows) == 1 + -(-count // 48)
    assert all(position.x + position.width <= 48 * 60 for position in layout.positions)
