"""Models in the working directory, the command line that converts them, and ATC's lines."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import parser

from tests.cli.conftest import Invoke, Ran

START = "ATC start working now, please wait for a moment."
SUCCESS = "ATC run success, welcome to the next use."
FAILED = "ATC run failed, Please check the detail log, Try 'atc --help' for more information"
SOC = "--soc_version=Ascend310P3"
MODELS = {
    "r": """<ir_version: 8, opset_import: ["" : 17]> r (float[N,3,H,W] x) => (float[N,4,H,W] y)
    <float[4,3,3,3] w = {WEIGHTS}> {
        c = Conv<pads = [1, 1, 1, 1]>(x, w)
        [act] a = Relu(c)
        y = Sigmoid(a)
    }""",
    "ids": """<ir_version: 8, opset_import: ["" : 17]> ids (float[1,L] ids, float[1,L] mask) => (float[1,L] y) {
        y = Mul(ids, mask)
    }""",
    "two": """<ir_version: 8, opset_import: ["" : 17]> two (float[N,3,H,W] x, float[M] y) => (float[N,3,H,W] z) {
        z = Add(x, y)
    }""",
    "picture": """<ir_version: 8, opset_import: ["" : 17]> p (float[1,3,14,10] x) => (float[1,3,14,10] y) {
        y = Identity(x)
    }""",
    "bad": """<ir_version: 8, opset_import: ["" : 17, "my" : 1]> bad (float[2] x) => (float[2] y) {
        a = my.FindMax(x)
        b = my.FindMax(a)
        y = my.Tome(b)
    }""",
}


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the models, read-only for tests."""
    folder = tmp_path_factory.mktemp("models")
    weights = ",".join(str(n % 7 / 8 - 0.4) for n in range(108))
    for name, text in MODELS.items():
        model = parser.parse_model(text.replace("{WEIGHTS}", f"{{{weights}}}"))
        for node in model.graph.node:
            if node.name == "act":
                node.name = "/layer2/Relu"  # a name of PyTorch's exporter, which the text cannot have
        onnx.save(model, folder / f"{name}.onnx")
    return folder


@pytest.fixture
def folder(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the models."""
    for path in models.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def converted(invoke: Invoke, *more: str, model: str = "r.onnx") -> Ran:
    """Run the usual command line, which writes r.om, with more options."""
    return invoke("atc", f"--model={model}", "--framework=5", "--output=r", SOC, *more)


def lines_of(ran: Ran) -> list[str]:
    return ran.out.splitlines()


def assert_succeeded(ran: Ran) -> None:
    assert (ran.code, lines_of(ran), ran.err) == (0, [START, "...", SUCCESS], "")


def assert_failed(ran: Ran, code: str, status: int) -> str:
    """Return the lines behind ATC's three: the error."""
    lines = lines_of(ran)
    assert (ran.code, lines[:3]) == (status, [START, "...", FAILED])
    assert lines[3].startswith(code + ": [PID: ")
    return "\n".join(lines[3:])
