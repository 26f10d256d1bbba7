"""Results on a terminal: wrapped at its width, verdicts coloured."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atcpy.cli.console import Progress, terminal_width, wrap, write_result
from atcpy.cli.invocation import Invocation
from atcpy.cli.watcher import Watcher
from atcpy.options import convert_options
from atcpy.stages import pipeline

from .conftest import Invoke

ROW = " error  E19010  FindMax ×2  no such operator in ai.onnx 11, and a long reason that has no end"


class Terminal(io.StringIO):
    """A terminal without a size."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError


@given(st.text(alphabet="ab ,", max_size=120), st.integers(8, 60))
def test_parts_have_all_words_and_fit(line: str, width: int) -> None:
    parts = wrap(line, width)
    assert " ".join(parts).split() == line.split()
    for part in parts:
        assert len(part) <= width or " " not in part.strip()


@pytest.mark.parametrize(("width", "column"), [(20, "E19010"), (40, "FindMax"), (60, "no such"), (79, "no such")])
def test_a_line_goes_on_below_the_last_column_of_the_left_half(width: int, column: str) -> None:
    first, *others = wrap(ROW, width)
    assert first.startswith(" error  E19010") and others
    indents = {len(part) - len(part.lstrip()) for part in others}
    assert indents == {ROW.index(column)}
    assert all(len(part) <= width for part in (first, *others))


def test_a_line_that_fits_stays() -> None:
    assert wrap(ROW, len(ROW)) == [ROW]


def test_a_long_name_is_not_cut() -> None:
    name = "/" + "x" * 50
    assert name in [part.strip() for part in wrap(f"output   {name}   float32  max abs 3.1e-06", 20)]


def test_a_file_has_whole_lines_and_a_terminal_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    for stream, width, lines in ((io.StringIO(), None, 1), (Terminal(), 80, 2)):
        assert terminal_width(stream) == width
        write_result([ROW], stream, color=False)
        assert stream.getvalue().count("\n") == lines
    monkeypatch.setenv("COLUMNS", "200")
    assert terminal_width(Terminal()) == 200


def test_the_width_is_that_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl
    import struct
    import termios

    monkeypatch.delenv("COLUMNS", raising=False)
    leader, follower = os.openpty()
    with open(follower, "w") as stream, open(leader, "rb"):
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 57, 0, 0))
        assert terminal_width(stream) == 57


def test_a_conversion_shows_its_share_and_the_pass(model: Path, tmp_path: Path) -> None:
    shown: list[str] = []

    class Recorder(Progress):
        def show(self, text: str) -> None:
            shown.append(text)

    run = Invocation("convert", progress=Recorder(verbosity=0, quiet=True))
    pipeline.convert(model, tmp_path / "m.om", convert_options({}), Watcher(run, convert_options({}).dump))
    assert [text for text in shown if text.count("  ") == 1] == [
        "parse  1 of 5", "prepare  2 of 5", "split  3 of 5", "optimize  4 of 5", "compile  5 of 5",
    ]  # fmt: skip
    assert "prepare  2 of 5  ConstantFoldingPass" in shown


@pytest.mark.parametrize(
    ("line", "painted", "style"),
    [
        ("PASS", "PASS", "32;1"),
        ("FAIL", "FAIL", "31;1"),
        ("output   y   float32  max abs 0   ok (atol 1e-5, rtol 0)", "ok", "32;1"),
        ("output   y   float32  max abs 9   FAIL (atol 1e-5, rtol 0)", "FAIL", "31;1"),
        ("ratio 1.15× faster (95 % CI 1.12–1.18)", "ratio 1.15× faster", "32;1"),
        ("ratio 0.80× slower (95 % CI 0.7–0.9)", "ratio 0.80× slower", "31;1"),
        (" error  E19010  FindMax ×2", "error", "31;1"),
        (" warn  W0020  NonZero ×1", "warn", "33;1"),
        ("ratio 1.00× same", "", ""),
        ("  inputs  FAIL float32", "", ""),
    ],
)
def test_verdicts_are_coloured(line: str, painted: str, style: str) -> None:
    stream = io.StringIO()
    write_result([line], stream, color=True)
    expected = line.replace(painted, f"\x1b[{style}m{painted}\x1b[0m", 1) if painted else line
    assert stream.getvalue() == expected + "\n"


def test_a_verdict_on_the_next_line_is_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "48")
    stream = Terminal()
    write_result(["output   y   float32  max abs 0.0  cosine 1.0   ok (atol 1e-5)"], stream, color=True)
    first, second = stream.getvalue().splitlines()
    assert "\x1b" not in first and "\x1b[32;1mok\x1b[0m" in second


def test_what_commands_print_is_coloured_on_demand(
    invoke: Invoke, model: Path, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    colored = invoke("verify", package, "--against", model, "--color", "always").out
    assert colored.endswith("\x1b[32;1mPASS\x1b[0m\n")
    assert "\x1b[32;1mok\x1b[0m (atol" in colored
    assert re.sub("\x1b\\[[0-9;]*m", "", colored) == invoke("verify", package, "--against", model).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in invoke("verify", package, "--against", model, "--color", "always").out


def test_ratios_of_a_benchmark_are_coloured(
    invoke: Invoke, package: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words of the line are those that are looked for."""
    monkeypatch.setattr("atcpy.cli.console._VERDICTS", ((re.compile(r"^(ratio \S+× (?:faster|slower|same))"), "1"),))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    ran = invoke("bench", package, "--vs", package, "--min_time", "0.02", "--color", "always")
    assert "\x1b[1mratio " in ran.out, ran.out
