"""Licences of what atcpy needs to run and to be developed, and the origin of each data file of the repository."""

import re
import shutil
import subprocess
import tomllib
from functools import cache
from importlib.metadata import Distribution, distribution

import pytest
from packaging.requirements import Requirement

from tests.sources import REPO

PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DEVELOPMENT = [text for group in ("dev", "dist", "sign") for text in PROJECT["optional-dependencies"][group]]

# Licences that ask for no more than a notice: an Apache-2.0 program may need their packages.
PERMISSIVE = {
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "MIT-CMU", "PSF-2.0",
    "Zlib",
}  # fmt: skip
# What older metadata says, in place of an SPDX expression.
SPELLINGS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "OSI Approved :: Apache Software License": "Apache-2.0",
    "PSFL": "PSF-2.0",
}
# Other licences of single packages, and why they are no obstacle.
EXCEPTIONS = {
    "certifi": ("MPL-2.0", "MkDocs's theme needs it; no file of it is changed or distributed"),
    "colorama": ("BSD License", "the clauses are three, its file says"),
    "jinja2": ("BSD License", "the clauses are three, its file says"),
    "mergedeep": ("UNKNOWN", "its file is MIT's"),
    "hypothesis": ("MPL-2.0", "tests import it; no file of it is changed or distributed"),
    "pathspec": ("MPL-2.0", "mypy needs it; no file of it is changed or distributed"),
    "ndonnx": ("BSD License", "BSD-3-Clause by its file LICENSE; the metadata does not say which"),
    "spox": ("BSD License", "BSD-3-Clause by its file LICENSE; the metadata does not say which"),
    "mpich": ("LicenseRef-MPICH", "permissive: like BSD, it asks for its notice and disclaimer"),
}


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def needed(requirements: tuple[str, ...]) -> dict[str, Distribution]:
    """Return the distributions that requirements ask for in this environment, and what those ask for in turn."""
    found: dict[str, Distribution] = {}
    pending = [Requirement(text) for text in requirements]
    for requirement in pending:  # grows while it is walked
        name = normalized(requirement.name)
        extras = requirement.extras or {""}
        if name in found or not (
            requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras)
        ):
            continue
        found[name] = distribution(name)
        pending += map(Requirement, found[name].requires or ())
    return found


def license_of(package: Distribution) -> str:
    """Return the licence that the metadata states, as an SPDX expression where it can be told."""
    metadata = package.metadata
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    classifiers = [
        text.rpartition(" :: ")[2] for text in metadata.get_all("Classifier", ()) if text.startswith("License")
    ]
    stated = metadata["License"] if "License" in metadata else " AND ".join(classifiers)
    return SPELLINGS.get(stated, stated)


def is_permissive(expression: str) -> bool:
    return all(PERMISSIVE & set(part.strip("() ").split(" OR ")) for part in expression.split(" AND "))


@pytest.mark.parametrize(
    ("expression", "permissive"),
    [
        ("MIT", True), ("MPL-2.0", False), ("", False), ("GPL-3.0-only", False), ("MIT AND Zlib", True),
        ("Public", False),
        ("MIT AND LGPL-2.1-only", False), ("GPL-2.0-only OR MIT", True),
        ("(GPL-2.0-only OR MIT) AND BSD-3-Clause", True),
    ],
)  # fmt: skip
def test_expressions_are_judged(expression: str, permissive: bool) -> None:
    assert is_permissive(expression) == permissive


def test_what_atcpy_runs_with_is_permissive() -> None:
    packages = needed((*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["verify"]))
    assert {"numpy", "onnx", "protobuf", "markdown-it-py"} <= packages.keys()
    stated = {name: license_of(package) for name, package in packages.items()}
    assert {name: text for name, text in stated.items() if not is_permissive(text)} == {}


def test_what_atcpy_is_developed_with_is_permissive_or_an_exception() -> None:
    packages = needed((*PROJECT["dependencies"], *DEVELOPMENT))
    stated = {name: license_of(package) for name, package in packages.items()}
    others = {name: text for name, text in stated.items() if not is_permissive(text)}
    assert others == {name: text for name, (text, _) in EXCEPTIONS.items()}


def test_wheels_carry_the_license() -> None:
    assert (PROJECT["license"], PROJECT["license-files"]) == ("Apache-2.0", ["LICENSE"])
    assert "Apache License" in (REPO / "LICENSE").read_text(encoding="utf-8")


# Where each data file is from: the file that says so or makes it, and what that calls it.
ORIGINS = {
    r"atcpy/(aipp|om)/schema/.*\.proto": ("packaging/sbom.py", "{path}"),
    r"atcpy/om/schema/netron_unknown\.txt": ("tests/om/test_netron.py", "{path}"),
    r"atcpy/parsers/tensorflow/schema/.*": ("packaging/sbom.py", "{path}"),
    r"benchmarks/figures(_avx2)?\.json": ("benchmarks/README.md", "{name}"),
    r"benchmarks/history\.jsonl": ("benchmarks/README.md", "{name}"),
    r"docs/pictures/roofline_\w+\.svg": ("docs/performance.md", "{name}"),
    r"docs/pictures/history\.svg": ("docs/performance.md", "{name}"),
    r"docs/pictures/convert\.svg": ("docs/picture.py", "{name}"),
    r"docs/pictures/performance(_avx2)?\.svg": ("docs/performance.md", "{name}"),
    r"examples/singleop/add\.json": ("docs/atc.md", "{path}"),
    r"models/digits/.*": ("models/digits/README.md", "Pictures and weights were created by this project"),
    r"models/scores/.*": ("tests/parsers/tensorflow/scores.py", "Writes the SavedModel of models/scores"),
    r"tests/aipp/cat\.jpg": (
        "tests/aipp/test_real_models.py",
        "{name}: Chelsea, a photograph by Stefan van der Walt, CC0",
    ),
    r"tests/cli/atc/command_lines\.txt": (
        "tests/cli/atc/command_lines.txt",
        "as they are written in Ascend/ModelZoo-PyTorch",
    ),
    r"tests/conformance/passing\.txt": ("tests/conformance/ratchet.py", "{name}"),
    r"tests/csrc/launches\.txt": ("tests/csrc/seed_records.py", "{name}"),
    r"tests/golden/passes\.txt": ("tests/golden/test_passes.py", "{name}"),
    r"tests/parsers/tensorflow/quantized\.json": ("tests/parsers/tensorflow/make_quantized.py", "{name}"),
    r"packaging/lock\.txt": ("packaging/lock.txt", "make lock"),
}
SOURCES = {
    "", ".build", ".c", ".cff", ".css", ".golden", ".h", ".html", ".inc", ".ini", ".ipynb", ".js", ".md", ".options",
    ".py", ".pyi", ".toml", ".typed", ".yaml", ".yml",
}  # fmt: skip


@pytest.mark.skipif(shutil.which("git") is None or not (REPO / ".git").exists(), reason="this is no clone")
def test_the_origin_of_each_data_file_is_known() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPO, capture_output=True, text=True, check=True).stdout
    paths = [REPO / name for name in listed.split("\0") if name]
    data = [path for path in paths if path.suffix not in SOURCES]
    unknown = []
    for path in data:
        name = path.relative_to(REPO).as_posix()
        found = [entry for pattern, entry in ORIGINS.items() if re.fullmatch(pattern, name)]
        text = [(REPO / file).read_text(encoding="utf-8") for file, _ in found]
        if not any(
            words.format(path=name, name=path.name) in page for (_, words), page in zip(found, text, strict=True)
        ):
            unknown.append(name)
    assert unknown == []
