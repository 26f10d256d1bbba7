"""Prints the bill of materials of atcpy's wheel as JSON: CycloneDX 1.6, for the wheel's folder `sboms` (PEP 770).

    python packaging/sbom.py pyproject.toml

It says what the project requires, not what some machine has installed, so it is the same wherever a wheel is built: no
serial number, no time, and ranges of versions as properties, since a component has one version or none.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

EXTENSION = "atcpy/kernels/_kernels"
# Data that follows the definitions of others. Nothing in the wheel is a copy of their files.
FOLLOWING = {
    "atcpy/aipp/schema/insert_op.proto": "Names of the fields are those of the manual of ATC.",
    "atcpy/om/schema/ge_ir.proto": "Names and numbers of the fields are those of GE's model description.",
    "atcpy/om/schema/task.proto": "Names and numbers of the fields are those of GE's task description.",
    "atcpy/parsers/tensorflow/schema/tensorflow.proto": "Names and numbers of the fields are those of TensorFlow.",
    "atcpy/parsers/tensorflow/schema/op_defs.json": "Read from the registry of TensorFlow 2.21 (Apache-2.0).",
}


def bill_of_materials(
    project: Mapping[str, Any], requirements: Sequence[str], extras: Sequence[str], files: Iterable[str]
) -> str:
    """Return the bill of a wheel of `project` that needs `requirements`, offers `extras` and holds `files`."""
    licenses = [{"expression": project["license"]}]
    purl = f"pkg:pypi/{project['name']}@{project['version']}"
    extension = {
        "bom-ref": EXTENSION, "type": "file", "name": EXTENSION, "licenses": licenses,
        "description": "Kernels and executor, compiled from atcpy/kernels/csrc. No source is vendored.",
    }  # fmt: skip
    following = [
        {"bom-ref": path, "type": "file", "name": path, "licenses": licenses, "pedigree": {"notes": FOLLOWING[path]}}
        for path in sorted(FOLLOWING.keys() & set(files))
    ]
    parts: list[dict[str, Any]] = [extension, *following]
    libraries: dict[str, dict[str, Any]] = {}
    for scope, group in (("optional", extras), ("required", requirements)):
        libraries |= {_name(requirement): _component(requirement, scope) for requirement in group}
    components = [libraries[name] for name in sorted(libraries)]
    references = [component["bom-ref"] for component in components]
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "bom-ref": purl, "type": "library", "name": project["name"], "version": project["version"],
                "description": project["description"], "licenses": licenses, "purl": purl,
                "components": sorted(parts, key=lambda part: str(part["name"])),
            },
        },
        "components": components,
        "dependencies": [{"ref": purl, "dependsOn": references}, *({"ref": reference} for reference in references)],
        # What the extension is made of is known; what the libraries need in turn is not listed.
        "compositions": [
            {"aggregate": "complete", "assemblies": [EXTENSION]},
            {"aggregate": "incomplete", "dependencies": references},
        ],
    }  # fmt: skip
    return json.dumps(bill, indent=2) + "\n"


def _component(requirement: str, scope: str) -> dict[str, Any]:
    name = _name(requirement)
    component = {"bom-ref": f"pkg:pypi/{name}", "type": "library", "name": name, "purl": f"pkg:pypi/{name}"}
    if exact := re.fullmatch(r"[\w.-]+==([\w.]+)", requirement):
        component |= {"version": exact[1], "purl": f"pkg:pypi/{name}@{exact[1]}"}
    return component | {"scope": scope, "properties": [{"name": "atcpy:requirement", "value": requirement}]}


def _name(requirement: str) -> str:
    """The name of a distribution as package URLs write it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement)[0]).lower()


def main(pyproject: str) -> None:
    """Print the bill of the wheel that pyproject.toml describes."""
    project = tomllib.loads(Path(pyproject).read_text(encoding="utf-8"))["project"]
    groups = {name: group for name, group in project["optional-dependencies"].items() if name != "dev"}
    extras = [requirement for name in sorted(groups) for requirement in groups[name]]
    print(bill_of_materials(project, project["dependencies"], extras, FOLLOWING), end="")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
