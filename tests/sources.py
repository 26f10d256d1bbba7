"""The source files of the repository, each parsed once however many rules read it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from atcpy.ir.collector import collector_paused

REPO = Path(__file__).parent.parent
ROOT = REPO / "atcpy"
CSRC = ROOT / "kernels" / "csrc"
MODULES = sorted(path for path in ROOT.rglob("*.py") if not path.name.endswith("_pb2.py"))


@cache
def syntax(path: Path) -> tuple[ast.AST, ...]:
    """Return every node of a file's syntax tree."""
    with collector_paused():
        return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def texts(path: Path) -> list[str]:
    """Return the string constants of a file."""
    return [node.value for node in syntax(path) if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def relative_name(path: Path) -> str:
    return str(path.relative_to(REPO))
