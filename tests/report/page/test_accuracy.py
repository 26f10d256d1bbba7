"""Errors read out of files, and how they are shown."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from atcpy.errors import UsageError
from atcpy.report.page.accuracy import ComparedValue, read_accuracy, worst_first
from atcpy.report.page.sections import accuracy


def layer(node: str, max_abs: float | None, *, passed: bool = True, **more: object) -> dict[str, Any]:
    return {
        "value": f"{node}:0",
        "node": node,
        "op": "Conv",
        "max_abs": max_abs,
        "allowed": 2.0,
        "passed": passed,
        **more,
    }


def write(folder: Path, record: object) -> str:
    (folder / "j.json").write_text(json.dumps(record), encoding="utf-8")
    return str(folder / "j.json")


def test_the_worst_come_first(tmp_path: Path) -> None:
    table = [layer("a", 1.0), layer("b", None, passed=False), layer("c", 0), layer("d", 5.0, passed=False)]
    compared = read_accuracy(write(tmp_path, {"result": {"layers": {"table": table}}}))
    assert compared[1] == ComparedValue("b", "Conv", "b:0", math.inf, 2.0, False)
    assert [(value.node, value.share) for value in worst_first(compared)] == [
        ("b", math.inf), ("d", 2.5), ("a", 0.5), ("c", 0.0),
    ]  # fmt: skip
    shown = accuracy(compared)
    assert "4 values compared with the model; 2 of them differ by more than is allowed" in shown
    assert shown.index("b:0") < shown.index("d:0") < shown.index("a:0") < shown.index("c:0")


def test_nothing_allowed_is_an_infinite_share_of_any_error() -> None:
    assert ComparedValue("a", "o", "v", 1e-9, 0.0, False).share == math.inf
    assert ComparedValue("a", "o", "v", 0.0, 0.0, True).share == 0.0


@pytest.mark.parametrize(
    "record",
    [
        None, [], {}, {"result": None}, {"result": {"layers": None}}, {"result": {"layers": {"table": [{}]}}},
        {"result": {"layers": {"table": [layer("a", 1.0, op=3)]}}},
        {"result": {"layers": {"table": [layer("a", 1.0, allowed="x")]}}},
        {"result": {"layers": {"table": [layer("a", -1)]}}},
        {"result": {"layers": {"table": [layer("a", True)]}}},
        {"result": {"layers": {"table": [{**layer("a", 1), "passed": 1}]}}},
    ],
)  # fmt: skip
def test_what_is_no_comparison_is_refused(tmp_path: Path, record: object) -> None:
    with pytest.raises(UsageError) as refused:
        read_accuracy(write(tmp_path, record))
    assert refused.value.code == "E13005"
