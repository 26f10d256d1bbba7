"""The plot of ratios: what it shows of figures that are fixed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import ratio_plot
import typer
from pictures import MAX_SERIES

from tests.sources import REPO

SVG = "{http://www.w3.org/2000/svg}"


def comparison(model: str, threads: int, **milliseconds: float) -> dict[str, Any]:
    """What side_by_side.py writes of a model, as far as it is drawn; ours takes 2 ms."""
    peers = [
        {"timing": {"engine": engine, "min_ms": ms}, "ratio_of_minima": ms / 2.0} for engine, ms in milliseconds.items()
    ]
    return {"model": model, "threads": threads, "ours": {"min_ms": 2.0}, "peers": peers}


RECORD: dict[str, Any] = {
    "machine": {"cpu": "A <fast> CPU", "isa": "avx2", "cores": [0, 1]},
    "commit": "0123abc",
    "date": "2026-05-04",
    "versions": {"atcpy": "0.1.0", "onnxruntime": "1.31.1", "openvino": "2026.4.1"},
    "comparisons": [
        comparison("one", 1, onnxruntime=4.0, openvino=1.0),
        comparison("two", 1, onnxruntime=2.0),
        comparison("one", 2, onnxruntime=3.0, openvino=0.5),
    ],
}


def written(path: Path, **changes: Any) -> Path:
    path.write_text(json.dumps(RECORD | changes), encoding="utf-8")
    return path


@pytest.fixture
def picture(tmp_path: Path) -> ElementTree.Element:
    ratio_plot.main([written(tmp_path / "a.json")], svg=tmp_path / "a.svg")
    return ElementTree.fromstring((tmp_path / "a.svg").read_text(encoding="utf-8"))


def test_figures_in_bfloat16_are_drawn_too(tmp_path: Path) -> None:
    versions = {"atcpy-bf16": "0.1.0", "openvino-bf16": "2026.4.1"}
    figures = written(
        tmp_path / "a.json", versions=versions, comparisons=[comparison("one", 1, **{"openvino-bf16": 3.0})]
    )
    ratio_plot.main([figures], svg=tmp_path / "a.svg")
    drawn = texts(ElementTree.fromstring((tmp_path / "a.svg").read_text(encoding="utf-8")))
    assert "How many times faster atcpy 0.1.0 is" in drawn and "than OpenVINO in bfloat16 2026.4.1" in drawn


def texts(picture: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in picture.iter(f"{SVG}text")]


def bars(picture: ElementTree.Element) -> dict[str, tuple[float, float]]:
    """Where each bar begins and ends, by its tooltip."""
    found = {}
    for bar in picture.iter(f"{SVG}rect"):
        title = bar.find(f"{SVG}title")
        if title is not None:
            x = float(bar.attrib["x"])
            found[title.text or ""] = (x, x + float(bar.attrib["width"]))
    return found


def test_each_model_and_what_it_was_measured_with_are_named(picture: ElementTree.Element) -> None:
    shown = texts(picture)
    for name in ("one", "two", "1 thread", "2 threads", "than ONNX Runtime 1.31.1", "than OpenVINO 2026.4.1"):
        assert shown.count(name) == 1, name
    assert "A <fast> CPU, avx2, 2 cores · commit 0123abc · 2026-05-04" in shown
    assert {"2.00", "0.50", "1.00", "1.50", "0.25"} <= set(shown)


def test_bars_begin_at_one_and_are_as_long_for_half_as_for_twice(picture: ElementTree.Element) -> None:
    found = bars(picture)
    twice = found["one, 1 thread: 2 ms, ONNX Runtime 4 ms"]
    half = found["one, 1 thread: 2 ms, OpenVINO 1 ms"]
    assert twice[0] == pytest.approx(half[1], abs=0.2)
    assert twice[1] - twice[0] == pytest.approx(half[1] - half[0], abs=0.2)
    quarter = found["one, 2 threads: 2 ms, OpenVINO 0.5 ms"]
    assert quarter[1] - quarter[0] == pytest.approx(2 * (half[1] - half[0]), abs=0.2)
    assert len(found) == 5  # nobody measured "two" in OpenVINO, nor with 2 threads


@pytest.mark.parametrize("threads", [1, 2])
def test_nothing_is_outside_the_picture(tmp_path: Path, threads: int) -> None:
    chosen = [each for each in RECORD["comparisons"] if each["threads"] <= threads]
    figures = ratio_plot.read_figures([written(tmp_path / "a.json", comparisons=chosen)])
    picture = ElementTree.fromstring(ratio_plot.draw(figures))
    _, _, width, height = map(float, picture.attrib["viewBox"].split())
    for bar in bars(picture).values():
        assert 0 <= bar[0] < bar[1] <= width
    for text in picture.iter(f"{SVG}text"):
        x, y, length = float(text.attrib["x"]), float(text.attrib["y"]), 7 * len(text.text or "")
        left = {"end": x - length, "middle": x - length / 2}.get(text.attrib.get("text-anchor", ""), x)
        assert left >= 0 and left + length <= width and 0 < y < height, text.text


def contrast(one: str, other: str) -> float:
    """The contrast of two colours by WCAG 2.2, relative luminance."""

    def luminance(color: str) -> float:
        parts = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_it_is_readable_on_light_and_on_dark_pages(picture: ElementTree.Element) -> None:
    style = picture.findtext(f"{SVG}style") or ""
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    for rules in (light, dark):
        fills = dict(re.findall(r"(\.?\w+) \{ fill: (#\w{6})", rules))
        page = fills.pop(".page")
        assert fills.keys() == {"text", *(f".fill{number}" for number in range(MAX_SERIES))}
        assert contrast(fills["text"], page) >= 7
        assert all(contrast(color, page) >= 4.5 for color in fills.values())
    kinds = {each.attrib.get("class") for each in picture.iter(f"{SVG}rect")}
    assert kinds == {"page", "fill0", "fill1"}


def test_the_table_has_a_row_for_each_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ratio_plot.main([written(tmp_path / "a.json")], svg=tmp_path / "a.svg")
    assert capsys.readouterr().out.splitlines() == [
        "| model | threads | atcpy, ms | ONNX Runtime, ms | ratio | OpenVINO, ms | ratio |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| `one` | 1 | 2 | 4 | 2.00 | 1 | 0.50 |",
        "| `two` | 1 | 2 | 2 | 1.00 | – | – |",
        "| `one` | 2 | 2 | 3 | 1.50 | 0.5 | 0.25 |",
    ]


def test_files_of_one_measurement_are_drawn_together(tmp_path: Path) -> None:
    later = written(tmp_path / "b.json", date="2026-05-05", comparisons=[comparison("three", 1, onnxruntime=3.0)])
    figures = ratio_plot.read_figures([written(tmp_path / "a.json"), later])
    assert figures.models == ["one", "two", "three"]
    assert figures.dates == ("2026-05-04", "2026-05-05")


@pytest.mark.parametrize(
    "changes",
    [
        {"commit": "4567def"},
        {"machine": {"cpu": "another", "isa": "avx2", "cores": [0, 1]}},
        {"versions": RECORD["versions"] | {"onnxruntime": "1.32.0"}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_files_of_several_machines_commits_or_versions_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    files = [written(tmp_path / "a.json"), written(tmp_path / "b.json", **changes)]
    with pytest.raises(typer.BadParameter, match=next(iter(changes))):
        ratio_plot.main(files, svg=tmp_path / "a.svg")
    assert not (tmp_path / "a.svg").exists()


@pytest.mark.parametrize(
    "comparisons", [[], [comparison("m", 1, a=1.0, b=1.0, c=1.0, d=1.0)]], ids=["none", "four peers"]
)
def test_what_cannot_be_drawn_is_refused(tmp_path: Path, comparisons: list[dict[str, Any]]) -> None:
    with pytest.raises(typer.BadParameter, match="can be drawn"):
        ratio_plot.main([written(tmp_path / "a.json", comparisons=comparisons)], svg=tmp_path / "a.svg")


@pytest.mark.parametrize(
    ("name", "picture"), [("figures.json", "performance.svg"), ("figures_avx2.json", "performance_avx2.svg")]
)
def test_the_page_has_the_picture_and_the_table_of_the_stored_figures(name: str, picture: str) -> None:
    figures = ratio_plot.read_figures([REPO / "benchmarks" / name])
    page = (REPO / "docs" / "performance.md").read_text(encoding="utf-8")
    assert "\n".join(ratio_plot.table(figures)) in page
    assert (REPO / "docs" / "pictures" / picture).read_text(encoding="utf-8") == ratio_plot.draw(figures)
