"""What a command does before its work is little: neither libraries nor threads that it does not need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources import REPO

THREADS = "2"  # the main one, and that which waits for signals
DIGITS = REPO / "models" / "digits" / "digits.onnx"
PROGRAM = """
import os, sys
from atcpy.__main__ import main
sys.stdout = open(os.devnull, "w")
main()
found = {"numpy", "onnx", "pydantic", "importlib.metadata", "atcpy.aipp.config", "onnxruntime"} & {*sys.modules}
print(*sorted(found), len(os.listdir("/proc/self/task")), file=sys.stderr)
"""


def run(*words: str) -> list[str]:
    """The libraries that a command loads, of those that take long, and how many threads its process has at the end."""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        env=environment | {"PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr.splitlines()[-1].split()


def test_the_help_loads_no_library_that_takes_long() -> None:
    assert run("--help") == [THREADS]


@pytest.mark.slow
def test_a_conversion_starts_no_threads_of_numpy(tmp_path: Path) -> None:
    found = run("convert", str(DIGITS), "-o", str(tmp_path / "digits.om"), "-q")
    assert found[-1] == THREADS
    assert "onnxruntime" not in found
