"""The table over operators: what it compares, what it says of slow and wrong ones, and that it has all kernels."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import op_cases
import ops
import pytest
import typer

from atcpy.kernels.table import kernel_table

# Control flow has control_flow.py; aipp comes from a configuration file.
NOT_BY_ONE_NODE = {"if", "loop", "stream_active", "aipp"}


def test_two_operators_at_tiny_settings(tmp_path: Path) -> None:
    found = tmp_path / "ops.json"
    try:
        ops.main(["Trilu", "GatherND rows"], sizes="small", rounds=1, seconds=0.0, json_file=found)
    except SystemExit as ended:
        assert ended.code == ops.EXIT_SLOW
    record = json.loads(found.read_text())
    assert [row["case"] for row in record["rows"]] == ["GatherND rows", "Trilu"]
    assert all(row["ours_us"] > 0 and row["ort_us"] > 0 and not row["problem"] for row in record["rows"])
    assert record["rows"][1]["kernels"] == ["trilu_any_scalar"]
    assert {"machine", "commit", "versions"} <= record.keys()
    text = ops.page(record)
    assert re.search(r"^\| Trilu \| `trilu_any_scalar` \| [\d.e+]+ \| ", text, re.MULTILINE)


def test_slow_rows_decide_the_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        ops.Row("Fast", "small", ("fast_f32_scalar",), 2.0, 4.0),
        ops.Row("Slow", "small", ("slow_f32_scalar",), 4.0, 2.0),
        ops.Row("Slower", "small", ("slow_f32_scalar",), 4.0, 1.0),
    ]
    assert write_and_read(rows[:1], tmp_path) == 0
    assert write_and_read(rows, tmp_path) == ops.EXIT_SLOW
    printed = capsys.readouterr().out
    assert "Below 0.8: 2.\n- Slower, small: 0.25\n- Slow, small: 0.50" in printed
    assert "| Slow | `slow_f32_scalar` | 4 | **0.50** |" in (tmp_path / "page.md").read_text()


def test_wrong_results_are_not_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops, "_open_ort", lambda model, feeds: (lambda: None, [np.zeros(feeds["x0"].shape, "f4")]))
    case = next(case for case in op_cases.CASES if case.name == "Exp")
    row = ops.measure(case, "small", rounds=1, seconds=0.0)
    assert row.is_wrong
    assert row.ratio is None
    assert "output 0 differs by" in row.problem
    assert write_and_read([row], tmp_path) == ops.EXIT_WRONG


def write_and_read(rows: list[ops.Row], folder: Path) -> int:
    """The exit status of writing a page of these rows."""
    record = {
        "machine": {"cpu": "A CPU", "isa": "avx2"},
        "commit": "0123abc",
        "date": "2026-05-04",
        "versions": {"atcpy": "0.1.0", "onnxruntime": "1.31.1"},
        "rows": [row.__dict__ for row in rows],
    }
    (folder / "ops.json").write_text(json.dumps(record))
    try:
        ops.main(None, from_files=[folder / "ops.json"], page_file=folder / "page.md")
    except SystemExit as ended:
        assert isinstance(ended.code, int)
        return ended.code
    return 0


def test_files_of_one_commit_are_joined(tmp_path: Path) -> None:
    rows = [ops.Row("Fast", "small", ("fast_f32_scalar",), 2.0, 4.0)]
    write_and_read(rows, tmp_path)
    path = tmp_path / "ops.json"
    ops.main(None, from_files=[path, path], json_file=tmp_path / "both.json")
    both = json.loads((tmp_path / "both.json").read_text())
    assert len(both["rows"]) == 2
    path.write_text(json.dumps(both | {"commit": "another"}))
    with pytest.raises(typer.BadParameter, match="differ in commit"):
        ops.main(None, from_files=[path, tmp_path / "both.json"])


def test_unknown_names_are_refused() -> None:
    with pytest.raises(typer.BadParameter, match="no case begins with Nothing"):
        ops.main(["Nothing"])
    with pytest.raises(typer.BadParameter, match="huge"):
        ops.main(["Trilu"], sizes="huge")


def test_results_are_compared_exactly_but_for_rounding() -> None:
    case = next(case for case in op_cases.CASES if case.name == "TopK")
    exact = [np.arange(4, dtype=np.float32), np.arange(4)]
    assert ops._difference(case, exact, exact) == ""
    assert ops._difference(case, exact, [exact[0], exact[1] + 1]) == "output 1 differs in 4 of 4 elements"
    assert ops._difference(case, exact, [exact[0].astype(float), exact[1]]).startswith("output 0 is float32[4], not")
    levels = [np.array([1, 2], np.uint8)]
    assert ops._difference(case, levels, [np.array([2, 2], np.uint8)]) == ""
    assert ops._difference(case, levels, [np.array([3, 2], np.uint8)]) == "output 0 differs by 2 steps"


@pytest.mark.slow
def test_every_family_of_kernels_has_a_case() -> None:
    of_winograd = {"Conv 3x3": "medium", "QLinearConv 3x3": "large"}
    sizes = [(case, of_winograd.get(case.name, "small")) for case in op_cases.CASES]
    used = {kernel for case, size in sizes for kernel in ops.measure(case, size, rounds=1, seconds=0.0).kernels}
    rows = kernel_table()
    assert {row.family for row in rows} - {row.family for row in rows if row.name in used} == NOT_BY_ONE_NODE
