"""Prints what tests need, as requirements for pip: of atcpy's dependencies and its extra `verify` the lowest versions.

    python packaging/lowest.py pyproject.toml

`make oldest` tests with these: a range whose lower end nobody tests is a guess.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement


def lowest(requirements: Iterable[str]) -> list[str]:
    """Return `name==version` for each requirement, by its `>=`. Raises ValueError for one that has no lower bound."""
    pinned = []
    for text in requirements:
        requirement = Requirement(text)
        bounds = [bound.version for bound in requirement.specifier if bound.operator == ">="]
        if len(bounds) != 1:
            raise ValueError(f"{text}: it has no lower bound")
        pinned.append(f"{requirement.name}=={bounds[0]}")
    return pinned


def main(pyproject: str) -> None:
    """Print the requirements of a project."""
    project = tomllib.loads(Path(pyproject).read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    print("\n".join([*lowest([*project["dependencies"], *extras["verify"]]), *extras["dev"]]))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
