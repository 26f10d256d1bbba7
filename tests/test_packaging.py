"""What is distributed: the same bytes whoever builds, a bill of materials, and tools whose hashes are known."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import lowest
import pytest
import reproducible
import runtime_wheel
import sbom
import wheels
from cyclonedx.model.bom import Bom
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packaging.requirements import Requirement

from tests.sources import CSRC, REPO

PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DATE = (2026, 1, 2, 3, 4, 6)
FILES = {
    "atcpy/__init__.py": b"",
    "atcpy/om/schema/task.proto": b"message",
    "atcpy/passes/base.py": b"a compiler's",
    "atcpy-0.1.0.dist-info/METADATA": (
        b"Metadata-Version: 2.4\nName: atcpy\nVersion: 0.1.0\nSummary: all\nLicense-Expression: Apache-2.0\n"
        b"Requires-Dist: numpy>=2.1,<3\nRequires-Dist: onnx>=1.23,<2\nRequires-Dist: mpi4py; extra == 'd'\n\nlong text"
    ),
    "atcpy-0.1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\n",
    "atcpy-0.1.0.dist-info/licenses/LICENSE": b"Apache",
}


def write_wheel(
    path: Path,
    files: dict[str, bytes] = FILES,
    *,
    date: tuple[int, ...] = DATE,
    mode: int = 0o644,
    how: int = ZIP_DEFLATED,
) -> Path:
    with ZipFile(path, "w", how) as wheel:
        for name, content in files.items():
            info = ZipInfo(name, date)  # type: ignore[arg-type]
            info.external_attr = (0o100000 | mode) << 16
            wheel.writestr(info, content, how)
    return path


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda path: write_wheel(path), []),
        (
            lambda path: write_wheel(path, FILES | {"atcpy/__init__.py": b"x"}),
            [rf"atcpy/__init__.py: digest {'[0-9a-f]' * 64} and {'[0-9a-f]' * 64}"],
        ),
        (lambda path: write_wheel(path, FILES | {"new": b""}), ["new: only in .*other.whl"]),
        (lambda path: write_wheel(path, {"new": b""} | FILES), ["new: only in .*other.whl"]),
        (
            lambda path: write_wheel(path, dict(reversed(FILES.items()))),
            ["the order of the members"],
        ),
        (
            lambda path: write_wheel(path, mode=0o600),
            [f"{re.escape(name)}: mode 100644 and 100600" for name in sorted(FILES)],
        ),
        (
            lambda path: write_wheel(path, date=(2026, 1, 2, 3, 4, 8)),
            [rf"{re.escape(name)}: date \(2026, .*6\) and \(2026, .*8\)" for name in sorted(FILES)],
        ),
        (lambda path: write_wheel(path, how=ZIP_STORED), ["how the same members are compressed.*"]),
    ],
    ids=["same", "content", "one more", "one more, first", "order", "mode", "date", "compression"],
)
def test_what_differs_between_two_wheels_is_named(
    change: Callable[[Path], Path], found: list[str], tmp_path: Path
) -> None:
    one, other = write_wheel(tmp_path / "one.whl"), change(tmp_path / "other.whl")
    lines = reproducible.differences(one, other)
    assert len(lines) == len(found)
    assert all(re.fullmatch(pattern, line) for pattern, line in zip(found, lines, strict=True)), lines
    assert reproducible.main(["compare", str(one), str(other)]) == (1 if found else 0)


def test_owners_in_an_sdist_are_compared(tmp_path: Path) -> None:
    paths = []
    for owner in ("root", "somebody"):
        paths.append(tmp_path / f"{owner}.tar.gz")
        with tarfile.open(paths[-1], "w:gz") as sdist:
            info = tarfile.TarInfo("atcpy/a.py")
            info.uname = owner
            sdist.addfile(info)
    assert reproducible.differences(*paths) == ["atcpy/a.py: owner root: 0:0 and somebody: 0:0"]


@pytest.mark.skipif(shutil.which("git") is None or not (REPO / ".git").exists(), reason="this is no clone")
def test_builds_take_nothing_from_whoever_builds() -> None:
    commit = subprocess.run(
        ["git", "show", "-s", "--format=%ct", "HEAD"], cwd=REPO, capture_output=True, text=True, check=True
    ).stdout.strip()
    theirs = {
        "CFLAGS": "-O0", "LDFLAGS": "-s", "CC": "gcc-12", "SOURCE_DATE_EPOCH": "1", "PATH": "/usr/bin",
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "tar.umask", "GIT_CONFIG_VALUE_0": "0077",
    }  # fmt: skip
    found = wheels.build_environment(theirs)
    assert (found["SOURCE_DATE_EPOCH"], found["CC"]) == (commit, "gcc-12")
    assert not {"CFLAGS", "LDFLAGS"} & found.keys()
    assert found["PATH"] == f"{Path(sys.executable).parent}:/usr/bin"
    umask = subprocess.run(
        ["git", "config", "tar.umask"], cwd=REPO, env=found, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert umask == "0022"


def test_dates_and_modes_of_the_runtime_are_those_of_the_wheel_that_it_is_made_from(tmp_path: Path) -> None:
    source = write_wheel(tmp_path / "atcpy-0.1.0-cp311-cp311-linux_x86_64.whl", mode=0o755)
    made = runtime_wheel.make_wheel(source)
    with ZipFile(made) as wheel:
        assert {info.date_time for info in wheel.infolist()} == {DATE}
        copied = {info.filename: info.external_attr >> 16 & 0o777 for info in wheel.infolist()}
        assert copied["atcpy/__init__.py"] == 0o755 and copied["atcpy_runtime-0.1.0.dist-info/RECORD"] == 0o644
        assert "atcpy/passes/base.py" not in copied
        recorded = wheel.read("atcpy_runtime-0.1.0.dist-info/RECORD").decode().splitlines()
        assert {line.partition(",")[0] for line in recorded} == set(wheel.namelist())
        bill = json.loads(wheel.read("atcpy_runtime-0.1.0.dist-info/sboms/atcpy-runtime.cdx.json"))
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/atcpy-runtime@0.1.0"
    assert [component["name"] for component in bill["components"]] == ["numpy"]
    assert [file["name"] for file in bill["metadata"]["component"]["components"]] == [
        sbom.EXTENSION,
        "atcpy/om/schema/task.proto",
    ]
    first = made.read_bytes()
    assert runtime_wheel.make_wheel(source).read_bytes() == first


def bill_of_atcpy(seed: str = "0") -> str:
    return subprocess.run(
        [sys.executable, "packaging/sbom.py", "pyproject.toml"],
        cwd=REPO, env={"PYTHONHASHSEED": seed, "TZ": f"X{seed}"}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


def test_bill_of_materials_lists_what_pyproject_requires() -> None:
    bill = json.loads(bill_of_atcpy())
    listed = {(component["properties"][0]["value"], component["scope"]) for component in bill["components"]}
    assert {text for text, scope in listed if scope == "required"} == set(PROJECT["dependencies"])
    extras = {text for name, group in PROJECT["optional-dependencies"].items() if name != "dev" for text in group}
    assert {text for text, scope in listed if scope == "optional"} == extras
    assert bill["metadata"]["component"]["version"] == PROJECT["version"]
    assert all((REPO / path).is_file() for path in sbom.FOLLOWING)


def test_bill_of_materials_is_cyclonedx() -> None:
    """A library that knows the format reads it, finds its references whole, and writes the same components again."""
    bill = json.loads(bill_of_atcpy())
    read = Bom.from_json(bill)  # type: ignore[attr-defined]
    assert read.validate()
    written = json.loads(make_outputter(read, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string())
    for part in ("$schema", "bomFormat", "specVersion", "components"):
        assert written[part] == bill[part]
    assert written["metadata"]["component"] == bill["metadata"]["component"]
    references = {component["bom-ref"] for component in bill["components"]}
    parts = {part["bom-ref"] for part in bill["metadata"]["component"]["components"]}
    complete, incomplete = bill["compositions"]
    assert set(complete["assemblies"]) <= parts and set(incomplete["dependencies"]) == references


def test_bill_of_materials_is_the_same_in_every_process() -> None:
    assert bill_of_atcpy("1") == bill_of_atcpy("2")
    assert not {"serialNumber", "timestamp"} & set(re.findall(r'"(\w+)":', bill_of_atcpy()))


def test_the_folder_of_the_bill_is_that_of_the_wheel() -> None:
    """Its name has the version of meson.build, the wheel's own that of pyproject.toml."""
    assert f"version: '{PROJECT['version']}'" in (REPO / "meson.build").read_text(encoding="utf-8")


