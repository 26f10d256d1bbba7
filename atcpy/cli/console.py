"""What goes where: the result to stdout, progress and warnings to stderr, both free of control characters."""

import os
import re
import sys
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from atcpy.errors import escape

if TYPE_CHECKING:
    from rich.status import Status

_RED, _GREEN, _YELLOW = "31;1", "32;1", "33;1"
_STYLES = {"error": _RED, "warning": _YELLOW}
# Verdicts in the lines of results: the first group is coloured.
_VERDICTS = (
    (re.compile(r"^(PASS)$"), _GREEN),
    (re.compile(r"^(FAIL)$"), _RED),
    (re.compile(r"^output .*\b(ok) \("), _GREEN),
    (re.compile(r"^output .*\b(FAIL) \("), _RED),
    (re.compile(r"^(ratio \S+× faster)\b"), _GREEN),
    (re.compile(r"^(ratio \S+× slower)\b"), _RED),
    (re.compile(r"^ (error) +[A-Z]+\d+ "), _RED),
    (re.compile(r"^ (warn|host) +[A-Z]+\d+ "), _YELLOW),
)
_BEGIN, _END = "\x01", "\x02"  # no line has them: `escape` writes out control characters
_DEFAULT_WIDTH = 80
_INDENT = 4
PATIENCE_SECONDS = 1.0


def write_lines(lines: Iterable[str], stream: TextIO) -> None:
    """Lines of text that may come from a model."""
    for line in lines:
        stream.write(escape(line) + "\n")
    stream.flush()


def write_result(lines: Iterable[str], stream: TextIO, *, color: bool) -> None:
    """The lines of a result: as they are in a file, wrapped at the width of a terminal, verdicts coloured."""
    width = terminal_width(stream)
    for line in map(escape, lines):
        marked, style = _mark_verdict(line) if color else (line, "")
        for part in [marked] if width is None else wrap(marked, width):
            stream.write(part.replace(_BEGIN, f"\x1b[{style}m").replace(_END, "\x1b[0m") + "\n")
    stream.flush()


def terminal_width(stream: TextIO) -> int | None:
    """The columns of a terminal, 80 where it does not say; None for a file, whose lines are for other programs."""
    if not stream.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _DEFAULT_WIDTH
    except OSError:
        return _DEFAULT_WIDTH


def wrap(line: str, width: int) -> list[str]:
    """The parts of a line that fit, cut at spaces: what does not fit goes on below the last column that begins in the
    left half. No name is cut, so that a part with a long one is wider.
    """
    indent = len(line) - len(line.lstrip())
    columns = [match.end() for match in re.finditer("  +", line) if indent < match.end() <= width // 2]
    below = " " * min(columns[-1] if columns else indent + _INDENT, width // 2)
    parts: list[str] = []
    while len(line) > width:
        start = len(line) - len(line.lstrip())
        cut = line.rfind(" ", start, width + 1)
        if cut < 0:  # one name that is longer
            cut = line.find(" ", max(start, width))
        if cut < 0 or not line[cut:].strip():
            break
        parts.append(line[:cut].rstrip())
        line = below + line[cut:].lstrip()
    return [*parts, line]


def _mark_verdict(line: str) -> tuple[str, str]:
    """A line with marks around its verdict, and the style of that."""
    for pattern, style in _VERDICTS:
        if found := pattern.search(line):
            start, end = found.span(1)
            return f"{line[:start]}{_BEGIN}{line[start:end]}{_END}{line[end:]}", style
    return line, ""


def write_blocks(text: str, *, color: bool) -> None:
    """Errors or warnings to stderr, `error[CODE]` in red."""
    lines = []
    for line in text.splitlines():
        head, bracket, rest = line.partition("[")
        if color and bracket and head in _STYLES:
            code, close, rest = rest.partition("]")
            line = f"\x1b[{_STYLES[head]}m{head}[{code}]\x1b[0m{rest}" if close else line
        lines.append(line + "\n")
    sys.stderr.write("".join(lines))
    sys.stderr.flush()


def wants_color(choice: str, stream: TextIO) -> bool:
    """Is the stream to be coloured?  NO_COLOR and a dumb terminal win over `--color`."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or choice == "never":
        return False
    return choice == "always" or stream.isatty()


class Progress:
    """What is being done now: on a terminal a line that comes after a second, else a line a step at `-v`."""

    def __init__(self, *, verbosity: int, quiet: bool) -> None:
        self._on_terminal = sys.stderr.isatty() and not quiet
        self._verbosity = 0 if quiet else verbosity
        self._text = ""
        self._status: Status | None = None
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def step(self, text: str, *, shown: str = "") -> None:
        """Say what begins; `shown` is what the terminal has in its place."""
        if self._verbosity:
            write_lines([text], sys.stderr)
        self.show(shown or text)

    def show(self, text: str) -> None:
        """Show on the terminal only what is being done."""
        if not self._on_terminal:
            return
        text = escape(text)
        with self._lock:
            self._text = text
            if self._status is not None:
                self._status.update(text)
            elif self._timer is None:
                self._timer = threading.Timer(PATIENCE_SECONDS, self._show)
                self._timer.daemon = True
                self._timer.start()

    def _show(self) -> None:
        from rich.console import Console
        from rich.text import Text

        with self._lock:
            if self._timer is not None:
                self._status = Console(stderr=True).status(Text(self._text))
                self._status.start()

    def end(self) -> None:
        """Takes the line away."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._status is not None:
                self._status.stop()
                self._status = None
