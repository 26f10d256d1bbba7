"""What atcpy adds to kernels: that something is measured, and what is printed."""

from __future__ import annotations

from pathlib import Path

import overhead
import pytest


def test_a_task_is_a_part_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overhead, "MANY", 108)
    run_ns, task_ns = overhead.executor_ns(1)
    assert run_ns > 0 and 0 < task_ns < 1e6


@pytest.mark.slow
def test_the_pool_is_measured_with_all_threads(tmp_path: Path) -> None:
    latency = overhead.pool_latency(2, 0, tmp_path)
    assert 0 < latency.begin[0] <= latency.begin[1]
    assert 0 < latency.end[0] <= latency.end[1]


def test_the_table_has_a_row_for_each_figure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(overhead, "executor_ns", lambda threads: (2000.0, 70.0))
    monkeypatch.setattr(
        overhead, "pool_latency", lambda threads, pause, folder: overhead.Latency((pause + 1, 2), (3, 4))
    )
    overhead.main(threads=2)
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| a run, beside its tasks | 2000 | |",
        "| a task, its kernel included | 70 | |",
        "| 2 threads begin, workers spin | 1 | 2 |",
        "| their end is noticed, workers spin | 3 | 4 |",
        "| 2 threads begin, workers sleep | 301 | 2 |",
        "| their end is noticed, workers sleep | 3 | 4 |",
    ]
