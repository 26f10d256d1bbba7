"""One small model and its package, and commands run in this process or in one of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import pytest

from atcpy.cli.app import execute

REPO = Path(__file__).parents[2]
MODEL = """<ir_version: 8, opset_import: ["" : 17], producer_name: "hand">
linear (float[2,3] x) => (float[2,4] y) {
  w = Constant<value = float[3,4] {1, 0, 0, 2,  0, 1, 0, 3,  0, 0, 1, 4}>()
  y = MatMul(x, w)
}"""


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def envelope(self) -> dict[str, Any]:
        """The one object that `--json` prints."""
        assert self.out.count("\n") == 1
        parsed: dict[str, Any] = json.loads(self.out)
        return parsed


Invoke = Callable[..., Ran]


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str]) -> Invoke:
    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        code = execute([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPO)}


def spawn(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    """The command in a process of its own, its streams piped."""
    command = [sys.executable, "-m", "atcpy", *map(str, arguments)]
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, **{"env": environment(), **streams, **options})


def finish(process: subprocess.Popen[str]) -> Ran:
    out, err = process.communicate(timeout=60)
    return Ran(process.returncode, out or "", err or "")


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with linear.onnx and linear.om, read-only for tests."""
    folder = tmp_path_factory.mktemp("shelf")
    onnx.save(onnx.parser.parse_model(MODEL), folder / "linear.onnx")
    assert execute(["convert", "--model", str(folder / "linear.onnx"), "-o", str(folder / "linear"), "-q"]) == 0
    return folder


@pytest.fixture
def model(shelf: Path) -> Path:
    return shelf / "linear.onnx"


@pytest.fixture
def package(shelf: Path) -> Path:
    return shelf / "linear.om"
