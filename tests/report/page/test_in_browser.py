"""The page in a real browser: no error, no request, usable by keyboard and pointer, light and dark."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path

import onnx
import pytest

import atcpy
from tests.chromium import Page, browser, need_chromium
from tests.models_in_text import model
from tests.sources import REPO

pytestmark = [need_chromium, pytest.mark.slow]

# The rules of axe-core; a newer version than that of the locked package may be tried.
AXE = Path(os.environ.get("ATCPY_AXE") or files("axe_core_python").joinpath("axe.min.js"))
IDS = {"said": "textContent", "matches": "textContent", "node": "innerText", "legend": "innerText"}
EVIL = "</script x <!--<script </script><img src=x onerror=window.owned=1><b>"
BODIES = """m (bool c, float[4] x) => (float[4] y) {
    z = If(c) <
        then_branch = t () => (float[4] a) { [negate] a = Neg(x) },
        else_branch = e () => (float[4] b) { [exp] b = Exp(x) }
    >
    [last] y = Softmax(z)
}"""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a package, with times."""
    folder = tmp_path_factory.mktemp("digits")
    atcpy.convert(REPO / "models" / "digits" / "digits.onnx", folder / "digits.om")
    times = folder / "bench.json"
    result = atcpy.bench(folder / "digits.om", min_time=0, warmup=1, layers=True, threads=1)
    layers = [asdict(layer) for layer in result.layers]
    times.write_text(json.dumps({"result": {"layers": layers}}), encoding="utf-8")
    atcpy.report(folder / "digits.om", bench=times)
    return folder / "digits.html"


def show(page: Page, path: Path, **options: bool | int) -> None:
    page.problems.clear()
    page.requests.clear()
    page.open(path, **options)  # type: ignore[arg-type]


def shown(page: Page, name: str) -> str:
    text = page.run(f"document.getElementById('{name}').{IDS[name]}")
    assert isinstance(text, str)
    return text


def colour(page: Page, x: float, y: float) -> list[int]:
    """The colour of the canvas at a place, in shares of its size."""
    expression = f"""(() => {{
        const graph = document.getElementById("graph"), copy = document.createElement("canvas");
        copy.width = copy.height = 1;
        const context = copy.getContext("2d");
        context.drawImage(graph, -Math.floor(graph.width * {x}), -Math.floor(graph.height * {y}));
        return [...context.getImageData(0, 0, 1, 1).data];
    }})()"""
    found: list[int] = page.run(expression)
    return found


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_opens_without_an_error_and_asks_for_nothing(page: Page, digits: Path, dark: bool) -> None:
    show(page, digits, dark=dark)
    assert page.problems == []
    assert page.requests == [digits.as_uri()]
    assert shown(page, "matches") == "14 of 14 nodes"
    ground = colour(page, 0.01, 0.5)
    assert (max(ground[:3]) < 60) if dark else (min(ground[:3]) == 255)
    body = page.run("getComputedStyle(document.body).backgroundColor")
    assert body == f"rgb({ground[0]}, {ground[1]}, {ground[2]})"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1400, 700])
def test_axe_finds_nothing(page: Page, digits: Path, dark: bool, width: int) -> None:
    show(page, digits, dark=dark, width=width)
    page.run("document.getElementById('graph').focus()")
    page.press("ArrowDown")
    page.run("for (const d of document.querySelectorAll('details')) d.open = true")
    page.run(AXE.read_text(encoding="utf-8") + "; 1")
    found = page.run("axe.run().then((r) => r.violations.map((v) => [v.id, v.impact, v.nodes[0].html]))")
    assert found == []


def test_the_keyboard_alone_walks_the_graph(page: Page, digits: Path) -> None:
    show(page, digits)
    page.run("document.getElementById('search').focus()")
    for _ in range(6):  # select, four buttons of which one is off, list, graph
        page.press("Tab")
    assert page.run("document.activeElement.id") == "graph"
    page.press("ArrowDown")
    assert shown(page, "said") == "Data image"
    page.press("ArrowDown")
    assert shown(page, "said").startswith("FusedConv /stem/relu/Relu")
    details = shown(page, "node")
    for part in ("AIcoreEngine", "NC1HWC0", "conv2d", "/stem/conv/Conv", "ConvReluFusionPass", "a run", "Read by"):
        assert part in details
    page.press("ArrowUp")
    assert shown(page, "said") == "Data image"
    ground = colour(page, 0.01, 0.5)
    page.press("0")
    page.settle()
    assert colour(page, 0.42, 0.5) == ground
    for _ in range(8):
        page.press("+")
    page.settle()
    assert colour(page, 0.42, 0.5) != ground  # boxes are wider now
    for _ in range(20):
        page.press("ArrowRight", shift=True)
    page.settle()
    assert colour(page, 0.5, 0.5) == ground
    assert page.problems == []


