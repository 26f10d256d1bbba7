"""The arena of a plan as a picture, offset × time: SVG without scripts, fonts or anything else from elsewhere.

Each buffer is a rectangle from its first task to its last, as high as its block; its tooltip has the whole text. Those
that are too small to see are drawn together, so that the file stays small however many tasks there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from xml.sax.saxutils import escape

from atcpy.errors import count_of
from atcpy.report.memory_plan import ArenaBuffer, ArenaPlan
from atcpy.report.svg_text import clean, shortened
from atcpy.report.units import size

MAX_DRAWN = 2000  # buffers with a rectangle of their own
MAX_MERGED = 2000  # rectangles for all others
MAX_LISTED = 20  # buffers that are named below the picture
_MAX_OUTLINED = 500  # buffers of the peak with a rectangle of their own
_WIDTH, _HEIGHT = 1120, 600  # of the plot; one bit a row
_LEFT, _TOP, _LINE, _LETTER = 96, 88, 16, 6.7
_SMALLEST = 1.5  # pixels of a side that can be seen
_MAX_LETTERS = 64  # of a name in a tooltip
COLORS = (
    "#93c5fd", "#86efac", "#fcd34d", "#c4b5fd", "#f9a8d4", "#67e8f9", "#bef264", "#fdba74",
    "#a5b4fc", "#6ee7b7", "#fde047", "#d8b4fe", "#fda4af", "#7dd3fc", "#d9f99d", "#e9d5ff",
)  # fmt: skip
_PEAK, _MERGED, _INK = "#c81e1e", "#9aa5b1", "#1f2933"


@dataclass(frozen=True, slots=True)
class _Scale:
    """Tasks and bytes to pixels; offsets grow upwards."""

    tasks: int
    nbytes: int

    def x(self, task: float) -> float:
        return _LEFT + _WIDTH * task / self.tasks

    def y(self, offset: float) -> float:
        return _TOP + _HEIGHT - _HEIGHT * offset / self.nbytes

    def width(self, buffer: ArenaBuffer) -> float:
        return _WIDTH * (buffer.block.last + 1 - buffer.block.first) / self.tasks

    def height(self, buffer: ArenaBuffer) -> float:
        return _HEIGHT * buffer.block.nbytes / self.nbytes


def draw_arena(plan: ArenaPlan, title: str) -> str:
    """Return the picture of a plan."""
    scale = _Scale(max(len(plan.tasks), 1), max(plan.arena_bytes, 1))
    at_peak = plan.at_peak
    bounding = set(at_peak)
    drawn = _chosen(plan, scale, at_peak[:_MAX_OUTLINED])
    merged = [buffer for buffer in plan.buffers if buffer not in drawn]
    listed = at_peak[:MAX_LISTED]
    width, height = _LEFT + _WIDTH + 24, _TOP + _HEIGHT + 60 + _LINE * (len(listed) + 2)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" font-family="monospace" font-size="11" fill="{_INK}">',
        f"<title>{escape(shortened(title, 100))}: the arena, by task and offset</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *_head(plan, title, len(merged)),
        *_sections(plan, scale),
        *_merged(merged, scale),
        *(line for buffer in plan.buffers if buffer in drawn for line in _buffer(buffer, plan, scale, bounding)),
        *_axes(plan, scale),
        *_list(plan, listed, len(at_peak)),
    ]
    return "\n".join([*lines, "</svg>", ""])


def _chosen(plan: ArenaPlan, scale: _Scale, at_peak: Sequence[ArenaBuffer]) -> set[ArenaBuffer]:
    """The buffers with a rectangle of their own: those of the peak, and the largest that can be seen."""
    seen = [b for b in plan.buffers if min(scale.width(b), scale.height(b)) >= _SMALLEST]
    seen.sort(key=lambda b: -scale.width(b) * scale.height(b))
    return {*at_peak, *seen[:MAX_DRAWN]}


def _head(plan: ArenaPlan, title: str, merged: int) -> Iterator[str]:
    bound = plan.peak.nbytes
    over = f", {100 * plan.arena_bytes / bound - 100:.1f} % above it" if plan.arena_bytes > bound else ""
    facts = f"arena {plan.arena_bytes} bytes, lower bound {bound}{over}"
    counted = f"{count_of(len(plan.buffers), 'buffer')} of {count_of(len(plan.tasks), 'task')}"
    left_out = f"; {merged} too small to see one by one are drawn together in grey" if merged else ""
    yield f'<text x="{_LEFT}" y="24" font-size="14" font-weight="bold">{escape(shortened(title, 100))}</text>'
    yield f'<text x="{_LEFT}" y="44">{facts}; {counted}{left_out}</text>'
    streams = sorted({buffer.stream for buffer in plan.buffers})
    if len(streams) > 1:
        x = float(_LEFT)
        for stream in streams[: len(COLORS)]:
            yield f'<rect x="{x:.1f}" y="56" width="11" height="11" fill="{_color(stream)}" stroke="{_INK}"/>'
            yield f'<text x="{x + 15:.1f}" y="66">stream {stream}</text>'
            x += 15 + 10 * _LETTER


def _color(stream: int) -> str:
    return COLORS[stream % len(COLORS)]


def _sections(plan: ArenaPlan, scale: _Scale) -> Iterator[str]:
    """Bands behind the tasks whose streams run beside each other."""
    for section in plan.sections[:MAX_MERGED]:
        x, end = scale.x(section.start), scale.x(section.stop)
        title = f"<title>streams run beside each other: tasks {section.start} to {section.stop - 1}</title>"
        yield f'<rect x="{x:.1f}" y="{_TOP}" width="{end - x:.1f}" height="{_HEIGHT}" fill="#eef1f4">{title}</rect>'


def _buffer(buffer: ArenaBuffer, plan: ArenaPlan, scale: _Scale, bounding: Set[ArenaBuffer]) -> Iterator[str]:
    block = buffer.block
    x, y = scale.x(block.first), scale.y(buffer.end)
    width, height = max(scale.width(buffer), _SMALLEST), max(scale.height(buffer), _SMALLEST)
    stroke = f'stroke="{_PEAK}" stroke-width="1.5"' if buffer in bounding else f'stroke="{_INK}" stroke-width="0.4"'
    yield (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{_color(buffer.stream)}" '
        f"{stroke}><title>{escape(_tooltip(buffer, plan))}</title></rect>"
    )
    letters = int((width - 6) / _LETTER)
    if height >= 12 and letters >= 6:
        name = buffer.value_at(plan.peak.task) if buffer in bounding else buffer.values[0][1]
        shown = escape(shortened(name, letters))
        yield f'<text x="{x + 3:.1f}" y="{y + height / 2 + 4:.1f}" pointer-events="none">{shown}</text>'


def _tooltip(buffer: ArenaBuffer, plan: ArenaPlan) -> str:
    block = buffer.block
    more = len(buffer.names) - 4
    names = ", then ".join(shortened(name, _MAX_LETTERS) for name in buffer.names[:4])
    first, last = (shortened(plan.tasks[task], _MAX_LETTERS) for task in (block.first, block.last))
    return "\n".join(
        [
            names + (f" and {more} more" if more > 0 else ""),
            f"{size(block.nbytes)}, {block.nbytes} bytes at {block.offset}",
            f"tasks {block.first} ({first}) to {block.last} ({last}), stream {buffer.stream}",
        ]
    )


def _merged(buffers: Sequence[ArenaBuffer], scale: _Scale) -> Iterator[str]:
    """Rectangles that cover buffers, on columns as narrow as the number of rectangles allows."""
    column = 2
    while len(found := _covering(buffers, scale, column)) > MAX_MERGED and column < _WIDTH:
        column *= 2
    for first, end, low, high in found[:MAX_MERGED]:
        x, width = _LEFT + first * column, (end - first) * column
        yield f'<rect x="{x}" y="{_TOP + _HEIGHT - high}" width="{width}" height="{high - low}" fill="{_MERGED}"/>'


def _covering(buffers: Sequence[ArenaBuffer], scale: _Scale, column: int) -> list[tuple[int, int, int, int]]:
    """Rectangles (first column, behind the last, lowest row, behind the highest), each as wide as the rows stay."""
    rows = [0] * (_WIDTH // column + 1)  # the rows that are covered, a bit each
    for buffer in buffers:
        low = int(_HEIGHT * buffer.block.offset / scale.nbytes)
        high = max(int(_HEIGHT * buffer.end / scale.nbytes), low + 1)
        first = int((scale.x(buffer.block.first) - _LEFT) / column)
        end = max(int((scale.x(buffer.block.last + 1) - _LEFT) / column), first + 1)
        bits = (1 << high) - (1 << low)
        for index in range(first, min(end, len(rows))):
            rows[index] |= bits
    found: list[tuple[int, int, int, int]] = []
    begun: dict[tuple[int, int], int] = {}
    for index, bits in enumerate([*rows, 0]):
        runs = set(_runs(bits))
        for run in [run for run in begun if run not in runs]:
            found.append((begun.pop(run), index, *run))
        for run in sorted(runs):
            begun.setdefault(run, index)
    return sorted(found)


def _runs(bits: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of ones: the first bit, and the one behind the last."""
    at = 0
    while bits:
        zeros = (bits & -bits).bit_length() - 1
        bits >>= zeros
        ones = (~bits & (bits + 1)).bit_length() - 1
        yield at + zeros, at + zeros + ones
        bits >>= ones
        at += zeros + ones


