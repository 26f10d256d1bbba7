"""The page as a whole: sections, the data of the graph, one style and one script, which alone may run."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from atcpy.files import read_text
from atcpy.report.package import PackageView
from atcpy.report.page import sections
from atcpy.report.page.accuracy import ComparedValue, worst_first
from atcpy.report.page.graph import graph_data
from atcpy.report.page.markup import Content, Html, data_block, element, join
from atcpy.report.page.measured import Measured

_FOLDER = Path(__file__).parent
_KEYS = (
    ("arrows", "walk from node to node"),
    ("Shift + arrows", "move the picture"),
    ("+ −", "zoom"),
    ("0", "all of the graph"),
    ("Enter", "the body of a node that has one"),
    ("Backspace", "back from a body"),
    ("/", "search"),
)


def report_page(
    view: PackageView, measured: Measured | None = None, compared: Sequence[ComparedValue] | None = None
) -> str:
    """Return the page of a package, with what was measured of its tasks and compared of their values."""
    summary = view.summary()
    tasks = view.tasks()
    seconds = _seconds_by_node(view, measured)
    parts = [
        sections.overview(view, summary),
        sections.notes(view, summary),
        _graph_section(sections.task_table(tasks)),
        sections.stages(view, summary),
        sections.operators(tasks),
        sections.passes(view),
        sections.memory(view, summary),
    ]
    if measured is not None:
        parts.append(sections.times(measured))
    if compared is not None:
        parts.append(sections.accuracy(compared))
    errors = {} if compared is None else {value.node: value.share for value in reversed(worst_first(compared))}
    return _document(view.path.name, parts, graph_data(view, seconds, errors))


def _seconds_by_node(view: PackageView, measured: Measured | None) -> Mapping[str, float]:
    """Seconds of a run by the name of the node; that of tasks which name the model's nodes alone is looked up."""
    if measured is None:
        return {}
    by_sources = {tuple(node.sources): node.name for node in view.graph.nodes if node.sources}
    found: dict[str, float] = {}
    for task in measured.tasks:
        name = task.node or by_sources.get(task.sources) or next(iter(task.sources), "")
        found[name] = found.get(name, 0.0) + task.seconds
    return found


def _graph_section(without_script: Html) -> Html:
    search = element(
        "input", id="search", type="search", autocomplete="off", spellcheck="false",
        placeholder="name, op, kernel, format …",
    )  # fmt: skip
    tools = element(
        "div",
        element("label", "Search ", search),
        element("label", "Colour by ", element("select", id="colour")),
        _button("zoom-in", "+", "Zoom in"),
        _button("zoom-out", "−", "Zoom out"),
        _button("fit", "all", "Show all of the graph"),
        _button("back", "back", "Back from a body"),
        class_="tools",
    )
    canvas = element(
        "canvas", id="graph", tabindex="0", role="application", aria_label="Graph of the package",
        aria_describedby="keys",
    )  # fmt: skip
    listing = element("div", id="list", role="listbox", tabindex="0", aria_label="Nodes")
    node = element(
        "div", element("p", "Choose a node."), id="node", class_="side", role="region", aria_label="Node", tabindex="0"
    )
    panels = element(
        "div",
        element("div", element("p", id="matches", role="status"), listing, class_="side"),
        element("div", canvas, element("ul", id="legend"), class_="picture"),
        node,
        class_="panels",
    )
    keys = join(
        join([element("kbd", key), f" {meaning}", " · " if index < len(_KEYS) - 1 else ""])
        for index, (key, meaning) in enumerate(_KEYS)
    )
    explained = element("p", "Drag to move, wheel to zoom. Keys in the graph: ", keys, id="keys")
    live = element("p", id="said", class_="hidden", aria_live="polite")
    viewer = element("div", tools, panels, explained, live, id="viewer", hidden=True)
    return sections.section("graph-section", "Graph", viewer, without_script)


def _button(name: str, shown: str, label: str) -> Html:
    return element("button", shown, type="button", id=name, aria_label=label)


def _document(name: str, parts: list[Html], data: Mapping[str, object]) -> str:
    style, script = (Html(read_text(_FOLDER / file)) for file in ("style.css", "script.js"))
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"
    )
    title = f"{name}: atcpy report"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", style),
    )
    links = [
        element("a", heading, href=f"#{part}")
        for part, heading in (
            ("overview", "Package"), ("graph-section", "Graph"), ("stages", "Stages"), ("operators", "Tasks"),
            ("passes", "Passes"), ("memory", "Memory"), ("times", "Times"), ("accuracy", "Accuracy"),
        )
        if any(f'id="{part}"' in each for each in parts)
    ]  # fmt: skip
    header: list[Content] = [element("h1", name), element("nav", *links, aria_label="Sections")]
    body = element(
        "body", element("header", *header), element("main", *parts), data_block("data", data), element("script", script)
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _hash(content: str) -> str:
    """What a policy calls the content of an element that it allows."""
    return f"'sha256-{b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
