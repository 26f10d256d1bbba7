"""Files of models: mapped, or refused with what they are instead; nothing outside a folder is opened."""

import os
from pathlib import Path

import pytest

from atcpy.errors import AtcError, ModelInvalid, UsageError
from atcpy.parsers.files import map_file, map_inside, no_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.onnx").write_bytes(b"model")
    (tmp_path / "empty.onnx").touch()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(b"weights")
    os.mkfifo(tmp_path / "fifo")
    return tmp_path


@pytest.mark.parametrize(("name", "content"), [("m.onnx", b"model"), ("empty.onnx", b"")])
def test_ordinary_files_are_mapped(name: str, content: bytes, folder: Path) -> None:
    assert bytes(map_file(folder / name, "an ONNX model")) == content


@pytest.mark.parametrize(
    ("name", "kind", "code", "what", "hint"),
    [
        ("m.onx", UsageError, "E10410", "does not exist", 'did you mean "m.onnx"?'),
        ("none/m.onnx", UsageError, "E10410", "does not exist", "none does not exist either"),
        ("sub", ModelInvalid, "E10041", "is not an ONNX model: it is a folder", "give the model's file"),
        ("fifo", ModelInvalid, "E10041", "it is no ordinary file", "copy the model into a file"),
        ("m.onnx/below", UsageError, "E13001", "", ""),
        ("x" * 300, UsageError, "E10021", "", ""),
    ],
)
def test_what_is_no_file_is_named(
    name: str, kind: type[AtcError], code: str, what: str, hint: str, folder: Path
) -> None:
    with pytest.raises(kind) as caught:
        map_file(folder / name, "an ONNX model")
    assert caught.value.code == code
    assert what in caught.value.what and hint in caught.value.hint


def test_a_folder_that_cannot_be_listed_gives_no_hint(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(UsageError) as caught:
        map_file(folder / "m.onx", "an ONNX model")
    assert caught.value.hint == ""


@pytest.mark.parametrize(
    ("what", "text"),
    [("a picture", "m is not a package: it is a picture"), ("damaged: no end", "m is damaged: no end")],
)
def test_damaged_files_are_of_the_kind(what: str, text: str) -> None:
    assert no_model(Path("m"), "a package", what, "").what == text


def test_files_are_mapped_from_their_folder(folder: Path) -> None:
    assert map_inside(folder, ["sub", "w.bin"], allow_hardlinks=False) == b"weights"
    assert map_inside(folder, ["empty.onnx"], allow_hardlinks=False) == b""
    assert map_inside(folder, ["sub", "..", "m.onnx"], allow_hardlinks=False) == "it leads out of the folder"
    with pytest.raises(FileNotFoundError):
        map_inside(folder, ["sub", "none"], allow_hardlinks=False)
