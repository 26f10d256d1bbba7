"""The notebooks of examples/ run, cell after cell, as Jupyter would run them in a folder of their own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.sources import REPO

NOTEBOOKS = sorted((REPO / "examples" / "notebooks").glob("*.ipynb"))


def cells(notebook: Path, kind: str) -> list[dict[str, Any]]:
    record = json.loads(notebook.read_text(encoding="utf-8"))
    assert (record["nbformat"], record["nbformat_minor"]) == (4, 5)
    return [cell for cell in record["cells"] if cell["cell_type"] == kind]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(REPO / "models" / "digits", tmp_path / "models" / "digits")
    folder = tmp_path / "examples" / "notebooks"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    names: dict[str, object] = {"__name__": "__main__"}
    for cell in cells(notebook, "code"):
        exec(compile("".join(cell["source"]), f"{notebook.name}:{cell['id']}", "exec"), names)
    assert capsys.readouterr().out  # what a reader sees
    assert list(folder.glob("*.om"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_results(notebook: Path) -> None:
    assert {(cell["execution_count"], len(cell["outputs"])) for cell in cells(notebook, "code")} == {(None, 0)}
    [title, *_] = cells(notebook, "markdown")
    assert "".join(title["source"]).startswith("# ")


def test_there_are_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["first_package", "io_binding", "precision"]
