"""`atcpy diff`: the listing, its record, and the picture."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import onnx
import pytest

import atcpy
from atcpy.debug.diff_weights import WeightKind, diff_weights
from atcpy.ir import Graph, Tensor
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
    assert ran.out == "nodes   5 → 5   same 5\n"


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
    assert "same 5" in invoke("diff", model, save(tmp_path / "b.onnx", text)).out


COUNT = re.compile(r"(\w+) (\d+)(?: → (\d+))?")


def test_the_counts_add_up_to_the_nodes_of_both(invoke: Invoke, model: Path, tmp_path: Path) -> None:
    other = save(tmp_path / "b.onnx", BEFORE.replace("[same] i = Identity(b)", "[s] j = Abs(b) [same] i = Neg(j)"))
    assert invoke("convert", "--model", model, "-o", tmp_path / "a.om", "-q").code == 0
    assert invoke("convert", "--model", other, "-o", tmp_path / "b.om", "-q").code == 0
    files = [model, other, tmp_path / "a.om", tmp_path / "b.om"]
    for pair in itertools.product(files, files):
        line = invoke("diff", *pair).out.splitlines()[0]
        found = re.fullmatch(r"nodes   (\d+) → (\d+)   (.*)", line)
        assert found
        before, after, sums = int(found[1]), int(found[2]), [0, 0]
        for kind, one, two in COUNT.findall(found[3]):
            sums[0] += int(one) if kind != "added" else 0
            sums[1] += int(two or one) if kind != "removed" else 0
        assert sums == [before, after], line
        nodes = invoke("diff", *pair, "--json").envelope["result"]["nodes"]
        assert (nodes["before"], nodes["after"]) == (before, after)
        for side, total in enumerate((before, after)):
            assert sum(count[side] for count in nodes["counts"].values()) == total
        assert len(nodes["only_a"]) == nodes["counts"].get("removed", [0])[0]


def test_inputs_that_differ_have_a_line_of_their_own(invoke: Invoke, model: Path, tmp_path: Path) -> None:
    other = save(tmp_path / "b.onnx", BEFORE.replace("float[1,4,8,8] x", "float[2,4,8,8] x"))
    lines = invoke("diff", model, other).out.splitlines()
    assert lines[1] == "inputs  1 → 1   changed 1"
    assert "changed Data x → Data x   (shape [1,4,8,8]→[2,4,8,8])" in lines
    assert invoke("diff", model, other, "--json").envelope["result"]["inputs"]["counts"] == {"changed": [1, 1]}


WEIGHTS = """m (float[3] x) => (float[3] y) <
    float[3] a = {1, 2, 3}, float[3] b = {4, 5, 6}, float[3] c = {7, 8, 9}> {
    s = Mul(x, a) t = Add(s, b) y = Sub(t, c)
}"""

OTHER_WEIGHTS = """m (float[3] x) => (float[2,3] y) <
    float[2,3] e = {0, 0, 0, 0, 0, 0}, float[3] a = {1, 2, 3}, float[3] b = {4, 5.5, 6}, float[3] d = {7, 8, 9}> {
    s = Mul(x, a) t = Add(s, b) u = Add(t, e) y = Sub(u, d)
}"""


def test_weights_are_compared_by_value(invoke: Invoke, tmp_path: Path) -> None:
    before = save(tmp_path / "a.onnx", WEIGHTS)
    after = save(tmp_path / "b.onnx", OTHER_WEIGHTS)
    lines = invoke("diff", before, after, "--weights").out.partition("\n\n")[2].splitlines()
    assert lines == [
        "weights 3 → 4   same 1 · renamed 1 · changed 1 · added 1",
        "changed b   (max difference 0.5)",
        "renamed c → d",
        "added   e   (f32[2,3] ND)",
    ]
    found = invoke("diff", before, after, "--weights", "--json").envelope["result"]["weights"]
    assert (found["before"], found["after"], found["bytes_before"], found["bytes_after"]) == (3, 4, 36, 60)
    assert found["counts"] == {"same": 1, "renamed": 1, "changed": 1, "added": 1}
    assert {"a": "b", "b": "b", "kind": "changed", "fields": [], "max_abs": 0.5} in found["differing"]
    assert not invoke("diff", before, after, "--weights", "--json").envelope["result"]["same"]


def test_weights_alone_make_a_difference(invoke: Invoke, tmp_path: Path) -> None:
    before = save(tmp_path / "a.onnx", WEIGHTS)
    after = save(tmp_path / "b.onnx", WEIGHTS.replace("{7, 8, 9}", "{7, 8, 10}"))
    assert invoke("diff", before, after, "--exit_code").code == 0
    assert invoke("diff", before, after, "--exit_code", "--weights").code == 5
    assert invoke("diff", before, before, "--exit_code", "--weights").code == 0


def test_weights_in_another_format_have_the_same_values(invoke: Invoke, tmp_path: Path) -> None:
    text = "m (float[1,16,8,8] x) => (float[1,16,8,8] y) <float[16,16,3,3] w> { y = Conv<pads = [1,1,1,1]>(x, w) }"
    model = save(tmp_path / "a.onnx", text)
    assert invoke("convert", "--model", model, "-o", tmp_path / "a.om", "-q").code == 0
    line = next(
        line
        for line in invoke("diff", model, tmp_path / "a.om", "--weights").out.splitlines()
        if "FRACTAL" in line or "N1C1" in line
    )
    assert line.startswith(("stored  w", "renamed w")) and "format " in line


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1, float("nan")], [1.5, float("nan")], 0.5),
        ([1, 2], [1, float("nan")], float("inf")),
        ([1, float("inf")], [2, float("inf")], 1.0),
        ([[1, 2]], [1, 3], None),
        ([1j, 2], [2j, 2], None),
        (["a"], ["b"], None),
    ],
)
def test_the_largest_difference(one: list[object], other: list[object], expected: float | None) -> None:
    graphs = Graph("one"), Graph("other")
    for graph, values in zip(graphs, (one, other), strict=True):
        array = np.array(values, object if isinstance(values[0], str) else None)
        graph.add_const(Tensor.of(array), "w")
    [pair] = diff_weights(*graphs).pairs
    assert (pair.kind, pair.max_abs) == (WeightKind.CHANGED, expected)


def test_memory_and_options_of_packages(invoke: Invoke, model: Path, tmp_path: Path) -> None:
    for name, options in (("a", []), ("b", ["--skip_pass", "ConvReluFusionPass", "--disable_reuse_memory", "1"])):
        assert invoke("convert", "--model", model, "-o", tmp_path / f"{name}.om", "-q", *options).code == 0
    ran = invoke("diff", tmp_path / "a.om", tmp_path / "b.om", "--memory", "--options", "--json")
    result = ran.envelope["result"]
    summaries = [atcpy.inspect(tmp_path / f"{name}.om").record for name in "ab"]
    for name, entry in result["memory"].items():
        expected = [summary["bytes"] if name == "file" else summary["memory"][name] for summary in summaries]
        assert [entry["before"], entry["after"]] == expected, name
    assert result["memory"]["file"]["before"] != result["memory"]["file"]["after"]
    assert result["options"]["--skip_pass"] == {"before": "default", "after": "ConvReluFusionPass"}
    assert result["options"]["model"]["before"] == result["options"]["model"]["after"]
    lines = invoke("diff", tmp_path / "a.om", tmp_path / "b.om", "--memory", "--options").out.splitlines()
    change = result["memory"]["file"]["after"] - result["memory"]["file"]["before"]
    assert any(line.startswith("  file") and line.endswith(f"({change:+d})") for line in lines)
    assert "  --skip_pass             default → ConvReluFusionPass" in lines
    same = invoke("diff", tmp_path / "a.om", tmp_path / "a.om", "--memory", "--options", "--weights", "--exit_code")
    assert same.code == 0 and " → " not in same.out.partition("memory\n")[2]


@pytest.mark.parametrize("option", ["memory", "options"])
def test_models_have_neither_memory_nor_options(invoke: Invoke, model: Path, option: str) -> None:
    ran = invoke("diff", model, model, f"--{option}")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error[E10057] --{option}: {model} is a model")


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
