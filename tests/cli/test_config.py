"""Settings of the environment and of files."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from atcpy.threads import default_threads
from tests.sources import REPO

from .conftest import Invoke


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder; no settings but those of a test."""
    for name in [name for name in os.environ if name.startswith("ATCPY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    work = tmp_path / "project" / "work"
    work.mkdir(parents=True)
    monkeypatch.chdir(work)
    return work


def soc(invoke: Invoke, model: Path, *options: object) -> str:
    """The chip that a conversion takes."""
    ran = invoke("convert", model, "-o", "m", "--json", *options)
    assert ran.code == 0, ran.err
    found: str = ran.envelope["result"]["soc"]
    return found


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_command_line_wins_over_environment_files_and_default(
    invoke: Invoke, model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert soc(invoke, model) == "Ascend910"
    write(folder.parents[1] / "home" / "atcpy" / "atcpy.toml", 'soc = "Ascend310"')
    assert soc(invoke, model) == "Ascend310"
    write(folder.parent / "pyproject.toml", '[tool.atcpy]\nsoc = "Ascend310P3"')
    assert soc(invoke, model) == "Ascend310P3"
    write(folder.parent / "atcpy.toml", 'soc = "Ascend310B1"')
    assert soc(invoke, model) == "Ascend310B1"
    write(folder / "atcpy.toml", 'soc = "Ascend310"\n[convert]\nsoc = "Ascend310P1"')
    assert soc(invoke, model) == "Ascend310P1"
    named = write(folder / "other.toml", 'soc-version = "Ascend310B4"')
    assert soc(invoke, model, "--config", named) == "Ascend310B4"
    assert soc(invoke, model, f"--config={named}") == "Ascend310B4"
    monkeypatch.setenv("ATCPY_SOC", "Ascend910B1")
    assert soc(invoke, model, "--config", named) == "Ascend910B1"
    assert soc(invoke, model, "--soc", "Ascend910B2") == "Ascend910B2"


def test_a_table_is_of_its_command(invoke: Invoke, model: Path, folder: Path) -> None:
    write(folder / "atcpy.toml", '[check]\nsoc = "Ascend310"\n[run]\nfill = "ones"')
    assert soc(invoke, model) == "Ascend910"
    assert invoke("run", "m.om").code == 0


def test_values_are_numbers_flags_and_lists(invoke: Invoke, model: Path, folder: Path) -> None:
    of_command = '[convert]\nskip_pass = ["IdentityPass", "ConvReluFusionPass"]\nzipmap = false'
    write(folder / "atcpy.toml", f"threads = 1\nquiet = true\n{of_command}")
    ran = invoke("convert", model, "-o", "m")
    assert (ran.code, ran.out) == (0, "")
    described = invoke("inspect", "m.om").out
    assert described == ""
    (folder / "atcpy.toml").unlink()
    assert "--skip_pass=ConvReluFusionPass,IdentityPass" in invoke("inspect", "m.om").out


def test_the_environment_has_the_threads_of_sessions(
    invoke: Invoke, package: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder / "atcpy.toml", "threads = 5000")
    assert "E10013" in invoke("run", package, "--fill=ones").err
    monkeypatch.setenv("ATCPY_THREADS", "1")
    assert invoke("run", package, "--fill=ones").code == 0
    monkeypatch.setenv("ATCPY_THREADS", "0")
    assert "E13024" in invoke("run", package, "--fill=ones").err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sock = 1", "sock: there is no such option"),
        ("[convert]\nsock = 1", "[convert] sock: there is no such option"),
        ("[convertt]\nsoc = 1", "convertt: there is no such option"),
        ("[run]\noo_level = 1", "[run] oo_level: there is no such option"),
        ("custom-ops = 'x.py'", "custom-ops is for the command line only"),
        ("[convert]\noutput = 'x.om'", "output is for the command line only"),
        ("quiet = 1", "quiet: 1 is not true or false"),
        ("soc = true", "soc: True is not a text or a number"),
        ("soc = {a = 1}", "soc: {'a': 1} is not a text or a number"),
        ("[verify]\ntolerance = 1", "[verify] tolerance is no table"),
        ("[verify.tolerance]\nfloat17 = {atol = 1}", "[verify.tolerance] float17: there is no such type or bound"),
        ("[verify.tolerance]\ncosine = 1", "[verify.tolerance] cosine: there is no such type or bound"),
        ("[verify.tolerance]\nfloat16 = 1e-3", "[verify.tolerance] float16: 0.001 is no table of bounds"),
        ("[verify.tolerance]\nfloat16 = {}", "[verify.tolerance] float16: {} is no table of bounds"),
        ("[verify.tolerance]\nfloat16 = {atoll = 1}", "[verify.tolerance] float16: there is no bound atoll"),
        ("[verify.tolerance]\nfloat16 = {atol = -1}", "[verify.tolerance] float16.atol: -1 is not a number from 0 on"),
        ("[verify.tolerance]\natol = inf", "[verify.tolerance] atol: inf is not a number from 0 on"),
        ("[verify.tolerance]\nrtol = true", "[verify.tolerance] rtol: True is not a number from 0 on"),
        ("[convert.tolerance]\natol = 1", "[convert] tolerance: there is no such option"),
        ("soc = ", "it is no TOML"),
        ("x = " + "[" * 100_000, "it is no TOML"),
    ],
)
@pytest.mark.parametrize("way", ["found", "named"])
def test_what_is_wrong_in_a_file_is_an_error(
    invoke: Invoke, model: Path, folder: Path, text: str, message: str, way: str
) -> None:
    path = write(folder / ("atcpy.toml" if way == "found" else "other.toml"), text)
    ran = invoke("check", model, *(() if way == "found" else ("--config", path)))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error[E20003]") and message in ran.err and str(path) in ran.err
    ran = invoke("check", model, "--json", *(() if way == "found" else ("--config", path)))
    assert ran.envelope["errors"][0]["code"] == "E20003"
    assert invoke("check", "--help").code == 0


def test_an_unknown_key_names_the_nearest(invoke: Invoke, model: Path, folder: Path) -> None:
    write(folder / "atcpy.toml", "memory_limt = '1G'")
    assert 'did you mean "memory_limit"' in invoke("check", model).err


def test_a_table_has_the_tolerances_of_verify(invoke: Invoke, model: Path, package: Path, folder: Path) -> None:
    def bounds(*options: object) -> tuple[float, float]:
        output = invoke("verify", package, "--against", model, "--json", *options).envelope["result"]["outputs"][0]
        return output["atol"], output["rtol"]

    default = bounds()
    assert 0 < default[0] != 0.25
    home = write(folder.parents[1] / "home" / "atcpy" / "atcpy.toml", "[verify.tolerance]\nfloat32 = {atol = 0.25}")
    assert bounds() == (0.25, 0.0)
    assert bounds("--rtol", 0.5) == (0.0, 0.5)  # the command line wins
    path = write(folder / "atcpy.toml", "[verify.tolerance]\nfloat16 = {atol = 2}\nfloat64 = {atol = 3}")
    assert bounds() == (0.25, 0.0)
    path.write_text("[verify.tolerance]\nrtol = 0.125\nfloat16 = {atol = 2}")
    assert bounds() == (0.0, 0.125)  # of all types, in a stronger file
    path.write_text("[verify.tolerance]\nrtol = 0.125\nfloat32 = {atol = 1e-3, rtol = 1e-2}")
    assert bounds() == (1e-3, 1e-2)
    home.unlink()
    path.unlink()
    assert bounds() == default


def test_a_tolerance_of_a_file_decides(invoke: Invoke, model: Path, folder: Path) -> None:
    assert invoke("convert", model, "-o", "half", "--precision_mode_v2=fp16", "-q").code == 0
    verify = ("verify", "half.om", "--against", model)
    assert invoke(*verify).code == 0
    write(folder / "atcpy.toml", "[verify.tolerance]\nfloat16 = {atol = 0}")  # its float32 output was computed so
    assert invoke(*verify).code == 5
    write(folder / "atcpy.toml", "[verify.tolerance]\nfloat32 = {atol = 0}")
    assert invoke(*verify).code == 0


def test_the_example_of_the_page_is_a_file_of_settings(invoke: Invoke, model: Path, folder: Path) -> None:
    page = (REPO / "docs" / "cli.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^```toml\n(.*?)^```$", page, re.M | re.S)
    write(folder / "atcpy.toml", example)
    assert invoke("check", model).code == 0
    shown = invoke("doctor", "--config").out
    for option in ("soc", "threads", "[convert] skip_pass", "[run] check_finite", "[verify] tolerance.float16"):
        assert re.search(rf"^{re.escape(option)} +.* {folder}/atcpy.toml$", shown, re.M), option


def test_a_file_that_is_named_exists(invoke: Invoke, model: Path) -> None:
    assert invoke("check", model, "--config", "none.toml").err.startswith("error[E10410] none.toml does not exist")


def test_a_project_without_settings_is_passed_over(invoke: Invoke, model: Path, folder: Path) -> None:
    write(folder / "pyproject.toml", '[project]\nname = "uses-atcpy"')
    write(folder.parent / "atcpy.toml", 'soc = "Ascend310"')
    assert soc(invoke, model) == "Ascend310"


def test_a_file_of_another_user_is_not_read(
    invoke: Invoke, model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(folder / "atcpy.toml", 'soc = "Ascend310"')
    owner = os.stat(path).st_uid
    if owner == 0:
        os.chown(path, 12345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    ran = invoke("check", model)
    assert (ran.code, "it belongs to another user" in ran.err) == (2, True)
    assert soc(invoke, model, "--config", path) == "Ascend310"


def test_doctor_shows_where_each_setting_is_from(invoke: Invoke, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(
        folder / "atcpy.toml",
        'soc = "Ascend310"\ntimeout = 9\n[convert]\nskip_pass = ["A", "B"]\nsoc = "Ascend310"\n'
        "[verify.tolerance]\nfloat16 = {atol = 2e-3, rtol = 0}",
    )
    monkeypatch.setenv("ATCPY_SOC", "Ascend310P3")
    rows = {tuple(line.split()) for line in invoke("doctor", "--config").out.splitlines()}
    assert rows == {
        ("setting", "value", "from"),
        ("soc", "Ascend310P3", "ATCPY_SOC"),
        ("soc", "Ascend310", str(path), "(overridden)"),
        ("[convert]", "soc", "Ascend310", str(path), "(overridden)"),
        ("[convert]", "skip_pass", "A,B", str(path)),
        ("[verify]", "tolerance.float16", "atol=0.002,rtol=0", str(path)),
        ("timeout", "9", str(path)),
        ("threads", str(default_threads()), "default"),
        ("memory_limit", "none", "default"),
        ("color", "auto", "default"),
    }
    result = invoke("doctor", "--config", "--json").envelope["result"]["settings"]
    assert result[0] == {
        "command": "", "option": "soc", "value": "Ascend310P3", "source": "ATCPY_SOC", "overridden": False,
    }  # fmt: skip
