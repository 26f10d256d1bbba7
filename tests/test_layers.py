"""Imports go down only: each package has a layer, and sees those below it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "atcpy"
LAYERS = [
    {"errors", "options"},
    {"ir"},
    {"ops", "formats", "kernels"},
    {"parsers", "exporters", "passes", "om"},
    {"stages", "rewrite", "runtime"},
    {"verify", "report", "bench", "debug"},
    {"cli", "backend", "ge", "jit"},
]
LEVEL = {package: level for level, layer in enumerate(LAYERS) for package in layer}
# What ties the layers together: the lazy names of the package, and `python -m atcpy`.
OUTSIDE = {ROOT / "__init__.py", ROOT / "__main__.py"}
MODULES = sorted(set(ROOT.rglob("*.py")) - OUTSIDE)
STAGE_FOLDERS = ("prepare", "split", "optimize", "compile")


def relative_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imported_modules(path: Path, source: str | None = None) -> Iterator[tuple[str, ...]]:
    """The modules below atcpy that a file imports, anywhere in it, as their parts after `atcpy`."""
    package = ("atcpy", *path.relative_to(ROOT).parts[:-1])
    for node in ast.walk(ast.parse(source if source is not None else path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) + "." if node.level else ""
            stem = (base + (node.module or "")).rstrip(".")
            names = [f"{stem}.{alias.name}" for alias in node.names]
        for name in names:
            if name.startswith("atcpy."):
                yield tuple(name.split(".")[1:])


def imported_packages(path: Path) -> set[str]:
    return {parts[0] for parts in imported_modules(path)}


@pytest.mark.parametrize("path", MODULES, ids=relative_name)
def test_imports_go_down(path: Path) -> None:
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert own in LEVEL, f"the new package '{own}' needs a layer"
    others = imported_packages(path) - {own}
    # errors is the bottom of everything; options, its neighbour, uses it.
    up = {p for p in others if LEVEL.get(p, 0) >= LEVEL[own] and p != "errors"}
    assert not up, f"layer {LEVEL[own]} '{own}' imports {sorted(up)}"


@pytest.mark.parametrize("path", [p for p in MODULES if p.is_relative_to(ROOT / "passes")], ids=relative_name)
def test_stage_folders_do_not_import_each_other(path: Path) -> None:
    own = path.relative_to(ROOT / "passes").parts[0]
    imported = {parts[1] for parts in imported_modules(path) if parts[0] == "passes" and len(parts) > 1}
    if own in STAGE_FOLDERS:
        across = (imported & set(STAGE_FOLDERS)) - {own}
        assert not across, f"passes/{own} imports passes/{sorted(across)}"
    elif own != "__init__.py":  # the list of all passes is the one place that names them
        assert not imported & set(STAGE_FOLDERS), f"passes/{own} is below the stage folders"


@pytest.mark.parametrize("path", sorted((ROOT / "passes").glob("*/*/*.py")), ids=relative_name)
def test_families_of_passes_do_not_import_each_other(path: Path) -> None:
    stage, own = path.relative_to(ROOT / "passes").parts[:2]
    imported = {parts[2] for parts in imported_modules(path) if parts[:2] == ("passes", stage) and len(parts) > 2}
    families = {folder.name for folder in (ROOT / "passes" / stage).iterdir() if folder.is_dir()}
    assert not (imported & families) - {own}, f"passes/{stage}/{own} imports {sorted(imported - {own})}"


@pytest.mark.parametrize(
    ("source", "package"),
    [
        ("import atcpy.cli.app", "cli"),
        ("from atcpy.stages import pipeline", "stages"),
        ("from atcpy import runtime", "runtime"),
        ("def f():\n    from atcpy.om.writer import to_bytes", "om"),
        ("from ..om import writer", "om"),
        ("from .. import om", "om"),
        ("from .node import Node", "ir"),
    ],
)
def test_the_test_sees_each_form_of_import(source: str, package: str) -> None:
    assert {parts[0] for parts in imported_modules(ROOT / "ir" / "graph.py", source)} == {package}
