"""Draw what a conversion prints in a terminal, for the README: `python docs/picture.py`."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
import termios
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "pictures" / "convert.svg"
COMMAND = ("convert", "models/digits/digits.onnx", "--output", "digits.om")
COLUMNS = 110


def drawn(command: str, printed: str) -> str:
    """An SVG of a terminal with a command and what it printed, ANSI colours included. It loads nothing."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
    console.print(Text.from_ansi(printed))
    svg = console.export_svg(title=command, theme=MONOKAI)
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)


def in_terminal(arguments: list[str]) -> str:
    """What a command prints in a terminal of `COLUMNS` columns."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (60, COLUMNS))
    with subprocess.Popen(arguments, cwd=ROOT, stdout=theirs, stderr=subprocess.DEVNULL) as running:
        os.close(theirs)
        printed = b""
        with suppress(OSError):  # how Linux says that the other end is closed
            while part := os.read(ours, 1 << 16):
                printed += part
    os.close(ours)
    if running.returncode:
        sys.exit(running.returncode)
    return printed.decode().replace("\r\n", "\n")


def main() -> None:
    """Run the command and write the picture."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [*COMMAND[:-1], str(Path(folder) / COMMAND[-1]), "--color", "always"]
        printed = in_terminal([sys.executable, "-m", "atcpy", *arguments]).replace(f"{folder}/", "")
    TARGET.write_text(drawn(" ".join(("atcpy", *COMMAND[:2])), printed), encoding="utf-8")


if __name__ == "__main__":
    main()
