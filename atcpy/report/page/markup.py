"""HTML out of elements: whatever is not an element itself is text, and is escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape

from atcpy.report.record import to_json
from atcpy.report.svg_text import clean

_MAX_LETTERS = 400  # of one text
_EMPTY = frozenset({"input", "meta"})


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Content = Html | str | int


def text(content: Content) -> Html:
    """Content as HTML. Text loses its control characters, and what is beyond a few lines of it."""
    if isinstance(content, Html):
        return content
    line = str(content)
    shown = line if len(line) <= _MAX_LETTERS else line[:_MAX_LETTERS] + "…"
    return Html(escape(clean(shown)))


def element(name: str, /, *children: Content, **attributes: str | bool | None) -> Html:
    """An element. Attributes that are None or False are left out; `_` in their names is `-`, at the end nothing."""
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{text(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _EMPTY:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{join(children)}</{name}>")


def join(children: Iterable[Content]) -> Html:
    """Contents one behind the other."""
    return Html("".join(map(text, children)))


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Content]], *, right: Iterable[int] = ()) -> Html:
    """A table in a frame that scrolls, with a keyboard too; the columns listed in `right` are flush right."""
    numbers = frozenset(right)
    kinds = ["n" if index in numbers else None for index in range(len(head))]
    columns = join(element("th", name, scope="col", class_=kind) for name, kind in zip(head, kinds, strict=True))
    body = join(
        element("tr", *(element("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True)))
        for row in rows
    )
    whole = element(
        "table", element("caption", caption), element("thead", element("tr", columns)), element("tbody", body)
    )
    return scrolling(caption, whole)


def scrolling(label: str, *children: Content) -> Html:
    """A frame that scrolls where its content is wider than the page."""
    return element("div", *children, class_="scroll", role="region", aria_label=label, tabindex="0")


def details(summary: Content, *children: Content, open_: bool = False) -> Html:
    """Content that is shown on demand."""
    return element("details", element("summary", summary), *children, open=open_)


def data_block(name: str, value: object) -> Html:
    """A value as JSON for scripts; no text of it can end the element or begin another."""
    written = json.dumps(to_json(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    harmless = written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Html(f'<script type="application/json" id="{name}">{harmless}</script>')