def test_search_and_list(page: Page, digits: Path) -> None:
    show(page, digits)
    page.run("document.getElementById('graph').focus()")
    page.press("/")
    assert page.run("document.activeElement.id") == "search"
    page.type("fusedconv NC1hwc0 block1")
    assert shown(page, "matches") == "2 of 14 nodes"
    page.press("Enter")
    first = shown(page, "said")
    page.press("Enter")
    assert shown(page, "said") != first
    page.press("ArrowDown")
    assert page.run("document.activeElement.id") == "list"
    page.press("Home")
    assert shown(page, "said") == first
    chosen = page.run(
        "document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).textContent"
    )
    assert chosen.split() == first.split()


def test_the_pointer_pans_zooms_and_chooses(page: Page, digits: Path) -> None:
    show(page, digits)
    box = page.run("((b) => [b.x, b.y, b.width])(document.getElementById('graph').getBoundingClientRect())")
    middle = box[0] + box[2] / 2
    page.mouse("mousePressed", middle, box[1] + 22)
    page.mouse("mouseReleased", middle, box[1] + 22)
    assert shown(page, "said") == "Data image"
    page.mouse("mousePressed", middle, box[1] + 22)
    page.mouse("mouseMoved", middle + 300, box[1] + 72)
    page.mouse("mouseReleased", middle + 300, box[1] + 72)
    page.mouse("mousePressed", middle + 300, box[1] + 72)
    page.mouse("mouseReleased", middle + 300, box[1] + 72)
    assert shown(page, "said") == "Data image"
    page.run("document.querySelectorAll('#node button')[0].click()")
    assert shown(page, "said").startswith("FusedConv")


def test_bodies_open_and_close(page: Page, tmp_path: Path) -> None:
    onnx.save(model(BODIES), tmp_path / "m.onnx")
    atcpy.convert(tmp_path / "m.onnx", tmp_path / "m.om")
    show(page, Path(atcpy.report(tmp_path / "m.om").output))
    assert page.problems == []
    page.run("document.getElementById('search').focus()")
    page.type("exp")
    page.press("Enter")
    assert shown(page, "said").startswith("Exp")
    page.run("document.getElementById('graph').focus()")
    page.press("Backspace")
    page.press("ArrowDown")
    assert not shown(page, "said").startswith("Exp")
    page.run("document.getElementById('search').value = ''")
    page.run("document.getElementById('search').dispatchEvent(new Event('input'))")
    page.run("document.getElementById('search').focus()")
    page.type("if")
    page.press("Enter")
    assert shown(page, "said").startswith("If")
    assert "open its body" in shown(page, "node")


def test_hostile_names_run_nothing(page: Page, tmp_path: Path) -> None:
    proto = model("m (float[4] x) => (float[4] y) { a = Softmax(x) y = Softmax(a) }")
    for number, node in enumerate(proto.graph.node):
        node.name = f"{EVIL}{number}"
    onnx.save(proto, tmp_path / "m.onnx")
    atcpy.convert(tmp_path / "m.onnx", tmp_path / "m.om")
    atcpy.report(tmp_path / "m.om", tmp_path / "m.html")
    show(page, tmp_path / "m.html")
    page.run("document.getElementById('graph').focus()")
    page.press("ArrowDown")
    page.press("ArrowDown")
    assert EVIL in shown(page, "said")
    assert EVIL in shown(page, "node")
    assert page.run(
        "[window.owned === undefined, document.images.length, document.querySelectorAll('#viewer b').length]"
    ) == [True, 0, 0]
    assert page.problems == []
    assert len(page.requests) == 1
    page.run("const s = document.createElement('script'); s.textContent = 'window.owned = 1'; document.body.append(s)")
    assert page.run("window.owned === undefined")  # the policy refuses other scripts


def test_many_nodes_are_drawn_and_listed_as_far_as_they_are_seen(page: Page, tmp_path: Path) -> None:
    lines = " ".join(f"v{i + 1} = Softmax(v{i})" for i in range(3000))
    onnx.save(model(f"m (float[8] v0) => (float[8] v3000) {{ {lines} }}"), tmp_path / "m.onnx")
    atcpy.convert(tmp_path / "m.onnx", tmp_path / "m.om")
    atcpy.report(tmp_path / "m.om", tmp_path / "m.html")
    show(page, tmp_path / "m.html")
    assert shown(page, "matches") == "3002 of 3002 nodes"
    assert page.run("document.querySelectorAll('[role=option]').length") < 60
    page.run("document.getElementById('list').focus()")
    page.press("End")
    assert shown(page, "said").startswith("NetOutput")
    assert page.run("document.querySelectorAll('[role=option]').length") < 60
    page.run("document.getElementById('graph').focus()")
    page.press("0")
    page.settle()
    assert colour(page, 0.5, 0.5) != colour(page, 0.1, 0.5)
    assert page.problems == []
