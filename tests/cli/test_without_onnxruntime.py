"""ONNX Runtime is an extra: what compares with it says so where it is missing, and everything else works."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources import ROOT, relative_name, syntax

from .conftest import REPO, Ran, environment

# Runs each command of a list in one process, whose first import of ONNX Runtime fails.
PROGRAM = """
import contextlib, io, json, sys
sys.modules["onnxruntime"] = None
from atcpy.cli.app import execute
ran = []
for command in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = execute(command)
    ran.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(ran))
"""
DIGITS = str(REPO / "models" / "digits" / "digits.onnx")
SCORES = str(REPO / "models" / "scores")
WORKING = {
    "convert": ["convert", DIGITS, "-o", "m.om"],
    "check": ["check", DIGITS],
    "inspect": ["inspect", "m.om", "--all"],
    "run": ["run", "m.om", "--fill", "ones"],
    "freeze": ["freeze", SCORES, "frozen.pb"],
    "explain": ["explain", "m.om", "--fusion", "Conv+Relu"],
    "explain code": ["explain", "E10055"],
    "diff": ["diff", "m.om", "m.om"],
    "report": ["report", "m.om", "-o", "m.html"],
    "passes": ["passes", "list"],
    "bench": ["bench", "m.om", "--min_time", "0.01", "--layers"],
    "profile": ["run", "m.om", "--fill", "ones", "--profile", "profile.json"],
    "optimize": ["optimize", DIGITS, "small.onnx", "--no_verify"],
    "verify by the reference": ["verify", "m.om", "--against", DIGITS, "--oracle", "ref"],
    "convert by the reference": ["convert", DIGITS, "-o", "verified.om", "--verify", "--oracle", "ref"],
    "doctor": ["doctor", "--json"],
}
# The command, and the way round that it knows besides installing the extra.
REFUSED = {
    "verify": (["verify", "m.om", "--against", DIGITS], "--oracle ref"),
    "convert": (["convert", DIGITS, "-o", "new/refused.om", "--verify"], "--oracle ref"),
    "optimize": (["optimize", DIGITS, "new/refused.onnx"], "--no_verify"),
    "bench": (["bench", "m.om", "--vs", "ort", "--vs_model", DIGITS], ""),
    "bisect": (["passes", "bisect", DIGITS, "--output", "new"], "--oracle ref"),
    "reproducer": (["passes", "bisect", DIGITS, "--output", "new", "--check", "true", "--reduce"], "--oracle ref"),
    "quantize": (["quantize", DIGITS, "new/refused.onnx", "--calibrate", "nowhere"], ""),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("without")


@pytest.fixture(scope="module")
def ran(folder: Path) -> dict[str, Ran]:
    commands = {**WORKING, **{f"refused {name}": command for name, (command, _) in REFUSED.items()}}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([*commands.values()])],
        cwd=folder, env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {name: Ran(*results) for name, results in zip(commands, json.loads(done.stdout), strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKING)
def test_works(name: str, ran: dict[str, Ran]) -> None:
    assert ran[name].code == 0, ran[name].err


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_before_anything_is_written(name: str, ran: dict[str, Ran], folder: Path) -> None:
    refused, (_, otherwise) = ran[f"refused {name}"], REFUSED[name]
    assert refused.code == 4
    assert "error[E10055] this needs ONNX Runtime, which cannot be imported" in refused.err
    assert "pip install 'atcpy[verify]'" + (f", or {otherwise}\n" if otherwise else "\n") in refused.err
    assert not (folder / "new").exists()


@pytest.mark.slow
def test_doctor_tests_what_numpy_can_judge(ran: dict[str, Ran]) -> None:
    envelope = ran["doctor"].envelope
    assert [warning["code"] for warning in envelope["warnings"]] == ["W0044"]
    assert "pip install 'atcpy[verify]'" in envelope["warnings"][0]["message"]
    selftest = envelope["result"]["selftest"]
    assert (selftest["cases"], selftest["failed"]) == (2, [])
    assert "matmul" in selftest["untested"] and "graph_kernel" not in selftest["untested"]


def test_one_function_imports_onnxruntime() -> None:
    """Others would end with an ImportError where it is missing; the quantizer calls that function first."""
    found: set[tuple[str, str]] = set()
    for path in ROOT.rglob("*.py"):
        if "onnxruntime" not in path.read_text(encoding="utf-8"):  # parsing all of them takes seconds
            continue
        for node in syntax(path):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found |= {(relative_name(path), name) for name in names if name.partition(".")[0] == "onnxruntime"}
    assert {path for path, name in found if name == "onnxruntime"} == {"atcpy/verify/ort.py"}
    assert {path for path, _ in found} == {"atcpy/verify/ort.py", "atcpy/quantization/quantizer.py"}
