"""`-` as a file: the standard input, or the standard output."""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from .conftest import Invoke, environment


class Stream(io.TextIOWrapper):
    """A standard stream that may be a terminal."""

    def __init__(self, content: bytes = b"", *, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(content))
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, which commands leave empty."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def feed(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", Stream(content))


@pytest.mark.slow
def test_a_model_and_its_package_go_through_pipes(model: Path, package: Path) -> None:
    command = [sys.executable, "-m", "atcpy", "convert", "-", "-o", "-"]
    ran = subprocess.run(command, input=model.read_bytes(), capture_output=True, env=environment(), check=True)
    assert ran.stdout == package.read_bytes()
    assert ran.stderr.decode().startswith("-  ")  # the summary, with the name that the user gave


def test_a_model_from_stdin_is_named_by_it(
    invoke: Invoke, model: Path, temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(monkeypatch, model.read_bytes())
    assert invoke("convert", "--model", "-", "-q").code == 0
    assert [path.name for path in tmp_path.glob("*.om")] == ["stdin.om"]
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("command", ["check", "inspect", "run", "verify"])
def test_commands_read_their_file_from_stdin(
    invoke: Invoke, model: Path, package: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = {"run": ("--fill=ones",), "verify": ("--against", model)}.get(command, ())
    feed(monkeypatch, (model if command == "check" else package).read_bytes())
    ran = invoke(command, "-", *arguments)
    assert (ran.code, ran.err) == (0, "")
    named = invoke(command, model if command == "check" else package, *arguments)
    assert len(ran.out.splitlines()) == len(named.out.splitlines())


def test_arrays_are_read_from_stdin(
    invoke: Invoke, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(tmp_path / "in.npz", x=x)
    feed(monkeypatch, (tmp_path / "in.npz").read_bytes())
    assert invoke("run", package, "--npz", "-", "--npz_out", tmp_path / "out.npz").code == 0
    assert np.load(tmp_path / "out.npz")["y"][0].tolist() == [0, 1, 2, 11]


@pytest.mark.parametrize("way", [(), ("--json",)])
def test_errors_name_what_the_user_wrote(
    invoke: Invoke, temporary: Path, way: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    feed(monkeypatch, b"no package")
    ran = invoke("run", "-", "--fill=ones", *way)
    assert ran.code == 7
    assert str(temporary) not in ran.err + ran.out
    if way:
        assert ran.envelope["errors"][0]["where"]["file"] == "-"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("verify", "-", "--against", "-"), "E10047", "named 2 times"),
        (("run", "m.om", "--npz", "-", "--npz", "-"), "E10047", "named 2 times"),
        (("convert", "m.onnx", "-o", "-", "--json"), "E10047", "--json"),
    ],
)
def test_a_stream_is_one_file(invoke: Invoke, arguments: tuple[str, ...], code: str, message: str) -> None:
    ran = invoke(*arguments)
    assert (ran.code, code in ran.err, message in ran.err) == (2, True, True)


@pytest.mark.parametrize(("name", "arguments"), [("stdin", ("check", "-")), ("stdout", ("convert", "m", "-o", "-"))])
def test_a_terminal_is_no_file(
    invoke: Invoke, name: str, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, name, Stream(terminal=True))
    ran = invoke(*arguments)
    assert (ran.code, ran.err.splitlines()[0]) == (2, f"error[E10001] - is {name}, which is a terminal")


def test_a_package_with_files_beside_it_is_no_stream(
    invoke: Invoke, model: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = Stream()
    monkeypatch.setattr(sys, "stdout", written)
    monkeypatch.setattr("atcpy.om.weight_placement.MIN_BYTES", 1)
    assert invoke("convert", model, "-o", "-", "--external_weight", "1").code == 4
    assert written.buffer.getvalue() == b""  # type: ignore[attr-defined]
    assert list(temporary.iterdir()) == []


def test_what_fails_writes_nothing(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, b"no model")
    ran = invoke("convert", "-", "-o", "-")
    assert (ran.code, ran.out) == (3, "")
