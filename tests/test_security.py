"""SECURITY.md is true: its list of what starts processes is that of the imports, and each row has its tests."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources import MODULES, REPO, relative_name
from tests.test_house import calls, libraries

PAGE = (REPO / "SECURITY.md").read_text(encoding="utf-8")
REACHING_OUT = {"subprocess", "multiprocessing", "socket", "socketserver", "mpi4py", "asyncio", "pty", "ssl"}
STARTING = {"fork", "forkpty", "system", "popen", "posix_spawn", "execv", "execve", "execvp", "spawnv"}


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_list_of_what_starts_processes_is_that_of_the_imports() -> None:
    listed = [re.findall(r"`([^`]+)`", row[0])[0] for row in rows("What starts processes")]
    importing = sorted(relative_name(path) for path in MODULES if libraries(path) & REACHING_OUT)
    assert sorted(listed) == importing


def test_nothing_starts_processes_without_such_an_import() -> None:
    assert {relative_name(path): calls(path) & STARTING for path in MODULES if calls(path) & STARTING} == {}


def test_each_attacker_is_tested() -> None:
    table = rows("Against whom")
    assert len({row[0] for row in table}) >= 6
    for who, _, _, tests in table:
        files = re.findall(r"`([^`]+)`", tests)
        assert files, who
        for file in files:
            assert "def test_" in (REPO / file).read_text(encoding="utf-8"), file


@pytest.mark.slow
def test_onnxruntime_keeps_no_record_of_its_use(tmp_path: Path) -> None:
    script = "import atcpy, onnxruntime; onnxruntime.InferenceSession('models/digits/digits.onnx')"
    environment = {name: text for name, text in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    environment |= {"TMPDIR": str(tmp_path), "HOME": str(tmp_path), "PYTHONPATH": str(REPO)}
    subprocess.run([sys.executable, "-c", script], cwd=REPO, env=environment, check=True)
    assert list(tmp_path.iterdir()) == []
