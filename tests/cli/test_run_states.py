"""`atcpy run --state`: several runs, whose caches stay in the session."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from .conftest import Invoke

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
sums (float[n,2] x, float[p,2] past_0, float[p,2] past_1, float[2] w)
  => (float[t,2] present_0, float[t,2] present_1, float[2] sum) <int64[1] axes = {0}> {
  present_0 = Concat<axis=0>(past_0, x)
  y = Mul(x, w)
  present_1 = Concat<axis=0>(past_1, y)
  sum = ReduceSum<keepdims=0>(present_1, axes)
}"""
BOTH = "present_*=past_*"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package and the inputs of two runs."""
    from atcpy.cli.app import execute

    folder = tmp_path_factory.mktemp("states")
    onnx.save(onnx.parser.parse_model(MODEL), folder / "sums.onnx")
    assert execute(["convert", "--model", str(folder / "sums.onnx"), "-o", str(folder / "sums"), "-q"]) == 0
    w = np.array([1, 10], np.float32)
    np.savez(folder / "two.npz", x=np.array([[1, 2], [3, 4]], np.float32), w=w)
    np.savez(folder / "one.npz", x=np.array([[5, 6]], np.float32), w=w)
    return folder


def test_runs_follow_each_other(invoke: Invoke, folder: Path, tmp_path: Path) -> None:
    ran = invoke(
        "run", folder / "sums.om", "--state", BOTH, "--capacity", 3, "--npz", folder / "two.npz", "--npz",
        folder / "one.npz", "--npz_out", tmp_path / "out.npz",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert ran.out.startswith("sum  float32 [2]  min 9  max 120 ")
    assert "\n2 runs, states of 3 rows, in " in ran.out
    assert list(np.load(tmp_path / "out.npz")) == ["sum"]


def test_states_are_reported_if_they_are_asked_for(invoke: Invoke, folder: Path) -> None:
    ran = invoke(
        "run", folder / "sums.om", "--state", "present_0=past_0", "--state", "present_1=past_1", "--npz",
        folder / "two.npz", "--outputs", "present_1",
    )  # fmt: skip
    assert ran.out.startswith("present_1  float32 [2,2]  min 1  max 40 ")


def test_other_inputs_serve_every_run(invoke: Invoke, folder: Path) -> None:
    ran = invoke(
        "run", folder / "sums.om", "--state", BOTH, "--npz", folder / "two.npz", "--npz", folder / "one.npz",
        "--input", "w=zeros", "--fill", "ones",
    )  # fmt: skip
    assert ran.out.startswith("sum  float32 [2]  min 0  max 0 "), ran.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--npz", "two.npz", "--npz", "one.npz"], "E10001", "2 files are as many runs"),
        (["--npz", "two.npz", "--state", "present_0"], "E10001", "no pair of an output and an input"),
        (["--npz", "two.npz", "--state", "present_*=past_0"], "E10001", "no pair of an output and an input"),
        (["--npz", "two.npz", "--state", "*.*=*.*"], "E10001", "no pair of an output and an input"),
        (["--npz", "two.npz", "--state", "future_*=past_*"], "E10001", 'no output fits "future_*"'),
        (["--npz", "two.npz", "--state", "present_*=old_*"], "E13025", 'no input "old_0"'),
        (["--npz", "two.npz", "--state", BOTH, "--capacity", "1"], "E10406", "room for 1 rows, not for 2"),
        (["--npz", "two.npz", "--state", BOTH, "--capacity", "0"], "E10001", "greater than or equal to 1"),
    ],
)
def test_what_is_refused(
    invoke: Invoke, folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: str, message: str
) -> None:
    monkeypatch.chdir(folder)
    ran = invoke("run", "sums.om", *arguments)
    assert ran.code != 0
    assert ran.err.startswith(f"error[{code}]"), ran.err
    assert message in ran.err


def test_convert_and_inspect_name_the_states(invoke: Invoke, folder: Path) -> None:
    line = "  states     present_0 of past_0 and 1 more   (caches that may stay in the session: bind_state)\n"
    assert line in invoke("convert", "--model", folder / "sums.onnx", "-o", folder / "again").out
    assert line in invoke("inspect", folder / "sums.om").out
    report = invoke("inspect", folder / "sums.om", "--json").envelope["result"]
    assert report["states"] == {"present_0": "past_0", "present_1": "past_1"}
