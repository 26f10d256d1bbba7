"""Tasks against the roofline of the machine: operations a second by operations a byte, both on logarithmic axes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from atcpy.kernels.table import kernel_table
from atcpy.report.page.markup import Html, element, join
from atcpy.report.page.measured import MeasuredTask
from atcpy.report.units import duration, size
from atcpy.runtime.roofline import Roofline

MAX_DRAWN = 1500  # tasks, those of most time
FAMILY_COLORS = 6  # of the kernel families of most time; the others share one
_NAMED = 5  # tasks, those that lose most time against their floor
_NAME_LETTERS = 40
_LETTER = 6.7  # the width of a letter
_WIDTH, _HEIGHT, _LEFT, _TOP = 900.0, 420.0, 70.0, 16.0


class _Scale:
    """Powers of ten that hold all points."""

    def __init__(self, values: Sequence[float], length: float) -> None:
        logs = [math.log10(value) for value in values]
        self.low, self.high = math.floor(min(logs)), math.ceil(max(logs))
        self.high = max(self.high, self.low + 1)
        self._length = length

    def at(self, value: float) -> float:
        """Pixels from the lower end."""
        return self._length * (math.log10(value) - self.low) / (self.high - self.low)

    def powers(self) -> Iterator[float]:
        for power in range(self.low, self.high + 1):
            yield 10.0**power


def draw_roofline(tasks: Sequence[MeasuredTask], roofline: Roofline) -> Html | None:
    """The picture; None where no task sums products."""
    points = [task for task in tasks if task.flops and task.nbytes and task.seconds]
    points = sorted(points, key=lambda task: -task.seconds)[:MAX_DRAWN]
    if not points:
        return None
    ratios = [(task.flops or 0) / task.nbytes for task in points]
    rates = [(task.flops or 0) / task.seconds for task in points]
    peak = roofline.flops_per_second
    slopes = sorted({each.bytes_per_second for each in roofline.bandwidths})
    x = _Scale([*ratios, *(peak / slope for slope in slopes)], _WIDTH)
    y = _Scale([*rates, peak], _HEIGHT)

    def right(ratio: float) -> float:
        return _LEFT + x.at(ratio)

    def down(rate: float) -> float:
        return _TOP + _HEIGHT - y.at(rate)

    lines = [*_axes(x, y)]
    for bandwidth in roofline.bandwidths:
        low = max(10.0**x.low, 10.0**y.low / bandwidth.bytes_per_second)
        ridge = min(peak / bandwidth.bytes_per_second, 10.0**x.high)
        if low >= ridge:
            continue
        path = f"M{right(low):.1f} {down(low * bandwidth.bytes_per_second):.1f}"
        path += f"L{right(ridge):.1f} {down(min(ridge * bandwidth.bytes_per_second, peak)):.1f}"
        title = f"{bandwidth.bytes_per_second * 1e-9:.4g} GB/s for {size(bandwidth.bytes)}"
        lines.append(element("path", element("title", title), d=path, class_="roof"))
    top = f"M{right(min(peak / slopes[-1], 10.0**x.high)):.1f} {down(peak):.1f}H{_LEFT + _WIDTH:.1f}"
    lines.append(element("path", element("title", f"{peak * 1e-9:.4g} GFLOP/s"), d=top, class_="roof"))
    longest = points[0].seconds
    colors = _colors(points)
    for task, ratio, rate in zip(points, ratios, rates, strict=True):
        family = family_of(task.kernel)
        nodes = task.node or ", ".join(task.sources[:3])
        title = f"{task.op} {nodes}, {family}\n{duration(task.seconds)}, {rate * 1e-9:.4g} GFLOP/s"
        if task.floor is not None:
            title += f", {task.floor / task.seconds:.0%} of the roofline"
        radius = 3 + 7 * math.sqrt(task.seconds / longest)
        circle = {"cx": f"{right(ratio):.1f}", "cy": f"{down(rate):.1f}", "r": f"{radius:.1f}"}
        lines.append(element("circle", element("title", title), class_=f"dot f{colors[family]}", **circle))
    lines += _names(points, [(right(ratio), down(rate)) for ratio, rate in zip(ratios, rates, strict=True)])
    lines += _legend(colors)
    width, height = _LEFT + _WIDTH + 20, _TOP + _HEIGHT + 64
    name = f"{len(points)} tasks against the roofline"
    return element(
        "svg", element("title", name), *lines, role="img", class_="chart", viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}", height=f"{height:.0f}", xmlns="http://www.w3.org/2000/svg",
    )  # fmt: skip


def family_of(kernel: str) -> str:
    """The family of a kernel row; what is no row is its own."""
    return _families().get(kernel, kernel)


@cache
def _families() -> Mapping[str, str]:
    return {row.name: row.family for row in kernel_table()}


def _name(task: MeasuredTask) -> str:
    return f"{task.op} {task.node or next(iter(task.sources), '')}"


def _colors(tasks: Sequence[MeasuredTask]) -> dict[str, int]:
    """The number of the colour of each family, those of most time first."""
    seconds: dict[str, float] = defaultdict(float)
    for task in tasks:
        seconds[family_of(task.kernel)] += task.seconds
    ordered = sorted(seconds, key=lambda family: -seconds[family])
    return {family: min(number, FAMILY_COLORS) for number, family in enumerate(ordered)}


def _names(tasks: Sequence[MeasuredTask], points: Sequence[tuple[float, float]]) -> Iterator[Html]:
    """The names of the tasks that lose most, beside their circles; one that would cover another is left out."""
    lost = [0.0 if task.floor is None else task.seconds - task.floor for task in tasks]
    written: list[tuple[float, float, float]] = []
    for number in sorted(range(len(tasks)), key=lambda number: -lost[number])[:_NAMED]:
        x, y = points[number]
        name = _name(tasks[number])
        name = name if len(name) <= _NAME_LETTERS else name[: _NAME_LETTERS - 1] + "…"
        length = _LETTER * len(name)
        left = x + 12 if x + 12 + length < _LEFT + _WIDTH else x - 12 - length
        is_free = all(abs(y - other) > 12 or left > end or left + length < begin for begin, end, other in written)
        if lost[number] > 0 and is_free:
            written.append((left, left + length, y))
            yield element("text", name, x=f"{left:.1f}", y=f"{y + 4:.1f}")


def _legend(colors: Mapping[str, int]) -> Iterator[Html]:
    x, y = _LEFT, _TOP + _HEIGHT + 54
    families = [family for family, color in colors.items() if color < FAMILY_COLORS]
    entries = list(enumerate(families))
    if len(families) < len(colors):
        entries.append((FAMILY_COLORS, "others"))
    for color, label in entries:
        yield element("circle", cx=f"{x + 5:.1f}", cy=f"{y - 4:.1f}", r="5", class_=f"dot f{color}")
        yield element("text", label, x=f"{x + 14:.1f}", y=f"{y:.1f}")
        x += 30 + _LETTER * len(label)


def _axes(x: _Scale, y: _Scale) -> Iterator[Html]:
    bottom = _TOP + _HEIGHT
    for power in x.powers():
        at = _LEFT + x.at(power)
        yield element("path", d=f"M{at:.1f} {_TOP}V{bottom}", class_="grid")
        yield element("text", f"{power:g}", x=f"{at:.1f}", y=f"{bottom + 16:.0f}", text_anchor="middle")
    for power in y.powers():
        at = bottom - y.at(power)
        yield element("path", d=f"M{_LEFT} {at:.1f}H{_LEFT + _WIDTH}", class_="grid")
        yield element("text", f"{power * 1e-9:g}", x=f"{_LEFT - 8}", y=f"{at + 4:.1f}", text_anchor="end")
    labels = join(
        [
            element(
                "text", "operations a byte", x=f"{_LEFT + _WIDTH / 2}", y=f"{bottom + 36:.0f}", text_anchor="middle"
            ),
            element("text", "GFLOP/s", x=f"{_LEFT + 6}", y=f"{_TOP + 12}"),
        ]
    )
    yield labels
