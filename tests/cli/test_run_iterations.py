"""`atcpy run --iterations`: many runs in one call, whose states keep their shapes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from .conftest import Invoke

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
sums (float[2] x, float[2] h, float[2] c) => (float[2] h2, float[2] c2, float y) {
  h2 = Add(h, x)
  c2 = Mul(c, x)
  y = ReduceSum<keepdims=0>(h2)
}"""
STATES = ("--state", "h2=h", "--state", "c2=c")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package, and the inputs of three iterations."""
    from atcpy.cli.app import execute

    folder = tmp_path_factory.mktemp("iterations")
    onnx.save(onnx.parser.parse_model(MODEL), folder / "sums.onnx")
    assert execute(["convert", "--model", str(folder / "sums.onnx"), "-o", str(folder / "sums"), "-q"]) == 0
    steps = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    np.savez(folder / "steps.npz", x=steps, h=np.zeros(2, np.float32), c=np.ones(2, np.float32))
    np.save(folder / "x.npy", steps)
    return folder


@pytest.mark.parametrize("sandbox", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_states_are_fed_once_and_returned(invoke: Invoke, folder: Path, tmp_path: Path, sandbox: bool) -> None:
    ran = invoke(
        "run", folder / "sums.om", "--iterations", 3, *STATES, "--npz", folder / "steps.npz", "--npz_out",
        tmp_path / "out.npz", *(["--sandbox"] if sandbox else []),
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert "\n3 iterations in " in ran.out
    found = {name: array.tolist() for name, array in np.load(tmp_path / "out.npz").items()}
    assert found == {"h2": [9, 12], "c2": [15, 48], "y": 21}


def test_a_pattern_names_the_states_and_fills_begin_them(invoke: Invoke, folder: Path) -> None:
    ran = invoke(
        "run", folder / "sums.om", "--iterations", 3, "--state", "*2=*", "--input", f"x={folder / 'x.npy'}", "--fill",
        "ones", "--outputs", "h2,c2", "--json",
    )  # fmt: skip
    outputs = {each["name"]: each["max"] for each in ran.envelope["result"]["outputs"]}
    assert outputs == {"h2": 13, "c2": 48}


def test_collected_outputs_have_a_row_for_each_iteration(invoke: Invoke, folder: Path, tmp_path: Path) -> None:
    invoke(
        "run", folder / "sums.om", "--iterations", 3, *STATES, "--npz", folder / "steps.npz", "--collect", "y",
        "--npz_out", tmp_path / "out.npz",
    )  # fmt: skip
    assert np.load(tmp_path / "out.npz")["y"].tolist() == [3, 10, 21]


def test_ranks_iterate_and_meet(invoke: Invoke, tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21, "hccl" : 1]>
    g (float[2] x, float[2] h) => (float[2] h2) { s = Add(h, x) h2 = hccl.HcomAllReduce<reduction = "sum">(s) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    assert invoke("convert", "--model", tmp_path / "m.onnx", "-o", tmp_path / "m").code == 0
    arguments = ["--input", "x=ones", "--input", "h=zeros", "--input", "h@1=ones", "--iterations", 3, "--state", "h2=h"]
    ran = invoke("run", tmp_path / "m.om", "--simulate_ranks", 2, *arguments, "--json")
    # The sum of both, 2(h + 1), goes on at once: h = 3, then 8, then 18.
    assert [rank["outputs"][0]["max"] for rank in ran.envelope["result"]["ranks"]] == [18, 18]
    ran = invoke("run", tmp_path / "m.om", "--simulate_ranks", 100, *arguments)
    assert ran.code == 2
    assert ran.err.startswith("error[E10001] --iterations: on 100 ranks nothing runs")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--iterations", "0"], "E10001", "greater than or equal to 1"),
        (["--iterations", "-1"], "E10001", "greater than or equal to 1"),
        (["--iterations", "99999999999999999999"], "E10001", "less than or equal to 2147483647"),
        (["--iterations", "many"], "E10001", "valid integer"),
        (["--iterations", "3", "--capacity", "9"], "E10001", "--capacity: states of --iterations keep their shapes"),
        (["--iterations", "3", "--npz", "steps.npz"], "E10001", "--npz: 2 files, where --iterations takes one"),
        (["--collect", "y"], "E10001", "--collect: one run has one result"),
        (["--iterations", "3", "--collect", "z"], "E13031", 'no output "z"'),
        (["--iterations", "3", "--state", "h2"], "E10001", "no pair of an output and an input"),
        (["--iterations", "3", "--state", "h2=h", "--state", "h2=c"], "E10001", '"h2" is bound to "h" and to "c"'),
        (
            ["--iterations", "3", "--state", "h2=h", "--state", "c2=h"],
            "E13025",
            '"h2" and "c2" are states of one input',
        ),
        (["--iterations", "3", "--state", "y=h"], "E13031", "[] and [2]"),
        (["--iterations", "3", "--state", "h2=hh"], "E13025", 'no input "hh"'),
        (["--iterations", "4"], "E10405", 'input "x" has values for 3 iterations of 4'),
    ],
)
def test_what_is_refused(
    invoke: Invoke, folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: str, message: str
) -> None:
    monkeypatch.chdir(folder)
    ran = invoke("run", "sums.om", "--npz", "steps.npz", *arguments)
    assert ran.code == 2
    assert ran.err.startswith(f"error[{code}]"), ran.err
    assert message in ran.err
