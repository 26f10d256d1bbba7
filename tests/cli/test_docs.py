"""The examples of docs/cli.md and of the README, run in order in a copy of what they name."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from atcpy.cli.app import execute
from tests.om.signing_keys import private_key
from tests.sandboxes import need_sandbox

from .conftest import REPO, environment

PAGE = REPO / "docs" / "cli.md"
PAGES = tuple(
    REPO / "docs" / f"{name}.md"
    for name in (
        "cli",
        "atc",
        "finding-causes",
        "locating-errors",
        "memory",
        "optimize",
        "profiling",
        "quantize",
        "report",
        "sandbox",
        "signing",
        "tensorflow",
    )
)
ANY = "…"


def examples(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Each `$ command` of the fenced blocks with the lines below it."""
    for block in re.findall(r"^```\n(\$ .*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, *expected = part.splitlines()
            yield command, expected


def pattern(expected: list[str]) -> str:
    """A regular expression for the lines: `…` is any text, on a line of its own any lines."""
    lines = []
    for line in expected:
        if line.strip() == ANY:
            lines.append(r"(?:.*\n)*?")
        else:
            pieces = [re.sub(r"(\\ )+", " +", re.escape(piece)) for piece in line.split(ANY)]
            lines.append(".*".join(pieces) + r"\n")
    return "".join(lines)


def run(command: str, folder: Path, *, in_process: bool) -> str:
    """Return what a command prints on either stream."""
    arguments = shlex.split(command)
    if arguments[0] == "atcpy" and in_process:
        printed = io.StringIO()
        with contextlib.chdir(folder), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            execute(arguments[1:])
        return printed.getvalue()
    if arguments[0] == "atcpy":
        arguments[:1] = [sys.executable, "-m", "atcpy"]
    ran = subprocess.run(
        arguments, cwd=folder, env={**environment(), "COLUMNS": "200"}, text=True, stderr=subprocess.STDOUT,
        stdout=subprocess.PIPE, check=False,
    )  # fmt: skip
    return ran.stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clone")
    for name in ("digits", "scores"):
        shutil.copytree(REPO / "models" / name, folder / "models" / name)
    shutil.copytree(REPO / "examples" / "singleop", folder / "examples" / "singleop")
    os.mkdir(folder / "out")
    return folder


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=() if page == PAGE else pytest.mark.slow, id=page.name) for page in PAGES]
)
def test_the_examples_print_what_the_page_says(page: Path, clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first command of a page is a process of its own, which is what users start."""
    if page.stem == "sandbox":
        need_sandbox()
    if page.stem == "signing":
        private_key()
        if shutil.which("openssl") is None:
            pytest.skip("needs openssl")
    monkeypatch.setenv("COLUMNS", "200")
    found = list(examples(page))
    assert len(found) >= (10 if page == PAGE else 1)
    for number, (command, expected) in enumerate(found):
        printed = run(command, clone, in_process=number > 0)
        assert re.fullmatch(pattern(expected), printed), f"$ {command}\n{printed}"


def test_each_command_has_a_section() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in ("convert", "check", "inspect", "run", "verify", "bench", "optimize", "passes", "doctor"):
        assert f"\n## {name}\n" in text


@pytest.mark.parametrize(
    ("line", "printed", "fits"),
    [
        ("a … c", "a b c\n", True),
        ("a  b", "a      b\n", True),
        ("a b", "a c\n", False),
        ("a.b", "axb\n", False),
    ],
)
def test_the_patterns_are_strict_but_for_the_ellipsis(line: str, printed: str, fits: bool) -> None:
    assert bool(re.fullmatch(pattern([line]), printed)) is fits
