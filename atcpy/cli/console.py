"""What goes where: the result to stdout, progress and warnings to stderr, both free of control characters."""

import os
import sys
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from atcpy.errors import escape

if TYPE_CHECKING:
    from rich.status import Status

_STYLES = {"error": "31;1", "warning": "33;1"}
PATIENCE_SECONDS = 1.0


def write_lines(lines: Iterable[str], stream: TextIO) -> None:
    """Lines of text that may come from a model."""
    for line in lines:
        stream.write(escape(line) + "\n")
    stream.flush()


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

    def step(self, text: str) -> None:
        """Says what begins."""
        text = escape(text)
        if self._verbosity:
            write_lines([text], sys.stderr)
        with self._lock:
            self._text = text
            if self._status is not None:
                self._status.update(text)
            elif self._on_terminal and self._timer is None:
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