def _axes(plan: ArenaPlan, scale: _Scale) -> Iterator[str]:
    bottom, right = _TOP + _HEIGHT, _LEFT + _WIDTH
    yield f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" stroke="{_INK}"/>'
    yield f'<text x="{_LEFT - 6}" y="{bottom}" text-anchor="end">0</text>'
    yield f'<text x="{_LEFT - 6}" y="{_TOP + 8}" text-anchor="end">{size(plan.arena_bytes)}</text>'
    yield f'<text x="{_LEFT}" y="{bottom + 16}">task 0</text>'
    yield f'<text x="{right}" y="{bottom + 16}" text-anchor="end">{len(plan.tasks) - 1}</text>'
    if plan.peak.nbytes < plan.arena_bytes:
        y = scale.y(plan.peak.nbytes)
        line = f'stroke="{_PEAK}" stroke-dasharray="6 4"'
        yield f'<path d="M{_LEFT} {y:.1f}H{right}" {line}><title>lower bound {plan.peak.nbytes}</title></path>'
    if plan.tasks:
        x = scale.x(plan.peak.task + 0.5)
        yield f'<path d="M{x:.1f} {_TOP - 6}V{bottom + 6}" stroke="{_PEAK}"><title>the peak</title></path>'
        yield f'<text x="{x:.1f}" y="{bottom + 30}" text-anchor="middle" fill="{_PEAK}">peak</text>'


def _list(plan: ArenaPlan, listed: Sequence[ArenaBuffer], count: int) -> Iterator[str]:
    if not listed:
        return
    y = _TOP + _HEIGHT + 60
    node = shortened(plan.tasks[plan.peak.task], 60)
    head = (
        f"in use at the peak, task {plan.peak.task} ({node}): {plan.peak.nbytes} bytes in {count_of(count, 'buffer')}"
    )
    yield f'<text x="{_LEFT}" y="{y}" font-weight="bold">{escape(clean(head))}</text>'
    for number, buffer in enumerate(listed):
        block = buffer.block
        name = shortened(buffer.value_at(plan.peak.task), 100)
        text = f"{size(block.nbytes):>10}  {name}  (tasks {block.first} to {block.last})"
        y += _LINE
        more = f", and {count - len(listed)} more" if number == len(listed) - 1 and count > len(listed) else ""
        yield f'<text x="{_LEFT}" y="{y}" xml:space="preserve">{escape(text + more)}</text>'
