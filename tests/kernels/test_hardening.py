"""The extension is built as hardened as the compiler allows; what a flag does is read from the built file."""

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from atcpy.kernels import _kernels

EXTENSION = Path(_kernels.__file__ or "").resolve()
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(shutil.which("readelf") is None, reason="readelf is not installed")


def readelf(*options: str) -> str:
    return subprocess.run(["readelf", "-W", *options, EXTENSION], capture_output=True, text=True, check=True).stdout


def test_the_linker_leaves_nothing_writable_that_need_not_be() -> None:
    assert "GNU_RELRO" in readelf("-l")
    assert "BIND_NOW" in readelf("-d") or "NOW" in readelf("-d")
    assert re.search(r"GNU_STACK.* RW +0x", readelf("-l")), "the stack is executable"


def test_stack_and_buffers_are_checked() -> None:
    symbols = readelf("--dyn-syms")
    assert "__stack_chk_fail" in symbols
    assert re.search(r"__mem(cpy|set|move)_chk", symbols) or "__asan_init" in symbols


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instructions are those of x86-64")
@pytest.mark.parametrize(
    ("instruction", "min_count"),
    [
        pytest.param(b"\xf3\x0f\x1e\xfa", 1000, id="endbr64 where indirect calls arrive"),
        pytest.param(b"\x48\x83\x0c\x24\x00", 1, id="or $0, (%rsp) on each page of a large frame"),
    ],
)
def test_calls_and_frames_are_guarded(instruction: bytes, min_count: int) -> None:
    assert EXTENSION.read_bytes().count(instruction) >= min_count


def test_the_file_does_not_say_where_it_was_built() -> None:
    assert str(ROOT).encode() not in EXTENSION.read_bytes()


def test_no_symbol_is_visible_but_the_entry() -> None:
    defined = [
        line.split() for line in readelf("--dyn-syms").splitlines() if " GLOBAL " in line and " UND " not in line
    ]
    assert [fields[-1] for fields in defined] == ["PyInit__kernels"]
