"""Files that tools outside read say the same as the project."""

import re
import tomllib
from pathlib import Path

import atcpy
from tests.sources import REPO

PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))


def read(name: str) -> str:
    return (REPO / name).read_text(encoding="utf-8")


def test_all_files_name_one_version() -> None:
    found = {
        "pyproject.toml": [PROJECT["project"]["version"]],
        "atcpy/__init__.py": [atcpy.__version__],
        "meson.build": re.findall(r"^  version: '(.+)',$", read("meson.build"), re.MULTILINE),
        "CITATION.cff": re.findall(r"^version: (.+)$", read("CITATION.cff"), re.MULTILINE),
    }
    assert found == {name: [atcpy.__version__] for name in found}


def test_hooks_and_workflows_call_targets_and_scripts_that_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE))
    hooks = re.findall(r"entry: make --no-print-directory (\S+)", read(".pre-commit-config.yaml"))
    assert len(hooks) >= 4 and set(hooks) <= targets
    scripts = re.findall(r"run: (\S+)", read(".github/workflows/ci.yml"))
    assert scripts and all((REPO / script).exists() for script in scripts)


def test_the_limited_api_is_that_of_the_oldest_python() -> None:
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert f"limited_api: '{oldest}'" in read("atcpy/kernels/csrc/meson.build")
    assert PROJECT["tool"]["meson-python"]["limited-api"] is True
    named = [
        classifier.rpartition(" ")[2]
        for classifier in PROJECT["project"]["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", classifier)
    ]
    assert named[0] == oldest
    built = PROJECT["tool"]["cibuildwheel"]["build"]
    assert built == f"cp{oldest.replace('.', '')}-manylinux_x86_64"


def test_line_lengths_of_editors_are_those_of_the_formatters() -> None:
    lengths = re.findall(r"^\[(.+)\]$(?:\n(?!\[).*)*?\nmax_line_length = (\d+)", read(".editorconfig"), re.MULTILINE)
    [c_columns] = re.findall(r"ColumnLimit: (\d+)", read(".clang-format"))
    assert lengths == [("*", str(PROJECT["tool"]["ruff"]["line-length"])), ("*.{c,h,inc}", c_columns)]


def test_links_of_templates_exist() -> None:
    templates = [*Path(REPO / ".github").rglob("*.yml"), REPO / ".github" / "pull_request_template.md"]
    assert len(templates) >= 5
    named = {
        target for path in templates for target in re.findall(r"`make ([\w -]+)`", path.read_text(encoding="utf-8"))
    }
    targets = set(re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE))
    assert {target for names in named for target in names.split()} <= targets
