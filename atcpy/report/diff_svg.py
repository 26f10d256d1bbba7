"""Two graphs side by side as one picture: SVG without scripts, fonts or anything else from elsewhere.

A box is as wide as its text; `layered_layout` says where boxes lie. Of large graphs only so many nodes are drawn,
those that differ before others, and the picture says how many are left out.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from atcpy.report.layered_layout import Position, Spacing, lay_out
from atcpy.report.svg_text import clean, shortened

MAX_NODES = 120  # of one side
_MAX_LETTERS = 44  # letters of a line; the whole text is the box's tooltip
_LETTER, _LINE, _PAD, _GAP, _STEP = 6.7, 15.0, 8.0, 22.0, 34.0
_HEAD = 64.0
_LEGEND = 560.0
COLORS = {
    "same": ("#f4f6f8", "#9aa5b1"),
    "changed": ("#fff3c4", "#cb8a00"),
    "fused": ("#dbeafe", "#2563eb"),
    "split": ("#ede4ff", "#7c3aed"),
    "removed": ("#ffe0e0", "#c81e1e"),
    "added": ("#d9f7e2", "#15803d"),
}


@dataclass(frozen=True, slots=True)
class Box:
    """A node to draw: its lines of text, the first is its op; `reads` are numbers of boxes of the same side."""

    lines: tuple[str, ...]
    kind: str
    reads: tuple[int, ...] = ()
    mark: str = ""  # the same on both sides for what belongs together


@dataclass(frozen=True, slots=True)
class _Side:
    """Boxes with their positions, and the paths of the edges; all lie between `left` and `right`, above `bottom`."""

    boxes: tuple[tuple[Box, Position], ...]
    paths: tuple[str, ...]
    left: float
    right: float
    bottom: float


def side_by_side(before: Sequence[Box], after: Sequence[Box], titles: tuple[str, str]) -> str:
    """The picture; boxes come in topological order."""
    left, left_out = _chosen(before)
    right, right_out = _chosen(after)
    sides = [_lay_out(left), _lay_out(right)]
    widths = [
        max(side.right - side.left, (_columns(_shown(title)) + 26) * _LETTER)
        for side, title in zip(sides, titles, strict=True)
    ]
    height = max(side.bottom for side in sides)
    total_width, total_height = max(sum(widths) + 4 * _GAP, _LEGEND), _HEAD + height + 2 * _GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total_width:.0f}" height="{total_height:.0f}" '
        f'viewBox="0 0 {total_width:.0f} {total_height:.0f}" font-family="monospace" font-size="11">',
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#52606d"/></marker></defs>',
        f'<rect width="{total_width:.0f}" height="{total_height:.0f}" fill="#ffffff"/>',
        *_legend(),
    ]
    x = _GAP
    for side, width, title, omitted in zip(sides, widths, titles, (left_out, right_out), strict=True):
        lines += _panel(side, x, width, title, omitted)
        x += width + 2 * _GAP
    middle = widths[0] + 2 * _GAP
    lines.append(f'<path d="M{middle:.0f} {_HEAD - 22:.0f}V{total_height:.0f}" stroke="#cbd2d9"/>')
    return "\n".join([*lines, "</svg>", ""])


def _chosen(boxes: Sequence[Box]) -> tuple[Mapping[int, Box], int]:
    """The boxes to draw by number, and how many are not: those that differ, then their neighbours, then the first."""
    if len(boxes) <= MAX_NODES:
        return dict(enumerate(boxes)), 0
    chosen: dict[int, None] = {}
    differing = [number for number, box in enumerate(boxes) if box.kind != "same"]
    near = (number for other in differing for number in boxes[other].reads)
    for number in (*differing, *near, *range(len(boxes))):
        if len(chosen) == MAX_NODES:
            break
        chosen[number] = None
    return {number: boxes[number] for number in sorted(chosen)}, len(boxes) - len(chosen)


def _lay_out(boxes: Mapping[int, Box]) -> _Side:
    """Positions of boxes, which come in topological order."""
    index = {number: i for i, number in enumerate(boxes)}
    reads = [[index[read] for read in box.reads if read in index] for box in boxes.values()]
    layout = lay_out([_size(box) for box in boxes.values()], reads, Spacing(_GAP, _STEP))
    left = min((position.x for position in layout.positions), default=0.0)
    right = max((position.x + position.width for position in layout.positions), default=0.0)
    bottom = max((position.y + position.height for position in layout.positions), default=0.0)
    paths = []
    for edge in layout.edges():
        source, target = layout.positions[edge.source], layout.positions[edge.target]
        x1, y1, x2, y2 = source.middle, source.y + source.height, target.middle, target.y
        bend = _STEP if edge.aside else (y2 - y1) / 2
        left, right = min(left, x1 + edge.aside), max(right, x1 + edge.aside)
        handles = f"{x1 + edge.aside:.1f} {y1 + bend:.1f} {x2 + edge.aside:.1f} {y2 - bend:.1f}"
        paths.append(f"M{x1:.1f} {y1:.1f}C{handles} {x2:.1f} {y2:.1f}")
    return _Side(tuple(zip(boxes.values(), layout.positions, strict=True)), tuple(paths), left, right, bottom)


def _shown(line: str) -> str:
    """A line that fits."""
    return shortened(line, _MAX_LETTERS)


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _size(box: Box) -> tuple[float, float]:
    longest = max(_columns(_shown(line)) for line in box.lines)
    mark = (len(box.mark) + 2) * _LETTER if box.mark else 0.0
    first = _columns(_shown(box.lines[0])) * _LETTER * 1.1 + mark
    return max(longest * _LETTER, first, 56.0) + 2 * _PAD, len(box.lines) * _LINE + _PAD


def _legend() -> Iterator[str]:
    x = _GAP
    for kind, (fill, stroke) in COLORS.items():
        yield f'<rect x="{x:.1f}" y="10" width="12" height="12" rx="2" fill="{fill}" stroke="{stroke}"/>'
        yield f'<text x="{x + 17:.1f}" y="20">{kind}</text>'
        x += 17 + len(kind) * _LETTER + _GAP


def _panel(side: _Side, x: float, width: float, title: str, left_out: int) -> Iterator[str]:
    note = f"   {left_out} nodes left out" if left_out else ""
    yield f'<text x="{x:.1f}" y="{_HEAD - 20:.1f}" font-weight="bold">{escape(_shown(title) + note)}</text>'
    start = x + (width - (side.right - side.left)) / 2 - side.left
    yield f'<g transform="translate({start:.1f} {_HEAD:.1f})">'
    for path in side.paths:
        yield f'<path d="{path}" fill="none" stroke="#52606d" marker-end="url(#a)"/>'
    for box, position in side.boxes:
        yield from _box(box, position)
    yield "</g>"


def _box(box: Box, placed: Position) -> Iterator[str]:
    fill, stroke = COLORS[box.kind]
    yield (
        f'<g><title>{escape(chr(10).join(map(clean, box.lines)))}</title><rect x="{placed.x:.1f}" y="{placed.y:.1f}" '
        f'width="{placed.width:.1f}" height="{placed.height:.1f}" rx="4" fill="{fill}" stroke="{stroke}"/>'
    )
    for index, line in enumerate(box.lines):
        y = placed.y + _LINE * (index + 1) - 1
        weight = ' font-weight="bold"' if index == 0 else ""
        yield f'<text x="{placed.x + _PAD:.1f}" y="{y:.1f}"{weight}>{escape(_shown(line))}</text>'
    if box.mark:
        x = placed.x + placed.width - _PAD
        y = placed.y + _LINE - 1
        yield f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="end" fill="{stroke}">{escape(box.mark)}</text>'
    yield "</g>"
