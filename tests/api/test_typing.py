"""A user's program under `mypy --strict`: what is right passes, what is wrong is refused; and the program runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from atcpy.api import arguments
from atcpy.cli import check, convert, explain, freeze, optimize
from atcpy.cli.invocation import _COMMON_PANEL
from atcpy.options import OPTIONS
from tests.sources import REPO

PROGRAM = REPO / "examples" / "python_api.py"
REFUSED = REPO / "tests" / "api" / "refused.py"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(REPO), "MYPYPATH": str(REPO)}


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, int, str]]:
    """File, line and code of each error that mypy finds, as for a program outside of this repository."""
    folder = tmp_path_factory.mktemp("mypy")
    files = []
    for path in (PROGRAM, REFUSED):
        (folder / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
        files.append(path.name)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=", *files]
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    # An installed package is not checked itself: errors elsewhere are those of stubs that protoc writes.
    found = re.findall(r"^([\w.]+):(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.M)
    return [(name, int(line), code) for name, line, code in found]


@pytest.mark.slow
def test_a_program_type_checks(complaints: list[tuple[str, int, str]]) -> None:
    assert [complaint for complaint in complaints if complaint[0] == PROGRAM.name] == []


@pytest.mark.slow
def test_names_and_options_that_there_are_not_are_refused(complaints: list[tuple[str, int, str]]) -> None:
    lines = enumerate(REFUSED.read_text(encoding="utf-8").splitlines(), 1)
    expected = {(number, line.rpartition("# refused: ")[2]) for number, line in lines if "# refused: " in line}
    assert {(line, code) for name, line, code in complaints if name == REFUSED.name} == expected


@pytest.mark.slow
def test_the_program_runs(tmp_path: Path) -> None:
    model = REPO / "models" / "digits" / "digits.onnx"
    command = [sys.executable, str(PROGRAM), str(model), str(tmp_path / "out")]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("no problems")
    assert "4 pairs of Conv and Relu were fused" in done.stdout
    assert re.search(r"^digit \d$", done.stdout, re.M)
    assert "INFO:atcpy:running the oracle" in done.stderr


COMMON = {*_COMMON_PANEL, "debug"}


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (arguments.CommonArguments, COMMON),
        (arguments.ConvertArguments, {*OPTIONS, *(alias for option in OPTIONS.values() for alias in option.aliases)}),
        (arguments.CheckArguments, {*check.TABLE, *COMMON}),
        (arguments.ExplainArguments, {*explain.TABLE, *COMMON}),
        (arguments.FreezeArguments, {*freeze.TABLE}),
        (
            arguments.QuantizeArguments,
            {
                "threads",
                "allow_hardlinks",
                "method",
                "per_channel",
                "activation_type",
                "weight_type",
                "exclude",
                "suggest",
                "max_samples",
            },
        ),
        (arguments.OptimizeArguments, {*optimize.TABLE, *COMMON, "level", "passes", "skip", "keep", "verify", "check"}),
    ],
)
def test_each_option_of_the_table_has_a_type(kind: type, names: set[str]) -> None:
    assert kind.__optional_keys__ == names  # type: ignore[attr-defined]
    assert {*convert.TABLE} <= arguments.ConvertArguments.__optional_keys__
