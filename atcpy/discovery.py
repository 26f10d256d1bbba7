"""Registration by import: every module below a package is loaded, in alphabetical order."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import walk_packages


def import_modules(package: str, folders: Iterable[str]) -> None:
    """Import all modules of a package and of its sub-packages, so that what they declare registers itself."""
    for name in sorted(info.name for info in walk_packages(folders, f"{package}.")):
        import_module(name)
