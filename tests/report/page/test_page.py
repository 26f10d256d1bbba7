"""The page of a package: what it holds without a script, that nothing of a package becomes HTML, and its data."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import onnx
import pytest

import atcpy
from atcpy.report.package import PackageView
from atcpy.report.page.page import report_page
from tests.models_in_text import model

EMPTY = {"meta", "input"}
EVIL = "</script x <!--<script </script><script>alert(1)</script><img src=x onerror=alert(2)>&quot;\"'\x1b[31m"
NET = """m (float[1,4,8,8] x) => (float[1,4,8,8] y) <float[4,4,1,1] w> {
    [conv] a = Conv(x, w)
    [act] b = Relu(a)
    [tap] c = Conv(b, w)
    [last] y = Add(c, b)
}"""


class Reader(HTMLParser):
    """Elements in order, each with its attributes; the text of each; and whether all are closed where they should."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def write_package(proto: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(proto, folder / "m.onnx")
    atcpy.convert(folder / "m.onnx", folder / "m.om")
    return folder / "m.om"


def page_of(proto: onnx.ModelProto, folder: Path) -> str:
    path = write_package(proto, folder)
    return report_page(PackageView(path))


def data_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found[1])


@pytest.fixture
def page(tmp_path: Path) -> str:
    return page_of(model(NET), tmp_path)


def test_the_page_is_whole_and_needs_nothing_else(page: str) -> None:
    reader = Reader(page)
    assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
    outside = {"src", "srcset", "data", "action", "poster", "background", "cite"}
    for tag, attributes in reader.elements:
        assert tag not in {"link", "iframe", "object", "embed", "base", "form", "img"}
        assert not outside & attributes.keys()
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        assert (attributes.get("href") or "#").startswith("#")
    [style] = reader.texts["style"]
    assert "url(" not in style and "@import" not in style
    ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {attributes["href"] for attributes in reader.all("a")} <= {f"#{name}" for name in ids}


