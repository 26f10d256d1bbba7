"""Only ordinary files are read, and nothing waits for the others."""

import errno
import json
import os
import socket
from pathlib import Path

import pytest

from atcpy.files import NotOrdinaryError, open_file, parse_json, read_file, read_text


def test_an_ordinary_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes("größer".encode())
    assert read_text(path) == "größer"
    assert read_file(str(path)) == path.read_bytes()
    path.write_bytes(b"\xff")
    with pytest.raises(UnicodeDecodeError):
        read_text(path)


def test_what_is_not_ordinary_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    os.mkfifo("fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        for name in ("fifo", "socket", "/dev/null"):
            with pytest.raises(NotOrdinaryError) as caught:
                open_file(name)
            assert (caught.value.errno, caught.value.filename) == (errno.EINVAL, name)
    with pytest.raises(IsADirectoryError):
        open_file(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_file("none")


def test_json_is_read_or_refused() -> None:
    assert parse_json('{"a": [1, 2.5, null]}') == {"a": [1, 2.5, None]}
    with pytest.raises(json.JSONDecodeError, match="line 1 column 2"):
        parse_json("{")
    with pytest.raises(ValueError, match="nested too deep"):
        parse_json("[" * 100_000)
    with pytest.raises(ValueError, match="digits"):
        parse_json("1" * 5000)
