"""--raw_ge_options: a file of options by GE's names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import parser

from tests.cli.conftest import Invoke, Ran

MODEL = """<ir_version: 8, opset_import: ["" : 17]> g (float[3] x) => (float[3] y) { y = Relu(x) }"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory, with the model m.onnx."""
    monkeypatch.chdir(tmp_path)
    onnx.save(parser.parse_model(MODEL), "m.onnx")


def converted(invoke: Invoke, content: Any, *options: str) -> Ran:
    Path("ge.json").write_text(json.dumps(content))
    command = ("atc", "--model=m.onnx", "--framework=5", "--output=m", "--soc_version=Ascend310P3")
    return invoke(*command, "--raw_ge_options=ge.json", *options)


def scopes(**content: dict[str, Any]) -> dict[str, Any]:
    return {"compile options": content}


def cmdline(invoke: Invoke) -> list[str]:
    """The options that the package records."""
    lines = invoke("atc", "--mode=6", "--om=m.om").out.splitlines()
    return next(line for line in lines if line.startswith("Original")).split()


def test_the_narrower_scope_counts_and_the_command_line_most(invoke: Invoke) -> None:
    content = scopes(
        graph={"ge.exec.disableReuseMemory": "1"},
        session={"ge.oo.level": "O1", "ge.exec.disableReuseMemory": "0"},
        **{"global": {"ge.oo.level": "O3", "ge.bufferOptimize": "off_optimize"}},
    )
    assert converted(invoke, content).code == 0
    assert {"--oo_level=O1", "--disable_reuse_memory=1", "--buffer_optimize=off_optimize"} <= {*cmdline(invoke)}
    assert converted(invoke, content, "--oo_level=O3", "--disable_reuse_memory=0").code == 0
    assert "--oo_level=O3" in cmdline(invoke)
    assert "--disable_reuse_memory=1" not in cmdline(invoke)


@pytest.mark.parametrize("key", ["ge.exec.profilingMode", "model", "output", "framework", "ge.socVersion", "help"])
def test_options_without_a_flag(invoke: Invoke, key: str) -> None:
    content = scopes(graph={key: "x", "ge.oo.level": "O1"})
    for lenient in ([], ["--raw_ge_options_ignore_unsupported=false"]):
        ran = converted(invoke, content, *lenient)
        assert (ran.code, "E10055" in ran.out) == (4, True), ran.out
    ran = converted(invoke, content, "--raw_ge_options_ignore_unsupported")
    assert (ran.code, "W0012" in ran.out and key in ran.out) == (0, True), ran.out
    assert "--oo_level=O1" in cmdline(invoke)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ([], "E20003"),
        ({"options": {}}, "E20003"),
        ({}, "E20003"),
        (scopes(graphs={}), "E20003"),
        (scopes(graph={"ge.oo.level": 1}), "E20003"),
        (scopes(graph={"ge.oo.level": "O7"}), "E10001"),
    ],
)
def test_files_that_are_wrong(invoke: Invoke, content: Any, code: str) -> None:
    ran = converted(invoke, content)
    assert (ran.code, code in ran.out) == (2, True), ran.out


def test_what_a_file_is_needed_for(invoke: Invoke) -> None:
    assert "E10057" in invoke("atc", "--raw_ge_options_ignore_unsupported").out
    assert "E10410" in invoke("atc", "--raw_ge_options=none.json").out
