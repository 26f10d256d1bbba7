"""What the pages of docs/ say of the code holds: quoted blocks, lists of files, reasons, links, generated pages."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer

from atcpy.cli.app import app, execute
from atcpy.passes.phase import Phase
from tests.sources import MODULES, REPO, relative_name, syntax

DOCS = REPO / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *REPO.glob("*.md"), *(REPO / "benchmarks").glob("*.md")])
RECIPES = sorted(DOCS.glob("add-a*.md"))
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPO)}
needs_ndonnx = pytest.mark.skipif(importlib.util.find_spec("ndonnx") is None, reason="the extra jit is not installed")
GAP = "…"  # a line of its own in a quoted block: lines of the file are left out


def generated_pages() -> dict[Path, Callable[[], str]]:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages: dict[Path, Callable[[], str]] = module.PAGES
    return pages


@pytest.mark.parametrize(
    "path",
    # The page of operators tries every op with every type.
    [pytest.param(p, marks=pytest.mark.slow if p.name == "operators.md" else ()) for p in generated_pages()],
    ids=lambda path: path.name,
)
def test_generated_page_is_current(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == generated_pages()[path](), "run `make docs`"


def blocks(page: Path) -> Iterator[tuple[list[str], str]]:
    """The words behind the fence, such as `python atcpy/ops/move/trilu.py`, and the text of each block."""
    for info, text in re.findall(r"^```([^\n]*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S):
        yield info.split(), text


def test_a_block_that_names_a_file_quotes_it() -> None:
    quotes = [(page, info[1], text) for page in PAGES for info, text in blocks(page) if len(info) > 1]
    for page, name, text in quotes:
        file = (REPO / name).read_text(encoding="utf-8")
        at = 0
        for piece in re.split(rf"^[ ]*{GAP}\n", text, flags=re.M):
            found = file.find(piece, at)
            assert found >= 0, f"{page}: {name} does not have, behind what is quoted before it:\n{piece}"
            assert found == 0 or file[found - 1] == "\n"
            at = found + len(piece)


@pytest.mark.parametrize(
    "page",
    [
        *RECIPES,
        pytest.param(REPO / "README.md", marks=pytest.mark.slow),
        pytest.param(DOCS / "sink-mode.md", marks=pytest.mark.slow),
        pytest.param(DOCS / "locating-errors.md", marks=pytest.mark.slow),
        DOCS / "collectives.md",
        pytest.param(DOCS / "jit.md", marks=[needs_ndonnx, pytest.mark.slow]),
        *(
            DOCS / name
            for name in (
                "concurrency.md",
                "big-models.md",
                "aipp.md",
                "conformance.md",
                "custom-ops.md",
                "dynamic-shapes.md",
                "gears.md",
                "ge-api.md",
                "memory.md",
                "precision.md",
                "profiling.md",
                "python.md",
                "quantize.md",
                "report.md",
                "runtime.md",
                "scale-out.md",
                "streams.md",
                "tensorflow.md",
                "tutorial.md",
            )
        ),
    ],
    ids=relative_name,
)
@pytest.mark.usefixtures("no_custom_ops")
def test_python_and_commands_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("models/digits", "models/scores", "examples/custom_ops", "examples/sink"):
        shutil.copytree(REPO / folder, tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "example"}  # a page goes on with what it has defined
    for info, text in blocks(page):
        if info == ["python"]:
            exec(compile(text, relative_name(page), "exec"), names)
        elif info == ["sh"]:
            for line in text.splitlines():
                command, *arguments = shlex.split(line, comments=True)
                if command == "python":
                    subprocess.run([sys.executable, *arguments], env=ENVIRONMENT, check=True, capture_output=True)
                else:
                    assert command == "atcpy"
                    assert execute(arguments) == 0, line


@pytest.mark.parametrize("page", RECIPES, ids=relative_name)
def test_the_files_touched_are_listed_and_counted(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    count = re.search(r"^Files touched: (\d+)", text, re.M)
    assert count
    numbered = re.findall(r"^(\d+)\. `([^`]+)`", text, re.M)
    assert [int(number) for number, _ in numbered] == list(range(1, int(count[1]) + 1))
    for _, name in numbered:
        assert (REPO / name).is_file(), name
    for info, _ in blocks(page):
        if len(info) > 1:
            assert info[1] in [name for _, name in numbered]


def test_there_is_a_page_for_each_thing_that_is_added() -> None:
    assert [page.stem for page in RECIPES] == ["add-a-format", "add-a-kernel", "add-a-pass", "add-an-op"]


def test_each_page_is_in_the_index() -> None:
    index = set(re.findall(r"\]\(([^)]+\.md)\)", (DOCS / "README.md").read_text(encoding="utf-8")))
    assert index == {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} - {"README.md"}


def test_links_lead_somewhere() -> None:
    links = [(page, link) for page in PAGES for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8"))]
    assert [(relative_name(page), link) for page, link in links if not (page.parent / link).exists()] == []


def test_tests_that_a_page_links_exist() -> None:
    linked = [
        (page, name, file)
        for page in PAGES
        for name, file in re.findall(r"\[`(test_\w+)`\]\(([^)]+\.py)\)", page.read_text(encoding="utf-8"))
    ]
    assert len(linked) > 40  # docs/what-users-ask.md
    for page, name, file in linked:
        assert f"\ndef {name}(" in (page.parent / file).read_text(encoding="utf-8"), (relative_name(page), name)


def test_options_that_a_page_names_are_those_of_the_command() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    options = {
        name: {"help"}.union(
            text.lstrip("-").replace("-", "_")
            for parameter in command.params
            for text in (*parameter.opts, *parameter.secondary_opts)
        )
        for name, command in commands.items()
        if name != "atc"  # has a table of its own
    }
    named = [
        (relative_name(page), command, option.replace("-", "_"))
        for page in PAGES
        for command, rest in re.findall(r"`atcpy (\w+)\b([^`\n]*)`", page.read_text(encoding="utf-8"))
        for option in re.findall(r" --([\w-]+)", rest)
        if command in options
    ]
    assert len(named) > 50
    assert [each for each in named if each[2] not in options[each[1]]] == []


PATH = re.compile(
    r"(?:\.ci|atcpy|tests|docs|models|benchmarks|examples)/[\w./-]+|[\w/]+/[\w/]+\.(?:py|c|h|inc|proto|txt|md)"
)
GENERATED = ("models/generated", "build/")  # these appear when a target runs


def named_files(page: Path) -> Iterator[str]:
    """Yield the paths that a page names between backquotes, outside fenced blocks."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for code in re.findall(r"`([^`\n]+)`", text):
        yield from (word for word in code.split() if PATH.fullmatch(word) and not word.startswith(GENERATED))


def test_files_that_a_page_names_exist() -> None:
    named = [(page, name) for page in PAGES for name in named_files(page)]
    missing = [
        (relative_name(page), name)
        for page, name in named
        if not any((folder / name).exists() for folder in (REPO, REPO / "atcpy", page.parent))
    ]
    assert missing == []


def test_targets_that_a_page_names_exist() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (REPO / "Makefile").read_text(encoding="utf-8"), re.M))
    for page in PAGES:
        for words in re.findall(r"`make ((?:[a-z0-9-]+ ?)+)`", page.read_text(encoding="utf-8")):
            assert set(words.split()) <= targets, (page, words)


def reasons() -> set[str]:
    """The reason words of the code; what a formatted one inserts is in <>."""
    found = set()
    for path in MODULES:
        if "Reject(" not in path.read_text(encoding="utf-8"):  # parsing all of them takes seconds
            continue
        for node in syntax(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Reject":
                found.add(reason_of(node.args[0]))
    return found - {""}


def reason_of(argument: ast.expr) -> str:
    match argument:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(
                f"<{ast.unparse(part.value)}>" if isinstance(part, ast.FormattedValue) else ast.literal_eval(part)
                for part in parts
            )
        case ast.Starred() | ast.Call():  # read back from a package
            return ""
        case _:
            raise AssertionError(f"a reason is written where it is given, not {ast.unparse(argument)}")


def test_each_reason_is_a_row_of_the_table() -> None:
    table = (DOCS / "add-a-pass.md").read_text(encoding="utf-8").partition("## Reasons")[2]
    rows = re.findall(r"^\| `([^`]+)` \|", table, re.M)
    assert rows == sorted(set(rows))
    assert set(rows) == reasons()


def test_each_phase_is_a_row_of_its_table() -> None:
    page = (DOCS / "add-a-pass.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (prepare|split|optimize|compile) \| `(\w+)` \| (.+) \|$", page, re.M)
    assert rows == [(phase.stage.value, phase.name, phase.purpose) for phase in Phase]
