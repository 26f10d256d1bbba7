"""Every hostile model ends in a documented exit code: said plainly, nothing left behind, the old package whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from atcpy.cli.app import execute
from tests.e2e.hostile_models import CASES, to_bytes

REPO = Path(__file__).parents[2]
OLD = b"the package of yesterday"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a model is put there, an old package lies there."""
    (tmp_path / "m.om").write_bytes(OLD)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def unchanged(folder: Path) -> bool:
    """Is nothing there but the model and the package of before?"""
    return sorted(os.listdir(folder)) == ["m.om", "m.onnx"] and (folder / "m.om").read_bytes() == OLD


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_model_is_refused(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, exits = CASES[name]
    (folder / "m.onnx").write_bytes(to_bytes(make()))

    code = execute(["convert", "--model", "m.onnx", "-o", "m.om", "--json"])
    printed = capsys.readouterr()
    assert code in exits, printed.err
    assert unchanged(folder)
    envelope = json.loads(printed.out)
    assert envelope["exit_code"] == code and envelope["errors"]
    assert printed.err.startswith("error[") and "Traceback" not in printed.err
    assert all(len(line.encode()) <= 500 for line in printed.err.splitlines())
    assert not any(ord(c) < 32 and c != "\n" for c in printed.err)

    # What `check` lets pass, `convert` may refuse for its size or its kernels, but not as invalid.
    checked = execute(["check", "m.onnx"])
    printed = capsys.readouterr()
    assert unchanged(folder)
    assert checked == code or (checked == 0 and code in (4, 6)), printed.err
    assert bool(printed.err) == (checked != 0)


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 150


# One of each kind, and those that once had recursion, huge allocations or a native library's abort behind them.
IN_A_PROCESS = [
    "file: five thousand nested messages",
    "file: a message of endless length",
    "window: MaxPool pads=2^63-1",
    "shape: Range by 0",
    "structure: function that calls itself",
    "unsupported: op with control characters",
    "large: Range of 2^63",
    "large: Expand to 10^12",
]


@pytest.mark.slow
def test_nothing_dies_in_a_process_of_its_own(tmp_path: Path) -> None:
    def run(number: int) -> None:
        name = IN_A_PROCESS[number]
        make, exits = CASES[name]
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "m.onnx").write_bytes(to_bytes(make()))
        (folder / "m.om").write_bytes(OLD)
        command = [sys.executable, "-m", "atcpy", "convert", "--model", "m.onnx", "-o", "m.om"]
        ran = subprocess.run(
            command, cwd=folder, env={**os.environ, "PYTHONPATH": str(REPO)}, capture_output=True, text=True, timeout=60
        )
        assert ran.returncode in exits, (name, ran.stderr)
        assert ran.stdout == "" and ran.stderr and "Traceback" not in ran.stderr, name
        assert unchanged(folder), name

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, range(len(IN_A_PROCESS))))
