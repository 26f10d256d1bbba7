"""`-` as a file of a command: its standard input, read before the command runs, or its standard output, written when
the command has ended well. Meanwhile they are files of a temporary folder: commands need to know files only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from enum import Enum
from typing import Any

from atcpy.errors import Unsupported, UsageError, Where

STANDARD = "-"
_CHUNK_BYTES = 8 << 20


class File(Enum):
    """What a command does with the file that a parameter names: a mark in the parameter's annotation."""

    READ = "stdin"
    WRITTEN = "stdout"


def file_parameters(annotations: Mapping[str, Any]) -> dict[str, File]:
    """The parameters that name files, by the marks in their annotations."""
    marks = {name: getattr(kind, "__metadata__", ()) for name, kind in annotations.items()}
    return {name: mark for name, found in marks.items() for mark in found if isinstance(mark, File)}


class StandardStreams(ExitStack):
    """The files behind `-`, until the context ends."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = ""
        self.writes = False  # whether a result goes to the standard output, where nothing else may go then

    def replace(self, values: Mapping[str, Any], files: Mapping[str, File]) -> dict[str, Any]:
        """The values of parameters, with a path for each `-` of those that name files. Raises UsageError (E10047) for
        a stream that is named twice, and (E10001) for one that is a terminal.
        """
        replaced = dict(values)
        for mark in File:
            names = [name for name, of in files.items() if of is mark for _ in range(_count(values.get(name)))]
            if len(names) > 1:
                what = f"- is {mark.value}, which can be one file, and it is named {len(names)} times"
                raise UsageError("E10047", what, where=Where(option=names[1]), hint="name a file for the others")
            for name in names:
                path = self._open(name, mark)
                value = values[name]
                replaced[name] = (
                    [path if each == STANDARD else each for each in value] if isinstance(value, list) else path
                )
        return replaced

    def _open(self, name: str, mark: File) -> str:
        """The path that stands for a stream."""
        import tempfile

        from atcpy.om.atomic import atomic_write

        if (sys.stdin if mark is File.READ else sys.stdout).isatty():
            what = f"- is {mark.value}, which is a terminal"
            raise UsageError("E10001", what, where=Where(option=name), hint="redirect it, or name a file")
        if not self._folder:
            self._folder = self.enter_context(tempfile.TemporaryDirectory(prefix="atcpy-"))
        path = os.path.join(self._folder, mark.value)
        if mark is File.READ:
            atomic_write(path, iter(lambda: sys.stdin.buffer.read(_CHUNK_BYTES), b""))
        else:
            self.writes = True
        return path

    def write_output(self) -> None:
        """Write what the command wrote to the standard output. Raises Unsupported (E10055) unless it is one file."""
        import shutil

        from atcpy.files import open_file

        written = [entry for entry in os.scandir(self._folder) if entry.name != File.READ.value]
        if len(written) != 1 or not written[0].is_file():
            what = f"stdout can be one file, and this is several: {', '.join(sorted(e.name for e in written))}"
            raise Unsupported("E10055", what, hint="name a file in place of -")
        with open_file(written[0].path) as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.flush()

    def shown(self, text: str) -> str:
        """A text with `-` in place of the paths behind it."""
        if self._folder:
            for name in (File.READ.value, File.WRITTEN.value + ".om", File.WRITTEN.value):
                text = text.replace(os.path.join(self._folder, name), STANDARD)
        return text


def _count(value: object) -> int:
    return value.count(STANDARD) if isinstance(value, list) else value == STANDARD
