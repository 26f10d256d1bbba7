"""The order of the passes, as `atcpy passes list` tells it: a change of it is seen in review."""

from __future__ import annotations

from pathlib import Path

import pytest

from atcpy.cli.passes import all_passes

FILE = Path(__file__).parent / "passes.txt"


def test_passes_run_in_the_order_of_the_file(request: pytest.FixtureRequest) -> None:
    lines = [f"{record['stage']:8} {record['level']}  {record['name']}" for record in all_passes(None)]
    if request.config.getoption("--golden") == "rewrite":
        FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return
    assert FILE.read_text(encoding="utf-8").splitlines() == lines, "make golden rewrites it"
