"""A hostile model: its files, and how conversion has to end; and what is wrong with how it ends."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from enum import Enum
from io import StringIO
from pathlib import Path
from typing import Any

import onnx

from atcpy import InferenceSession
from atcpy.cli.app import execute
from atcpy.errors import as_known_error

INVALID, UNSUPPORTED = frozenset({3}), frozenset({4})
# What makes no sense and has no end is refused by a rule, by what we support, or by a limit: the first that is met.
REFUSED = frozenset({3, 4, 6})
OLD = b"the package of yesterday"
Content = bytes | onnx.ModelProto


class Fault(Enum):
    """A figure of the gate."""

    CRASH = "crash"
    HANG = "hang"
    INTERNAL = "exit 1"
    TRACEBACK = "traceback"
    ACCEPTED = "accepted"
    CLASS = "wrong class"
    LITTER = "litter"
    CHECK = "check differs"


@dataclass(frozen=True)
class Case:
    """`write` puts the files into a folder and returns the name of the model. `exits`: the codes that are right.
    `feeds`: what is run if the model is converted, whose values make no sense; None if it must not be converted.
    """

    name: str
    write: Callable[[Path], str]
    exits: frozenset[int]
    feeds: Mapping[str, Any] | None = None
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """How a case ended."""

    code: int
    faults: tuple[Fault, ...] = ()
    text: str = ""
    others: Mapping[str, object] = field(default_factory=dict)


def onnx_case(
    name: str, make: Callable[[], Content], exits: frozenset[int], feeds: Mapping[str, Any] | None = None
) -> Case:
    """A case of one file, `m.onnx`."""

    def write(folder: Path) -> str:
        content = make()
        (folder / "m.onnx").write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
        return "m.onnx"

    return Case(name, write, exits, feeds)


def judge(case: Case) -> Verdict:
    """Convert a case, and check it, in this process."""
    with tempfile.TemporaryDirectory() as name, chdir(name):
        folder = Path(name)
        model = case.write(folder)
        (folder / "out.om").write_bytes(OLD)
        before = _files(folder)
        code, text = _execute("convert", "--model", model, "-o", "out.om", *case.options)
        faults = [] if code == 0 or _files(folder) == before else [Fault.LITTER]
        if code == 0 and case.feeds is not None:
            code, text = _run(folder / "out.om", case.feeds)
        elif code != 0:
            checked, said = _execute("check", model, *case.options)
            # What `check` lets pass, `convert` may refuse for its size or its kernels, but not as invalid.
            if checked != code and not (checked == 0 and code in (4, 6)):
                faults.append(Fault.CHECK)
                text += f"\ncheck ended with {checked}: {said}"
            if _files(folder) != before:
                faults.append(Fault.LITTER)
        if "Traceback" in text:
            faults.append(Fault.TRACEBACK)
        if code not in case.exits:
            faults.append({0: Fault.ACCEPTED, 1: Fault.INTERNAL}.get(code, Fault.CLASS))
        return Verdict(code, tuple(dict.fromkeys(faults)), text)


def _execute(*words: str) -> tuple[int, str]:
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = execute([*words])
    return code, err.getvalue()


def _run(package: Path, feeds: Mapping[str, Any]) -> tuple[int, str]:
    try:
        InferenceSession(package).run(None, dict(feeds))
    except Exception as error:  # noqa: BLE001 whichever it is, it has an exit code
        known = as_known_error(error)
        return known.exit_code, str(known)
    return 0, ""


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    """What lies in a folder, by name: kind and size."""
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            status = os.lstat(path := os.path.join(parent, name))
            found[os.path.relpath(path, folder)] = (status.st_mode, status.st_size)
    return found
