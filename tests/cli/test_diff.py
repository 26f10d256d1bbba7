"""`atcpy diff`: the listing, its record, and the picture."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import onnx
import pytest

from atcpy.report.diff_svg import MAX_NODES, Box, side_by_side
from tests.models_in_text import model as model_of

from .conftest import Invoke

BEFORE = """m (float[1,4,8,8] x) => (float[1,4,8,8] y) <float[4,4,1,1] w> {
    [conv] a = Conv(x, w)
    [act] b = Relu(a)
    [same] i = Identity(b)
    [pool] c = MaxPool<kernel_shape = [1,1]>(i)
    [last] y = Abs(c)
}"""
# The MyNet of the articles: 2·x + 1, as it is written.
MY_NET = """MyNet (float[4,4] x) => (float[4,4] y) <float two = {2}, float one = {1}> {
    [mul] m = Mul(x, two)
    [add] y = Add(m, one)
}"""
SVG = "{http://www.w3.org/2000/svg}"


def save(path: Path, text: str) -> Path:
    onnx.save(model_of(text), path)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(tmp_path / "a.onnx", BEFORE)


def test_a_model_is_equal_to_itself(invoke: Invoke, model: Path) -> None:
    ran = invoke("diff", model, model, "--exit-code")
    assert ran.code == 0
    assert ran.out == "nodes   5 → 5   same 7\n"


def test_attributes_and_nodes_that_differ_are_listed(invoke: Invoke, model: Path, tmp_path: Path) -> None:
    other = save(
        tmp_path / "b.onnx",
        BEFORE.replace("[1,1]>(i)", "[3,3], pads = [1,1,1,1]>(b)").replace("[same] i = Identity(b)", "")
        .replace("y = Abs(c)", "d = Abs(c) [new] y = Neg(d)"),
    )  # fmt: skip
    ran = invoke("diff", model, other, "--exit_code", "--json")
    assert ran.code == 5
    result = ran.envelope["result"]
    assert not result["same"]
    assert result["nodes"]["only_a"] == ["same"]
    assert result["nodes"]["only_b"] == ["new"]
    assert [(entry["a"], entry["b"]) for entry in result["nodes"]["changed"]] == [("pool", "pool")]
    assert "kernel_shape (1, 1)→(3, 3)" in result["nodes"]["changed"][0]["fields"]
    lines = invoke("diff", model, other).out.splitlines()
    assert "removed Identity same" in lines
    assert "added   Neg new" in lines


def test_fused_nodes_find_their_parts(invoke: Invoke, model: Path, tmp_path: Path) -> None:
    assert invoke("convert", "--model", model, "-o", tmp_path / "a.om", "-q").code == 0
    lines = invoke("diff", model, tmp_path / "a.om").out.splitlines()
    assert any(line.startswith("fused   Conv conv + Relu act → FusedConv act.1") for line in lines)
    assert "removed Identity same   (identity)" in lines
    changed = invoke("diff", model, tmp_path / "a.om", "--json").envelope["result"]["nodes"]["changed"]
    assert {(entry["a"], entry["b"]) for entry in changed} >= {("conv", "act.1"), ("act", "act.1")}


def test_other_names_are_matched_by_structure(invoke: Invoke, model: Path, tmp_path: Path) -> None:
    text = BEFORE.replace("[conv]", "[k1]").replace("[act]", "[k2]").replace("[pool]", "[k3]").replace("[last]", "[k4]")
    assert "same 7" in invoke("diff", model, save(tmp_path / "b.onnx", text)).out


def texts_and_boxes(svg: str) -> tuple[list[str], list[tuple[float, float, float, float]]]:
    root = ET.fromstring(svg)
    boxes = []
    for panel in root.findall(f"{SVG}g"):
        shift = re.match(r"translate\((\S+) (\S+)\)", panel.get("transform", ""))
        assert shift
        for rect in panel.iter(f"{SVG}rect"):
            x, y, width, height = (float(rect.get(name, "0")) for name in ("x", "y", "width", "height"))
            boxes.append((x + float(shift[1]), y + float(shift[2]), width, height))
    return [text.text or "" for text in root.iter(f"{SVG}text")], boxes


def overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(one[axis] < other[axis] + other[axis + 2] and other[axis] < one[axis] + one[axis + 2] for axis in (0, 1))


@pytest.mark.parametrize("text", [BEFORE, MY_NET], ids=["conv", "MyNet"])
def test_the_picture_shows_both_graphs_and_nothing_overlaps(invoke: Invoke, tmp_path: Path, text: str) -> None:
    model = save(tmp_path / "a.onnx", text)
    assert invoke("convert", "--model", model, "-o", tmp_path / "a.om", "-q").code == 0
    ran = invoke("diff", model, tmp_path / "a.om", "--svg", tmp_path / "a.svg")
    assert ran.out.splitlines()[-1] == f"drawn   {tmp_path / 'a.svg'}"
    svg = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert not re.search(r"<script|<image|href|@import|url\((?!#)", svg)
    texts, boxes = texts_and_boxes(svg)
    assert {"before: a.onnx", "after: a.om"} <= set(texts)
    for node in onnx.load(model).graph.node:
        assert node.name in texts
    assert not any(overlap(one, other) for one, other in itertools.combinations(boxes, 2))
    width = float(ET.fromstring(svg).get("width", "0"))
    assert all(x >= 0 and x + w <= width for x, _, w, _ in boxes)


def test_a_large_graph_says_what_is_left_out() -> None:
    boxes = [Box(("Relu", f"n{i}"), "changed" if i % 50 == 7 else "same", (i - 1,) if i else ()) for i in range(1000)]
    texts, drawn = texts_and_boxes(side_by_side(boxes, boxes[:3], ("before: a", "after: b")))
    assert f"before: a   {1000 - MAX_NODES} nodes left out" in texts
    assert {f"n{i}" for i in range(7, 1000, 50)} <= set(texts)
    assert len(drawn) == MAX_NODES + 3


def test_names_cannot_break_out_of_the_picture() -> None:
    evil = '"><script>\x00\x1b[31m' + "x" * 500
    svg = side_by_side([Box((evil, evil), "same")], [], ("<b>", "&"))
    texts, _ = texts_and_boxes(svg)
    assert "<script>" not in svg
    assert all(len(text) <= 80 for text in texts)


def test_wide_layers_and_long_edges_stay_inside() -> None:
    wide = [Box(("Split", "s"), "same"), *(Box(("Relu", f"branch {i}"), "same", (0,)) for i in range(9))]
    wide += [Box(("Concat", "c"), "same", (0, *range(1, 10)))]
    svg = side_by_side(wide, [], ("a", "b"))
    _, boxes = texts_and_boxes(svg)
    assert not any(overlap(one, other) for one, other in itertools.combinations(boxes, 2))
