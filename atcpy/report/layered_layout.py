"""Positions for the boxes of a graph: boxes lie in layers, each below all that it reads, and nothing overlaps.

Linear in boxes and edges, but for sorting each layer. A box lies as near below the middle of what it reads as its
neighbours allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_MAX_ROW = 48  # boxes beside each other; a wider layer takes several rows
_MAX_PASSED_ROWS, _MAX_DETOUR = 200, 600.0  # rows that an edge avoids, and how far it goes for that


@dataclass(frozen=True, slots=True)
class Spacing:
    """Pixels between boxes of a row, and between rows."""

    gap: float
    step: float


@dataclass(frozen=True, slots=True)
class Position:
    """Where a box lies: its row, its top left corner and its size."""

    row: int
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """Half way from left to right."""
        return self.x + self.width / 2


@dataclass(frozen=True, slots=True)
class EdgePosition:
    """An edge from one box to another that reads it. `aside`: how far the handles of its curve are from its ends, so
    that it passes the rows between them.
    """

    source: int
    target: int
    aside: float


@dataclass(frozen=True, slots=True)
class LayeredLayout:
    """Positions of all boxes, by number; rows are centred at 0."""

    positions: tuple[Position, ...]
    rows: tuple[tuple[int, ...], ...]
    reads: Sequence[Sequence[int]]
    spacing: Spacing

    def edges(self) -> Iterator[EdgePosition]:
        """All edges, by the box that reads."""
        extents = [(self.positions[row[0]].x, _right(self.positions[row[-1]])) for row in self.rows]
        for target, sources in enumerate(self.reads):
            for source in sources:
                yield EdgePosition(source, target, self._aside(self.positions[source], self.positions[target], extents))

    def _aside(self, source: Position, target: Position, extents: Sequence[tuple[float, float]]) -> float:
        """To pass what lies between at three quarters of the handles; 0 if that is too far away."""
        between = extents[source.row + 1 : min(target.row, source.row + 1 + _MAX_PASSED_ROWS)]
        if not between:
            return 0.0
        middle = (source.middle + target.middle) / 2
        to_right = (max(right for _, right in between) + self.spacing.gap / 2 - middle) / 0.75
        to_left = (min(left for left, _ in between) - self.spacing.gap / 2 - middle) / 0.75
        nearer = to_right if to_right <= -to_left else to_left
        return nearer if abs(nearer) <= _MAX_DETOUR else 0.0


def lay_out(sizes: Sequence[tuple[float, float]], reads: Sequence[Sequence[int]], spacing: Spacing) -> LayeredLayout:
    """Place boxes of these widths and heights, which come in topological order; `reads` are the numbers of boxes."""
    positions: list[Position] = [Position(0, 0, 0, 0, 0)] * len(sizes)
    rows: list[tuple[int, ...]] = []
    y = 0.0
    for layer in _layers(reads):
        desired = {number: _mean([positions[read].middle for read in reads[number]]) for number in layer}
        layer.sort(key=lambda number: desired[number])
        for first in range(0, len(layer), _MAX_ROW):
            row = tuple(layer[first : first + _MAX_ROW])
            for number, x in zip(row, _columns(row, sizes, desired, spacing.gap), strict=True):
                positions[number] = Position(len(rows), x, y, *sizes[number])
            rows.append(row)
            y += max(sizes[number][1] for number in row) + spacing.step
    return LayeredLayout(tuple(positions), tuple(rows), reads, spacing)


def _layers(reads: Sequence[Sequence[int]]) -> list[list[int]]:
    """Boxes by layer: one below the lowest that they read. What reads nothing lies just above its first reader."""
    depth: list[int] = []
    for sources in reads:
        depth.append(1 + max((depth[source] for source in sources), default=-1))
    first_reader = dict[int, int]()
    for target, sources in enumerate(reads):
        for source in sources:
            first_reader[source] = min(first_reader.get(source, depth[target]), depth[target])
    for number, sources in enumerate(reads):
        if not sources and number in first_reader:
            depth[number] = first_reader[number] - 1
    layers: list[list[int]] = [[] for _ in range(1 + max(depth, default=-1))]
    for number, layer in enumerate(depth):
        layers[layer].append(number)
    return layers


def _columns(
    row: Sequence[int], sizes: Sequence[tuple[float, float]], desired: dict[int, float], gap: float
) -> list[float]:
    """Left edges: in the order of the row, without overlap, and on average where they are desired."""
    found: list[float] = []
    free = float("-inf")
    for number in row:
        width = sizes[number][0]
        x = max(desired[number] - width / 2, free)
        found.append(x)
        free = x + width + gap
    shift = _mean([desired[number] - sizes[number][0] / 2 - x for number, x in zip(row, found, strict=True)])
    return [x + shift for x in found]


def _right(position: Position) -> float:
    return position.x + position.width


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0
