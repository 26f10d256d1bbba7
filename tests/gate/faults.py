"""Crashes and failing system calls while a package is written, one after the other, by `strace --inject`.

    python -m tests.gate.faults

`atcpy convert` replaces a package. Each of its system calls on the output's folder is let kill the process, fail with
EIO or ENOSPC, or be interrupted, in turn. After each the output is the old package or the new one, whole; a command
that could go on has ended with a documented code and left no other file; and the next conversion succeeds, and removes
what a killed one left.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import atcpy

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "models" / "digits" / "digits.onnx"
CALLS = "openat,write,pread64,pwrite64,fsync,fchmod,renameat,unlinkat,close,flock,read,lseek"
# What may not be interrupted is not: the kernel never returns EINTR there.
ERRORS = {"EIO": "openat,write,pread64,pwrite64,fsync,renameat,read", "ENOSPC": "openat,write,pwrite64,fsync,renameat",
          "EINTR": "openat,write,fsync", "EDQUOT": "write,pwrite64,fsync"}  # fmt: skip
OLD = b"the package of yesterday"


@dataclass(frozen=True)
class Point:
    """The n-th call of a kind, and what becomes of it."""

    call: str
    number: int
    fault: str

    @property
    def injection(self) -> str:
        """As strace has it."""
        return f"inject={self.call}:{self.fault}:when={self.number}"


class Folder:
    """A folder with a model and an old package."""

    def __init__(self, root: Path) -> None:
        self.root, self.output = root, root / "out" / "d.om"
        self.log = root / "trace"
        self.output.parent.mkdir()
        shutil.copy(DIGITS, root / "digits.onnx")

    def convert(self, *tracer: str) -> subprocess.CompletedProcess[str]:
        """Convert the model, under a tracer."""
        command = [sys.executable, "-m", "atcpy", "convert", "--model", "digits.onnx", "-o", "out/d", "-q"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            [*tracer, *command],
            cwd=self.root,
            env=environment,
            text=True,
            capture_output=True,
            check=False,
            timeout=120,
        )

    def reset(self) -> None:
        """Leave nothing but the old package."""
        for path in self.output.parent.iterdir():
            path.unlink()
        self.output.write_bytes(OLD)

    @property
    def names(self) -> list[str]:
        """The files beside the output, and it."""
        return sorted(path.name for path in self.output.parent.iterdir())


def points(folder: Folder) -> Iterator[Point]:
    """Every call on the output's folder, with each of its faults."""
    folder.reset()
    folder.convert("strace", "-f", "--seccomp-bpf", "-y", "-o", str(folder.log), "-e", f"trace={CALLS}")
    numbers: Counter[tuple[str, str]] = Counter()  # of each thread, as strace counts
    for line in folder.log.read_text(errors="replace").splitlines():
        found = re.match(r"(\d+) +(\w+)\(", line)
        if found is None:
            continue
        thread, call = found.groups()
        numbers[thread, call] += 1
        if str(folder.output.parent) not in line and '"out/' not in line:
            continue
        yield Point(call, numbers[thread, call], "signal=KILL")
        for error, calls in ERRORS.items():
            if call in calls.split(","):
                yield Point(call, numbers[thread, call], f"error={error}")


def judge(folder: Folder, point: Point, new: bytes) -> str | None:
    """What is wrong after a fault."""
    folder.reset()
    ran = folder.convert(
        "strace", "-f", "--seccomp-bpf", "-o", str(folder.log), "-e", f"trace={CALLS}", "-e", point.injection
    )
    content = folder.output.read_bytes() if folder.output.exists() else None
    if content not in (OLD, new):
        return "the output is lost" if content is None else f"the output is torn: {len(content)} bytes"
    killed = point.fault == "signal=KILL"
    if not killed and ran.returncode not in (0, 2, 6):
        return f"exit {ran.returncode}: {ran.stderr.strip()[-200:]}"
    if not killed and ran.returncode == 0 and content != new:
        return "a success without the new package"
    if not killed and folder.names != ["d.om"]:
        return f"exit {ran.returncode} leaves {folder.names}"
    atcpy.convert(folder.root / "digits.onnx", folder.output)
    if folder.output.read_bytes() != new:
        return "the next conversion gives another package"
    if folder.names != ["d.om"]:
        return f"the next conversion leaves {folder.names}"
    return None


def main() -> int:
    """Try all and print how they end; 1 if there are findings."""
    if shutil.which("strace") is None:
        print("strace is not installed")
        return 2
    start = time.monotonic()
    findings: list[str] = []
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Folder(Path(name).resolve())
        folder.convert()
        new = folder.output.read_bytes()
        for point in list(points(folder)):
            counts[point.fault] += 1
            if problem := judge(folder, point, new):
                findings.append(f"{point.injection}: {problem}")
    for finding in findings[:20]:
        print(finding)
    print(", ".join(f"{fault} × {count}" for fault, count in counts.items()))
    print(f"{counts.total()} faults, {len(findings)} findings, {time.monotonic() - start:.0f} s")
    return 1 if findings or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
