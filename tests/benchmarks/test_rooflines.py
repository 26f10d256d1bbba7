"""Layers of models: the tables and pictures of what was timed."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import onnx
import pytest
import rooflines

from atcpy.bench.layers import BusyThreads, LayerTime
from atcpy.runtime.roofline import Bandwidth, Roofline

from .test_ratio_plot import SVG, texts

MODEL = """<ir_version: 8, opset_import: ["" : 17]> g (float[64,64] x) => (float[64,64] y)
  { a = MatMul(x, x)  b = Softmax(a)  y = MatMul(b, a) }"""
PEAKS = Roofline(1, 1e11, (Bandwidth(1 << 20, 1e10),))


def layer(node: str, median: float, floor: float | None, busy_of_16: float, items: int = 7) -> LayerTime:
    busy = {threads: min(float(threads), busy_of_16) for threads in (1, *rooflines.SIMULATED_THREADS)}
    return LayerTime(
        *(0, "Conv", (node,), "conv2d_f32_scalar", "e", median, (median, median), 0.5, floor),
        *(None if floor is None else floor / median, 100, 28, 1.0, 1000, 2.0, 5, items),
        busy_threads=tuple(BusyThreads(threads, count) for threads, count in busy.items()),
    )


TIMED = rooflines.Timed("m", 1, (layer("/a", 4e-6, 1e-6, 1.0), layer("/b", 2e-6, 1.5e-6, 16.0, items=16)), PEAKS)


def test_a_model_is_measured_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "m.onnx")
    rooflines.main([tmp_path / "m.onnx"], out=tmp_path / "out", threads=1, seconds=0.0, uneven=16)
    printed = capsys.readouterr().out
    assert printed.count("| `m` | 1 | 3 |") == 1
    record = json.loads((tmp_path / "out" / "m.json").read_text(encoding="utf-8"))["result"]
    assert len(record["layers"]) == 3 and record["peaks"]["threads"] == 1
    drawn = ElementTree.fromstring((tmp_path / "out" / "m.svg").read_text(encoding="utf-8"))
    assert {"matmul", "GFLOP/s", "operations a byte"} <= set(texts(drawn))
    kinds = [each.attrib["class"] for each in drawn.iter(f"{SVG}circle")]
    assert kinds == ["dot fill0"] * 3  # two tasks that sum products, and the legend


def test_a_model_is_judged_by_the_sum_of_its_floors() -> None:
    row = list(rooflines.model_table([TIMED]))[-1]
    assert row == "| `m` | 1 | 2 | 0.006 | 0.0025 | 42% | 0.333 | 0.0427 |"


def test_layers_are_sorted_by_what_they_lose() -> None:
    rows = list(rooflines.worst_table([TIMED]))[2:]
    assert [row.split(" | ")[1] for row in rows] == ["Conv /a", "Conv /b"]
    assert rows[0].endswith("| 25% | 2 | 1 | 50.0% |")


def test_layers_that_leave_threads_idle_are_listed() -> None:
    assert list(rooflines.idle_table([TIMED]))[-1].startswith("| `m` | 40% |")  # of 2 threads: 6 µs of work in 5 µs
    rows = list(rooflines.uneven_table([TIMED], 16))[2:]
    assert rows == ["| `m` | Conv /a | conv2d_f32_scalar | 7 | 94% | 4 |"]


def test_layers_of_one_cost_are_one_row() -> None:
    repeated = tuple(layer(f"/{n}", n * 1e-6, 1e-6, 1.0) for n in (4, 2, 3))
    [row] = list(rooflines.worst_table([rooflines.Timed("m", 1, repeated, PEAKS)]))[2:]
    assert row.startswith("| `m` | Conv /3, 2 more | ") and row.endswith("| 66.7% |")  # of 9 µs, 6 are lost