def test_no_c_source_is_vendored() -> None:
    notice = re.compile(r"copyright|\(c\) \d{4}|spdx|licen[cs]e", re.IGNORECASE)
    files = [path for path in CSRC.rglob("*") if path.suffix in {".c", ".h", ".inc"}]
    assert len(files) > 100
    assert [path for path in files if notice.search(path.read_text(encoding="utf-8"))] == []


LOCKED = [
    (Requirement(entry.partition(" \\")[0]), re.findall(r"--hash=(\S+)", entry))
    for entry in re.split(r"\n(?=[a-z])", (REPO / "packaging" / "lock.txt").read_text(encoding="utf-8"))
    if not entry.startswith("#")
]


def test_each_locked_version_is_exact_and_has_hashes() -> None:
    for requirement, hashes in LOCKED:
        assert re.fullmatch(r"==[\w.]+", str(requirement.specifier)), requirement
        assert hashes and all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in hashes), requirement


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_the_lock_holds_what_pyproject_requires(python: str) -> None:
    """After a change of pyproject.toml: `make lock`."""
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    versions = {
        requirement.name: str(requirement.specifier).removeprefix("==")
        for requirement, _ in LOCKED
        if requirement.marker is None or requirement.marker.evaluate(environment)
    }
    for text in (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]):
        requirement = Requirement(text)
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        assert name in versions, text
        assert requirement.specifier.contains(versions[name]), f"{text}: the lock has {versions[name]}"


