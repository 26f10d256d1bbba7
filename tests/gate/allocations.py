"""Allocations of the extension that fail, one after the other: each ends with 6, and no file is left behind.

    python -m tests.gate.allocations

All of one conversion, of a run of a package of fixed shapes and of one whose dims are open, each in a process of its
own. Those of the interpreter, numpy and protobuf are not among them: the latter two crash where theirs fail.
"""

from __future__ import annotations

import ctypes
import io
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "models" / "digits" / "digits.onnx"
SECONDS = 30  # a command that takes longer hangs
MOST = 10_000  # allocations of a command
_NO_MORE = 71  # the exit code of a command that has fewer


def build_shim(folder: Path) -> Path:
    """The library that is loaded before the C library."""
    shim = folder / "fail_allocation.so"
    source = ROOT / "tests" / "csrc" / "fail_allocation.c"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", shim, source], check=True)
    return shim


def code_of_extension() -> tuple[int, int]:
    """The addresses between which the extension lies."""
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if "_kernels" in line]
    bounds = [tuple(int(bound, 16) for bound in line[0].split("-")) for line in lines]
    return min(first for first, _ in bounds), max(last for _, last in bounds)


def ending_of(command: Callable[[], int]) -> tuple[int, str]:
    """The exit code of a command in a process of its own, less than 0 for a signal, and what it printed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        # The streams of the parent may be files, which can seek.
        sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # noqa: SIM115
        code = 70
        signal.alarm(SECONDS)
        try:
            code = command()
            sys.stdout.flush()
        finally:
            os._exit(code)
    os.close(writing)
    text = b""
    while part := os.read(reading, 1 << 16):
        text += part
    os.close(reading)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), text.decode(errors="replace")


def commands(folder: Path) -> dict[str, list[str]]:
    """The commands, whose files lie in the folder."""
    from tests.models_in_text import package

    text = "open (float[b,n] x, float[n,4] w) => (float[b,4] y) { m = MatMul(x, w) y = Softmax(m) }"
    (folder / "open.om").write_bytes(package(text))
    convert = ["convert", "--model", str(DIGITS), "-o", str(folder / "out" / "digits"), "-q"]
    (folder / "out").mkdir()
    return {
        "convert": convert,
        "run": ["run", str(folder / "digits.om"), "--fill", "ones", "-q"],
        "run, open dims": [
            "run",
            str(folder / "open.om"),
            "--fill",
            "ones",
            "--shape",
            "x=2,3",
            "--shape",
            "w=3,4",
            "-q",
        ],
    }


def judge(code: int, text: str, folder: Path) -> str | None:
    """What is wrong with an ending."""
    litter = sorted(path.name for path in (folder / "out").iterdir())
    for path in (folder / "out").iterdir():
        path.unlink()
    if code != 6:
        return f"exit {code}: {text.strip()[-300:]}"
    if litter:
        return f"exit {code} leaves {', '.join(litter)}"
    return None


def fail_each(folder: Path) -> tuple[Counter[str], list[str]]:
    """Let each allocation of the extension fail."""
    from atcpy.cli.app import main

    shim = ctypes.CDLL(None)
    first, last = code_of_extension()
    ends: Counter[str] = Counter()
    findings: list[str] = []
    for name, arguments in commands(folder).items():
        for number in range(1, MOST):

            def command(arguments: list[str] = arguments, number: int = number) -> int:
                shim.fail_allocation_of(ctypes.c_ulong(first), ctypes.c_ulong(last), ctypes.c_long(number))
                code = main(arguments)
                return code if shim.allocations_seen() >= number else _NO_MORE

            code, text = ending_of(command)
            if code == _NO_MORE:
                judge(6, "", folder)
                break
            ends[f"{name}: {code}"] += 1
            if problem := judge(code, text, folder):
                findings.append(f"{name}, allocation {number} of the extension: {problem}")
    return ends, findings


def run() -> tuple[Counter[str], list[str]]:
    """How the commands end, and the findings."""
    from atcpy.cli.app import execute

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with redirect_stdout(io.StringIO()):
            execute(["convert", "--model", str(DIGITS), "-o", str(folder / "digits"), "-q"])
            execute(["run", str(folder / "digits.om"), "--fill", "ones", "-q"])  # imports, before processes split
        return fail_each(folder)


def main() -> int:
    """Try all and print how they end; 1 if there are findings."""
    if "fail_allocation" not in os.environ.get("LD_PRELOAD", ""):
        with tempfile.TemporaryDirectory() as name:
            shim = build_shim(Path(name))
            preload = " ".join(filter(None, [str(shim), os.environ.get("LD_PRELOAD", "")]))
            command = [sys.executable, "-m", "tests.gate.allocations"]
            return subprocess.run(command, env={**os.environ, "LD_PRELOAD": preload}, check=False).returncode
    start = time.monotonic()
    ends, findings = run()
    for finding in findings[:20]:
        print(finding)
    print(", ".join(f"{end} × {number}" for end, number in sorted(ends.items())))
    print(f"{ends.total()} allocations, {len(findings)} findings, {time.monotonic() - start:.0f} s")
    return 1 if findings or ends.total() == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
