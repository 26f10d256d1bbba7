"""Imports go down only: each package has a layer, and sees those below it."""

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.sources import ROOT, relative_name, syntax

LAYERS = [
    {"errors"},
    {"deadline", "sizes", "threads", "discovery", "files", "wire_format"},
    {"config_files"},
    {"precision_options"},
    {"aipp"},
    {"options", "atc_flags"},
    {"ir"},
    {"ops", "formats", "kernels"},
    {"parsers", "exporters", "passes", "om"},
    {"stages", "rewrite", "runtime"},
    {"verify", "report", "bench", "debug"},
    {"quantization"},
    {"backend", "ge", "jit"},
    {"cli"},
    {"api"},
]
LEVEL = {package: level for level, layer in enumerate(LAYERS) for package in layer}
# What ties the layers together: the lazy names of the package, and `python -m atcpy`.
OUTSIDE = {ROOT / "__init__.py", ROOT / "__main__.py"}
MODULES = sorted(set(ROOT.rglob("*.py")) - OUTSIDE)
STAGE_FOLDERS = ("prepare", "split", "optimize", "compile")


def imported_modules(path: Path, nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ...]]:
    """Yield the modules below atcpy that a file imports, anywhere in it, as their parts after `atcpy`."""
    package = ("atcpy", *path.relative_to(ROOT).parts[:-1])
    for node in nodes:
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


def upward_imports(path: Path) -> set[str]:
    """Return the packages of its own layer or of those above that a file imports."""
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert own in LEVEL, f"the new package '{own}' needs a layer"
    others = {parts[0] for parts in imported_modules(path, syntax(path))} - {own}
    return {package for package in others if LEVEL.get(package, 0) >= LEVEL[own]}


def test_imports_go_down() -> None:
    up = {relative_name(path): upward_imports(path) for path in MODULES}
    assert {path: packages for path, packages in up.items() if packages} == {}


# What runs a package. The compiler's writer of packages lies beside their reader, and is none of it.
RUNTIME = {"errors", "deadline", "sizes", "threads", "files", "config_files", "discovery"}
RUNTIME |= {"aipp", "options", "precision_options"}
RUNTIME |= {"ir", "ops", "formats", "kernels", "om", "runtime"}
RUNTIME_MODULES = [
    path
    for path in MODULES
    if path.relative_to(ROOT).parts[0].removesuffix(".py") in RUNTIME and path != ROOT / "om" / "writer.py"
]
RUNTIME_DEPENDENCIES = {"atcpy", "google", "ml_dtypes", "mpi4py", "numpy", "xxhash"}


def test_the_runtime_does_not_import_the_compiler() -> None:
    others = {relative_name(p): {parts[0] for parts in imported_modules(p, syntax(p))} for p in RUNTIME_MODULES}
    assert {path: names - RUNTIME for path, names in others.items() if names - RUNTIME} == {}


def test_the_runtime_needs_few_packages() -> None:
    """When it is imported; functions may import `onnx`, for what the host runs by its reference implementation."""
    needed = {relative_name(path): imported_at_once(path) - RUNTIME_DEPENDENCIES for path in RUNTIME_MODULES}
    assert {path: names for path, names in needed.items() if names} == {}


def imported_at_once(path: Path) -> set[str]:
    """Return the packages besides the standard library that a module imports when it is imported itself."""
    statements: list[ast.AST] = [syntax(path)[0]]
    names: set[str] = set()
    while statements:
        match statements.pop():
            case ast.Import(names=aliases):
                names |= {alias.name.partition(".")[0] for alias in aliases}
            case ast.ImportFrom(module=str(module), level=0):
                names.add(module.partition(".")[0])
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=orelse):
                statements += orelse
            case ast.Module() | ast.Try() | ast.ExceptHandler() | ast.If() as block:
                statements += ast.iter_child_nodes(block)
    return names - sys.stdlib_module_names


def test_stage_folders_do_not_import_each_other() -> None:
    across = {}
    for path in MODULES:
        # The list of all passes is the one place that names the folders.
        if path.is_relative_to(ROOT / "passes") and path != ROOT / "passes" / "__init__.py":
            own = path.relative_to(ROOT / "passes").parts[0]
            modules = imported_modules(path, syntax(path))
            imported = {parts[1] for parts in modules if parts[0] == "passes" and len(parts) > 1}
            across[relative_name(path)] = imported & set(STAGE_FOLDERS) - {own}
    assert {path: folders for path, folders in across.items() if folders} == {}


def test_families_of_passes_do_not_import_each_other() -> None:
    across = {}
    for path in (ROOT / "passes").glob("*/*/*.py"):
        stage, own = path.relative_to(ROOT / "passes").parts[:2]
        modules = imported_modules(path, syntax(path))
        imported = {parts[2] for parts in modules if parts[:2] == ("passes", stage) and len(parts) > 2}
        families = {folder.name for folder in (ROOT / "passes" / stage).iterdir() if folder.is_dir()}
        across[relative_name(path)] = imported & families - {own}
    assert {path: families for path, families in across.items() if families} == {}


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
    assert {parts[0] for parts in imported_modules(ROOT / "ir" / "graph.py", ast.walk(ast.parse(source)))} == {package}
