"""What the pictures of benchmarks share: colours for light and dark pages, texts, and logarithmic axes.

A picture is one SVG file without scripts or fonts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from atcpy.report.page.markup import Html, element

# Colours of the background, text and grid, and of each series in order.
LIGHT: Final = (
    "#ffffff", "#1f2933", "#d5dbe1",
    "#1d4ed8", "#b45309", "#6d28d9", "#15803d", "#be185d", "#0e7490", "#737373",
)  # fmt: skip
DARK: Final = (
    "#0d1117", "#e6edf3", "#3a424c",
    "#60a5fa", "#fbbf24", "#c4b5fd", "#4ade80", "#f472b6", "#22d3ee", "#a3a3a3",
)  # fmt: skip
MAX_SERIES: Final = len(LIGHT) - 3
LETTER: Final = 7.0  # the width of a letter
FONT: Final = "system-ui, sans-serif"
_TICKS: Final = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)


class LogAxis:
    """A logarithmic axis of `length` that holds all ratios and 1, from the position `first` on."""

    def __init__(self, ratios: Sequence[float], first: float, length: float) -> None:
        # The labels of the outermost ratios need room.
        self.low, self.high = min(0.75, *ratios) / 1.3, max(1.33, *ratios) * 1.3
        self._first, self._length = first, length

    def at(self, ratio: float) -> float:
        """Where a ratio lies; a negative length counts from the bottom up."""
        return self._first + self._length * math.log(ratio / self.low) / math.log(self.high / self.low)

    def ticks(self) -> Iterator[float]:
        """Round ratios of the axis."""
        yield from (tick for tick in _TICKS if self.low <= tick <= self.high)


def picture(title: str, width: float, height: float, parts: Sequence[Html], rules: str = "") -> str:
    """The file: the parts on a page of this size; `rules` are further ones of CSS, for classes of the parts."""
    page = element("rect", width=f"{width:.0f}", height=f"{height:.0f}", class_="page")
    return (
        element(
            "svg", element("title", title), element("style", Html(f"{_style()} {rules}".strip())), page, *parts,
            xmlns="http://www.w3.org/2000/svg", role="img", viewBox=f"0 0 {width:.0f} {height:.0f}",
            width=f"{width:.0f}", height=f"{height:.0f}",
        )
        + "\n"
    )  # fmt: skip


def text(content: str, x: float, y: float, **attributes: str) -> Html:
    """A line of text that begins, or by `text_anchor` ends, at a point."""
    return element("text", content, x=f"{x:.1f}", y=f"{y:.1f}", **attributes)


def _style() -> str:
    dark = " ".join(_rules(DARK))
    return f"text {{ font: 12px {FONT} }} {' '.join(_rules(LIGHT))} @media (prefers-color-scheme: dark) {{ {dark} }}"


def _rules(colors: Sequence[str]) -> Iterator[str]:
    page, ink, grid, *series = colors
    yield f".page {{ fill: {page} }} text {{ fill: {ink} }} .grid {{ stroke: {grid} }} .one {{ stroke: {ink} }}"
    for number, color in enumerate(series):
        yield f".fill{number} {{ fill: {color} }} .line{number} {{ stroke: {color}; fill: none }}"