def test_what_verify_needs_is_there_for_development() -> None:
    extras = PROJECT["optional-dependencies"]
    assert extras["verify"] and set(extras["verify"]) <= set(extras["dev"])


def test_the_lowest_versions_are_the_lower_ends_of_ranges() -> None:
    assert lowest.lowest(["numpy>=2.1,<3", "onnx<2,>=1.22"]) == ["numpy==2.1", "onnx==1.22"]


@pytest.mark.parametrize("text", ["ninja", "onnx==1.23.2", "onnx<2", "onnx>=1.22,>=1.23"])
def test_a_requirement_without_a_lower_bound_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        lowest.lowest([text])


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_oldest_installs_the_lower_bound_of_each_dependency() -> None:
    printed = dry_run("oldest", "OLDEST=nowhere")
    [line] = [line for line in printed.splitlines() if "lowest.py" in line]
    assert line.endswith("packaging/lowest.py pyproject.toml > nowhere/requirements.txt")
    assert any(
        line.endswith("pip install --quiet --disable-pip-version-check -r nowhere/requirements.txt")
        for line in printed.splitlines()
    )
    installed = subprocess.run(
        [sys.executable, "packaging/lowest.py", "pyproject.toml"], cwd=REPO, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    needed = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["verify"]]
    for pinned, text in zip(installed, needed, strict=False):
        name, _, version = pinned.partition("==")
        assert text.startswith(f"{name}>={version}") and Requirement(text).specifier.contains(version)
    assert installed[len(needed) :] == PROJECT["optional-dependencies"]["dev"]


def dry_run(*arguments: str) -> str:
    """What make would do."""
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "LOCK")}
    return subprocess.run(
        ["make", "--dry-run", *arguments], cwd=REPO, env=environment, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize(
    ("arguments", "installed"),
    [([], "--require-hashes -r packaging/lock.txt"), (["LOCK="], "-r nowhere/requirements.txt")],
)
def test_development_installs_by_the_lock_unless_it_is_left_out(arguments: list[str], installed: str) -> None:
    printed = dry_run("venv", "VENV=nowhere", *arguments)
    [line] = [line for line in printed.splitlines() if "pip install" in line]
    assert line.endswith(installed)
    assert ("--require-hashes" in line) == (not arguments)