def test_the_policy_allows_the_pages_own_script_and_style_alone(page: str) -> None:
    reader = Reader(page)
    [policy] = [a["content"] for a in reader.all("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy
    script, style = reader.texts["script"][-1], reader.texts["style"][0]
    for name, content in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy


def test_it_can_be_read_without_a_script(page: str) -> None:
    text = re.sub(r"<script.*?</script>", "", page, flags=re.S)
    for shown in (
        "ConvReluFusionPass",
        "conv2d_f32",
        "The arena by time",
        "the arena, by task and offset",
        "EnginePlacer",
    ):
        assert shown in text
    without = re.search(r"<noscript>(.*?)</noscript>", text, re.S)
    assert without and all(name in without[1] for name in ("conv", "act", "tap", "last"))


def test_names_of_a_package_stay_text(tmp_path: Path) -> None:
    proto = model(NET)
    for node in proto.graph.node:
        node.name += EVIL
        node.output[:] = [name + EVIL for name in node.output]
        node.input[:] = [name + EVIL for name in node.input]
    for value in (*proto.graph.input, *proto.graph.output, *proto.graph.initializer):
        value.name += EVIL
    proto.producer_name = EVIL
    page = page_of(proto, tmp_path)
    reader = Reader(page)
    assert len(reader.all("script")) == 2
    assert reader.all("img") == []
    assert page.count("</script") == 2 and "<script>alert" not in page and "\x1b" not in page
    assert any(EVIL[:40] in name for name in data_of(page)["strings"])


def test_the_data_of_the_graph(tmp_path: Path) -> None:
    view = PackageView(write_package(model(NET), tmp_path))
    data = data_of(report_page(view))
    strings, [graph] = data["strings"], data["graphs"]
    records = view.nodes()
    assert [strings[name] for name in graph["name"]] == [record["name"] for record in records]
    assert [strings[name] for name in graph["op"]] == [record["op"] for record in records]
    assert [[strings[name] for name in names] for names in graph["sources"]] == [r["sources"] for r in records]
    producers = {value["name"]: number for number, record in enumerate(records) for value in record["outputs"]}
    expected = {
        (producers[name], number) for number, r in enumerate(records) for name in r["inputs"] if name in producers
    }
    edges = graph["edges"]
    assert {(edges[i], edges[i + 1]) for i in range(0, len(edges), 3)} == expected
    assert all(graph["row"][source] < graph["row"][target] for source, target in expected)
    tasks = {task["name"]: task for task in view.tasks()}
    for number, record in enumerate(records):
        if record["name"] in tasks:
            [task] = graph["tasks"][number]
            assert task[0] == tasks[record["name"]]["task"] and strings[task[1]] == tasks[record["name"]]["kernel"]
            output = tasks[record["name"]]["outputs"][0]
            assert [strings[task[4]], *task[5:7]] == [output["region"], output["offset"], output["bytes"]]


def test_a_node_knows_which_passes_left_it_alone(tmp_path: Path) -> None:
    text = "m (float[2,4] x) => (float[2,3] y) <float[4,3] w, float[3] b> { [g] y = Gemm(x, w, b) }"
    page = page_of(model(text), tmp_path)
    strings, [graph] = data_of(page)["strings"], data_of(page)["graphs"]
    gemm = next(number for number, op in enumerate(graph["op"]) if "Gemm" in strings[op])
    assert [strings[index] for index in graph["why"][gemm]][:2] == ["GemmFactorsFusionPass", "nothing-to-fold"]
    assert re.search(r'<td>nothing-to-fold</td><td class="n">1</td><td><ul><li>g</li></ul>', page)


def test_bodies_are_graphs_that_know_their_owner(tmp_path: Path) -> None:
    text = """m (bool c, float[4] x) => (float[4] y) {
        y = If(c) <
            then_branch = t () => (float[4] a) { a = Neg(x) },
            else_branch = e () => (float[4] b) { b = Exp(x) }
        >
    }"""
    data = data_of(page_of(model(text), tmp_path))
    strings, graphs = data["strings"], data["graphs"]
    owner = next(number for number, op in enumerate(graphs[0]["op"]) if strings[op] == "If")
    assert graphs[0]["parent"] == -1
    bodies = graphs[0]["bodies"][owner]
    assert [graphs[body]["parent"] for body in bodies] == [0, 0]
    ops = {strings[op] for body in bodies for op in graphs[body]["op"]}
    assert {"Neg", "Exp"} <= ops


def test_counts_by_stage_are_those_of_the_passes(page: str, tmp_path: Path) -> None:
    view = PackageView(tmp_path / "m.om")
    rows = {
        name: [int(cell) for cell in re.findall(r'<td class="n">(\d+)</td>', cells)]
        for name, cells in re.findall(r"<tr><td>(\w+)</td>(.*?)</tr>", page.partition('id="stages"')[2])
    }
    records = view.graph.decisions.passes
    for stage in ("prepare", "split", "optimize", "compile"):
        own = [record for record in records if record.stage == stage]
        sums = (sum(r.matched for r in own), sum(r.applied for r in own), sum(len(r.rejects) for r in own))
        assert rows[stage] == [len(own), sum(r.applied > 0 for r in own), *sums]
    assert rows["all"] == [
        sum(rows[stage][i] for stage in rows if stage != "all" and len(rows[stage]) == 5) for i in range(5)
    ]


def test_open_dims_say_how_memory_is_shown(tmp_path: Path) -> None:
    proto = model("m (float[n,64] x) => (float[n,64] y) { a = Softmax(x) y = Softmax(a) }")
    view = PackageView(write_package(proto, tmp_path))
    assert "--shape NAME" in report_page(view)
    view = PackageView(tmp_path / "m.om")
    view.shapes = {"x": (8, 64)}
    assert "the arena, by task and offset" in report_page(view)


@pytest.mark.slow
def test_a_long_package_takes_a_page_in_proportion(tmp_path: Path) -> None:
    lines = " ".join(f"v{i + 1} = Softmax(v{i})" for i in range(3000))
    page = page_of(model(f"m (float[8] v0) => (float[8] v3000) {{ {lines} }}"), tmp_path)
    assert len(page) < 1_000_000
    assert page.count("<tr>") < 1000
    assert len(data_of(page)["graphs"][0]["name"]) == 3002
