"""Opening times and memory beside ONNX Runtime: what is measured of a model, and which bounds are judged."""

from __future__ import annotations

import json
from pathlib import Path

import load_times
import onnx
import pytest
from bounds import EXIT_MISSED

MODEL = '<ir_version: 10, opset_import: ["" : 21]> g (float[N,2] x) => (float[N,2] y) { y = Softmax(x) }'


def opening(open_s: float, peak_bytes: int = 100) -> load_times.Opening:
    return load_times.Opening(open_s, 2 * open_s, 0.25, peak_bytes)


@pytest.mark.parametrize(
    ("ours", "theirs", "misses"),
    [
        (opening(0.0019), opening(0.001), []),  # below 2 ms whatever the other takes
        (opening(0.0021), opening(0.001), ["load"]),
        (opening(0.019), opening(0.1), []),
        (opening(0.021), opening(0.1), ["load"]),
        (opening(0.001, 101), opening(0.1, 100), ["memory"]),
        (opening(1.0), None, []),
    ],
)
def test_bounds_are_a_fifth_or_two_milliseconds_and_the_same_memory(
    ours: load_times.Opening, theirs: load_times.Opening | None, misses: list[str]
) -> None:
    row = load_times.Row("m", ours, theirs)
    assert row.misses == misses
    line = list(load_times.table([row]))[-1]
    assert line.startswith("| `m` | ") and line.endswith(f"| {', '.join(misses)} |")
    assert line.count("|") == next(load_times.table([])).count("|")


@pytest.mark.slow
def test_both_engines_are_measured_in_fresh_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "m.onnx")
    unknown = MODEL.replace('"" : 21', '"" : 21, "none" : 1').replace("Softmax", "none.Op")
    onnx.save(onnx.parser.parse_model(unknown), tmp_path / "bad.onnx")
    json_file = tmp_path / "l.json"
    try:
        load_times.main([tmp_path / "bad.onnx", tmp_path / "m.onnx"], processes=1, threads=1, json_file=json_file)
    except SystemExit as ended:  # a busy machine
        assert ended.code == EXIT_MISSED
    printed = capsys.readouterr()
    assert "| `m` |" in printed.out and printed.err.startswith("bad: ")
    [row] = json.loads(json_file.read_text(encoding="utf-8"))
    for side in ("ours", "theirs"):
        assert 0 < row[side]["open_s"] < 60 and row[side]["peak_bytes"] > 1e7
    # The imports of a session for symbolic dims come before what is measured.
    assert row["ours"]["open_s"] < row["ours"]["importing_s"]
