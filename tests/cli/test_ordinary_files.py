"""Each path that a user names is opened without waiting, and what is no ordinary file is refused."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import onnx
import pytest

from tests.cli.conftest import Invoke

# What reads a path, by the exit codes that are right: 3 for a source model, 7 for a package, 2 for the rest.
COMMANDS: dict[str, tuple[tuple[str, ...], int]] = {
    "convert": (("convert", "--model", "{file}", "-o", "{out}"), 3),
    "convert --framework=5": (("convert", "--model", "{file}", "-o", "{out}", "--framework=5"), 3),
    "convert --framework=3": (("convert", "--model", "{file}", "-o", "{out}", "--framework=3"), 3),
    "check": (("check", "{file}"), 3),
    "optimize": (("optimize", "{file}", "-o", "{out}"), 3),
    "freeze": (("freeze", "{file}", "-o", "{out}"), 3),
    "quantize": (("quantize", "{file}", "-o", "{out}", "--calibrate", "{zipped}"), 3),
    "quantize --calibrate": (("quantize", "{model}", "-o", "{out}", "--calibrate", "{file}"), 2),
    "inspect a model": (("inspect", "{file}"), 2),
    "explain": (("explain", "{file}", "--pass", "remove_dead"), 2),
    "passes bisect": (("passes", "bisect", "{file}"), 3),
    "inspect a package": (("inspect", "{package_file}"), 7),
    "run": (("run", "{package_file}", "--fill", "ones"), 7),
    "bench": (("bench", "{package_file}"), 7),
    "bench --vs": (("bench", "{package}", "--vs", "{package_file}"), 7),
    "bench --vs_model": (("bench", "{package}", "--vs", "ort", "--vs_model", "{file}"), 3),
    "bench --compare": (("bench", "{package}", "--compare", "{file}"), 2),
    "verify": (("verify", "{package_file}"), 7),
    "verify --against": (("verify", "{package}", "--against", "{file}"), 3),
    "diff": (("diff", "{package}", "{package_file}"), 7),
    "run --input": (("run", "{package}", "--input", "x={file}"), 2),
    "run --input, zipped": (("run", "{package}", "--input", "x={zipped}"), 2),
    "run --npz": (("run", "{package}", "--npz", "{file}"), 2),
    "run --image": (("run", "{picture_package}", "--image", "{file}"), 2),
    "run --labels": (("run", "{package}", "--fill", "ones", "--top_k", "1", "--labels", "{file}"), 2),
    "verify --input_data": (("verify", "{package}", "--against", "{model}", "--input_data", "{file}"), 2),
    "--fusion_switch_file": (("convert", "--model", "{model}", "-o", "{out}", "--fusion_switch_file={file}"), 2),
    "--custom_ops": (("convert", "--model", "{model}", "-o", "{out}", "--custom_ops={module}"), 2),
}


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


@pytest.fixture(scope="module")
def picture_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("picture")
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,4,4] x) => (float[1,3,4,4] y) { y = Relu(x) }'
    onnx.save(onnx.parser.parse_model(text), folder / "p.onnx")
    import atcpy

    atcpy.convert(folder / "p.onnx", folder / "p.om")
    return folder / "p.om"


@pytest.mark.parametrize("make", [make_fifo, make_device, make_socket])
@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_no_ordinary_file_is_refused(
    name: str,
    make: type,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: Path,
    package: Path,
    picture_package: Path,
    invoke: Invoke,
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    words, code = COMMANDS[name]
    files = {"file": "f", "package_file": "f.om", "zipped": "f.npz", "module": "f.py", "out": "out"}
    named = next(files[key] for key in files if any("{" + key + "}" in word for word in words) and key != "out")
    make(Path(named))

    paths = {**files, "model": model, "package": package, "picture_package": picture_package}
    ran = invoke(*(word.format_map(paths) for word in words))

    assert ran.code == code, ran.err
    assert named in ran.err and "Traceback" not in ran.err
    assert os.listdir(tmp_path) == [named]
