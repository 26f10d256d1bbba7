"""Times read out of files: means of runs, sums of launches, and files that are none."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from atcpy.errors import UsageError
from atcpy.report.page.measured import MeasuredTask, read_bench, read_profile
from atcpy.report.page.roofline import FAMILY_COLORS, draw_roofline
from atcpy.report.page.sections import times
from atcpy.runtime.roofline import Bandwidth, Roofline

PEAKS = {"threads": 1, "flops_per_second": 1e11, "bandwidths": [{"bytes": 1 << 20, "bytes_per_second": 1e10}]}


def launch(name: str, seconds: float, flops: int | None = None, roofline: float | None = 0.5) -> dict[str, Any]:
    arguments = {
        "sources": ["a"], "engine": "e", "kernel": "k", "read_bytes": 60, "written_bytes": 40, "flops": flops,
        "roofline": roofline,
    }  # fmt: skip
    return {"ph": "X", "cat": name.split()[0], "name": name, "dur": seconds * 1e6, "args": arguments}


def trace(*events: dict[str, Any], runs: int = 1, peaks: object = None) -> dict[str, Any]:
    runs_of = [{"ph": "X", "cat": "run", "name": f"run {i}", "dur": 1, "args": {}} for i in range(runs)]
    return {"traceEvents": [{"ph": "M"}, *runs_of, *events], "otherData": {"peaks": peaks}}


def write(folder: Path, record: object) -> str:
    (folder / "j.json").write_text(json.dumps(record), encoding="utf-8")
    return str(folder / "j.json")


def test_a_trace_is_the_mean_of_its_runs_and_the_sum_of_its_launches(tmp_path: Path) -> None:
    events = [launch("Conv /c 1", 2.0, 300), launch("Conv /c 1", 4.0, 500), launch("Add /a", 1.0, None, None)]
    measured = read_profile(write(tmp_path, trace(*events, runs=2, peaks=PEAKS)))
    assert measured.tasks == (
        MeasuredTask("Conv", "/c 1", ("a",), "k", 3.0, 1.5, 100, 400),
        MeasuredTask("Add", "/a", ("a",), "k", 0.5, None, 50, None),
    )
    assert measured.roofline == Roofline(1, 1e11, (Bandwidth(1 << 20, 1e10),))


def test_peaks_of_other_types_are_read(tmp_path: Path) -> None:
    peaks = PEAKS | {"other_types": {"int8": 4e11}}
    measured = read_profile(write(tmp_path, trace(launch("Conv /c 1", 2.0, 300), peaks=peaks)))
    assert measured.roofline is not None and measured.roofline.peak("int8") == 4e11
    assert measured.roofline.peak("bfloat16") is None and measured.roofline.peak("float32") == 1e11


def test_what_bench_printed(tmp_path: Path) -> None:
    layer = {
        "task": 0, "op": "Conv", "nodes": ["a", "b"], "kernel": "k", "engine": "e", "median": 0.5, "share": 1.0,
        "floor": None, "read_bytes": 3, "written_bytes": 4, "flops": 10,
    }  # fmt: skip
    measured = read_bench(write(tmp_path, {"schema": "atcpy.bench/1", "result": {"layers": [layer]}}))
    assert measured.tasks == (MeasuredTask("Conv", "", ("a", "b"), "k", 0.5, None, 7, 10),)
    assert measured.roofline is None
    two = {"runs": [{"layers": [layer], "peaks": PEAKS}, {"layers": [], "peaks": None}]}
    measured = read_bench(write(tmp_path, {"schema": "atcpy.bench/1", "result": two}))
    assert measured.tasks and measured.roofline == Roofline(1, 1e11, (Bandwidth(1 << 20, 1e10),))


@pytest.mark.parametrize(
    "record",
    [
        3, [], {}, {"traceEvents": 3}, trace(), {"traceEvents": [launch("a b", 1)]},
        trace(launch("a b", float("nan"))), trace(launch("a b", -1)), trace(launch("a b", 1e400)),
        trace({**launch("a b", 1), "cat": 3}), trace(launch("a b", 1), peaks={}),
        trace(launch("a b", 1), peaks={**PEAKS, "flops_per_second": 0}),
        trace(launch("a b", 1), peaks={**PEAKS, "bandwidths": []}),
        trace(launch("a b", 1, "x")),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_what_is_no_trace_is_refused(tmp_path: Path, record: object) -> None:
    path = write(tmp_path, record)
    for read in (read_profile, read_bench):
        with pytest.raises(UsageError) as refused:
            read(path)
        assert refused.value.code == "E13005"
        assert path in refused.value.what


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_is_refused(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "j.json").write_bytes(raw)
    with pytest.raises(UsageError) as refused:
        read_profile(str(tmp_path / "j.json"))
    assert refused.value.code == "E13005"


def test_the_picture_has_a_circle_a_task_that_sums(tmp_path: Path) -> None:
    events = [launch("Conv /c", 1e-8, 1000), launch("Conv /d", 2e-8, 10), launch("Add /a", 1.0)]
    measured = read_profile(write(tmp_path, trace(*events, peaks=PEAKS)))
    assert measured.roofline
    picture = draw_roofline(measured.tasks, measured.roofline)
    assert picture and picture.count('class="dot f0"') == 2 + 1  # of one family, and its colour in the legend
    assert draw_roofline([task for task in measured.tasks if not task.flops], measured.roofline) is None
    section = times(measured)
    rows = [cell.partition("<")[0] for cell in section.partition("<tbody>")[2].split("<tr><td>")[1:]]
    assert rows == ["Add", "Conv", "Conv"]
    assert section.index("<td>/d</td>") < section.index("<td>/c</td>")
    assert "1 task that sum no products" in section


def test_families_have_colours_and_the_worst_tasks_names() -> None:
    tasks = [
        MeasuredTask("Conv", "/slow", (), "conv2d_f32_scalar", 4.0, 1.0, 10, 1000),
        MeasuredTask("MatMul", "/fast", (), "matmul_f32_scalar", 2.0, 2.0, 1000, 100),
        *(MeasuredTask("Op", f"/{n}", (), f"kernel{n}", 0.1, None, 10, 10) for n in range(6)),
    ]
    picture = draw_roofline(tasks, Roofline(1, 1e3, (Bandwidth(1 << 20, 1e2),)))
    assert picture
    legend = re.findall(r'r="5" class="dot f(\d)"></circle><text [^>]*>(\w+)<', picture)
    assert legend[:2] == [("0", "conv2d"), ("1", "matmul")]
    assert legend[-1] == (str(FAMILY_COLORS), "others") and len(legend) == FAMILY_COLORS + 1
    assert re.findall(r"<text [^>]*>(\w+ /\w+)<", picture) == ["Conv /slow"]  # what is at its floor has no name
    assert "25% of the roofline" in picture


def test_names_do_not_cover_each_other() -> None:
    tasks = [MeasuredTask("Conv", f"/{n}", (), "k", 4.0 + n / 100, 1.0, 10, 1000) for n in range(3)]
    picture = draw_roofline(tasks, Roofline(1, 1e3, (Bandwidth(1 << 20, 1e2),)))
    assert picture and re.findall(r"<text [^>]*>(Conv /\w+)<", picture) == ["Conv /2"]
