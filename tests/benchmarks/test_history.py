"""The history of ratios: what is appended of figures, and what is drawn of the history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import history
import pytest

from tests.sources import REPO

from .test_ratio_plot import RECORD, SVG, comparison, texts, written


def measured(folder: Path, commit: str, **changes: Any) -> Path:
    return written(folder / f"{commit}.json", commit=commit, **changes)


def drawn(folder: Path, *figures: Path) -> ElementTree.Element:
    for path in figures:
        history.main([path], history=folder / "h.jsonl", svg=folder / "h.svg")
    return ElementTree.fromstring((folder / "h.svg").read_text(encoding="utf-8"))


def test_each_model_and_number_of_threads_is_a_line(tmp_path: Path) -> None:
    drawn(tmp_path, measured(tmp_path, "aaaa"))
    lines = [json.loads(line) for line in (tmp_path / "h.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(line["model"], line["threads"]) for line in lines] == [("one", 1), ("two", 1), ("one", 2)]
    assert lines[0] == {
        "machine": "A <fast> CPU, 2 cores", "isa": "avx2", "commit": "aaaa", "date": "2026-05-04",
        "versions": RECORD["versions"], "model": "one", "threads": 1,
        "min_ms": {"atcpy": 2.0, "onnxruntime": 4.0, "openvino": 1.0}, "ratios": {"onnxruntime": 2.0, "openvino": 0.5},
    }  # fmt: skip


def test_figures_are_appended_once(tmp_path: Path) -> None:
    first, second = measured(tmp_path, "aaaa"), measured(tmp_path, "bbbb")
    picture = drawn(tmp_path, first, first, second)
    assert len((tmp_path / "h.jsonl").read_text(encoding="utf-8").splitlines()) == 6
    assert {"aaaa", "bbbb", "one", "two", "than OpenVINO, 2 threads"} <= set(texts(picture))
    assert len(list(picture.iter(f"{SVG}circle"))) == 2 * 5  # a ratio is a point; there are five in each measurement


def test_a_commit_without_a_model_leaves_a_gap(tmp_path: Path) -> None:
    other = measured(tmp_path, "bbbb", comparisons=[comparison("two", 1, onnxruntime=8.0)])
    picture = drawn(tmp_path, measured(tmp_path, "aaaa"), other)
    assert len(list(picture.iter(f"{SVG}circle"))) == 5 + 1
    points = [each for each in picture.iter(f"{SVG}path") if "line" in each.attrib["class"]]
    assert len(points) == 1  # that of the model which both have


def test_other_machines_are_not_drawn(tmp_path: Path) -> None:
    other = measured(tmp_path, "bbbb", machine={"cpu": "Other", "isa": "avx2", "cores": [0]})
    picture = drawn(tmp_path, measured(tmp_path, "aaaa"), other)
    assert "bbbb" in texts(picture) and "aaaa" not in texts(picture)


def test_twice_as_fast_is_as_far_from_one_as_half(tmp_path: Path) -> None:
    picture = drawn(tmp_path, measured(tmp_path, "aaaa"))
    ys = [float(each.attrib["cy"]) for each in picture.iter(f"{SVG}circle")][:2]  # 2 and 0.5, in the first panel
    one = next(each for each in picture.iter(f"{SVG}path") if each.attrib["class"] == "one")
    y = float(one.attrib["d"].split()[1].partition("h")[0])
    assert y - ys[0] == pytest.approx(ys[1] - y, abs=0.2) and ys[0] < y


def test_the_page_has_the_picture_of_the_stored_history() -> None:
    stored = history.read_history(REPO / "benchmarks" / "history.jsonl")
    assert (REPO / "docs" / "pictures" / "history.svg").read_text(encoding="utf-8") == history.draw(stored)
