"""Disks that are full, read-only or limited, under everything that commands write.

    python -m tests.gate.disks

Each command writes over an old file on a disk of its own, in a mount namespace; this needs root. The disk is full, has
one page left or no inodes, or is read-only; or files have a limit of size, or the folder forbids to write. Each
condition has one code, whatever the command; the old file is whole, and no other is left. The full disk is also that
behind stdout and TMPDIR.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "models" / "digits" / "digits.onnx"
DISK = Path("disk")  # where the disk is mounted, in the folder of a case
OLD = b"the file of yesterday"
_INSIDE = "--inside"  # the mount namespace
_PAGE = 4096
_WITHOUT_RIGHTS = ("setpriv", "--inh-caps=-all", "--bounding-set=-all")  # root, whom permissions stop as others


@dataclass(frozen=True)
class Writer:
    """A command, and the files that it writes on the disk."""

    name: str
    arguments: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Condition:
    """What is wrong with the disk, and how a command that writes to it ends."""

    name: str
    error: str
    exit_code: int
    mount: str | None = "size=1m"  # options of its file system, a tmpfs; None: it is a folder
    fill: Callable[[Path], None] = lambda _disk: None
    prefix: tuple[str, ...] = ()
    limit: int | None = None  # bytes of a file
    may_have_room: bool = False  # for what some commands write
    variables: dict[str, str] = field(default_factory=dict)


def leave(nbytes: int) -> Callable[[Path], None]:
    """Fill a disk until so many bytes are left."""

    def fill(disk: Path) -> None:
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        (disk / "filler").write_bytes(b"\0" * (free - nbytes))

    return fill


def use_all_inodes(disk: Path) -> None:
    """Make files until there can be no more."""
    for number in range(os.statvfs(disk).f_favail):
        (disk / f"filler{number}").touch()


def make_read_only(disk: Path) -> None:
    """Mount a disk again, for reading alone."""
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)


def forbid(folder: Path) -> None:
    """Take the permission to write into a folder and its files."""
    for path in (*folder.iterdir(), folder):
        path.chmod(0o555)


WRITERS = (
    Writer("convert", ("convert", "--model", "digits.onnx", "-o", "disk/d.om", "-q"), ("d.om",)),
    Writer("convert --dump_graph", ("convert", "--model", "digits.onnx", "-o", "d", "--dump_graph", "disk", "-q"),
           ("00_PreRunBegin.txt",)),
    Writer("run --npz_out", ("run", "digits.om", "--fill", "ones", "--npz_out", "disk/y.npz", "-q"), ("y.npz",)),
    Writer("run --output_dir", ("run", "digits.om", "--fill", "ones", "--output_dir", "disk", "-q"),
           ("probabilities.npy", "outputs.json")),
    Writer("run --output_dir, a new one",
           ("run", "digits.om", "--fill", "ones", "--output_dir", "disk/new/one", "-q"), ()),
    Writer("optimize", ("optimize", "digits.onnx", "disk/o.onnx", "--no_verify", "-q"), ("o.onnx",)),
    Writer("diff --svg", ("diff", "digits.onnx", "digits.om", "--svg", "disk/d.svg", "-q"), ("d.svg",)),
)  # fmt: skip
CONDITIONS = (
    Condition("full", "R0002", 6, fill=leave(0)),
    Condition("one page free", "R0002", 6, fill=leave(_PAGE), may_have_room=True),
    Condition("no inodes", "R0002", 6, mount="size=1m,nr_inodes=20", fill=use_all_inodes),
    Condition("read-only", "E13004", 2, fill=make_read_only),
    Condition("without permission", "E13004", 2, mount=None, fill=forbid, prefix=_WITHOUT_RIGHTS),
    Condition("files of 100 bytes at most", "E13004", 6, limit=100),
)
# What does not write on the disk by name: it is behind stdout, or TMPDIR.
STDOUT = (
    ("inspect", "digits.om", "--json"), ("bench", "digits.om", "--min-time", "0.01", "--json"),
    ("check", "digits.onnx"), ("run", "digits.om", "--fill", "ones"),
    ("verify", "digits.om", "--against", "digits.onnx"),
)  # fmt: skip
TEMPORARY = (
    ("optimize", "digits.onnx", "o.onnx", "-q"), ("verify", "digits.om", "--against", "digits.onnx", "-q"),
    ("convert", "--model", "digits.onnx", "-o", "d", "-q"),
)  # fmt: skip


class Bench:
    """A folder with a model, its package and a disk."""

    def __init__(self, root: Path) -> None:
        self.root, self.disk = root, root / DISK
        self.disk.mkdir()
        shutil.copy(DIGITS, root / "digits.onnx")
        self.run(("convert", "--model", "digits.onnx", "-o", "digits", "-q"))

    def run(
        self,
        arguments: Sequence[str],
        condition: Condition = Condition("", "", 0),
        **streams: object,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command."""

        def restrict() -> None:
            if condition.limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (condition.limit, condition.limit))

        return subprocess.run(
            [*condition.prefix, sys.executable, "-m", "atcpy", *arguments],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **condition.variables},
            text=True,
            stderr=subprocess.PIPE,
            check=False,
            timeout=120,
            preexec_fn=restrict,
            **{"stdout": subprocess.DEVNULL, **streams},  # type: ignore[call-overload]
        )

    def names(self) -> set[str]:
        """All files and folders."""
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*")}

    def mount(self, condition: Condition) -> None:
        """Prepare the disk, without its fault."""
        if condition.mount is not None:
            subprocess.run(["mount", "-t", "tmpfs", "-o", condition.mount, "tmpfs", self.disk], check=True)

    def unmount(self, condition: Condition) -> None:
        """Take the disk away."""
        if condition.mount is not None:
            subprocess.run(["umount", self.disk], check=True)
        self.disk.chmod(0o755)
        for path in self.disk.iterdir():
            path.unlink()


def problem_of(ran: subprocess.CompletedProcess[str], condition: Condition) -> str | None:
    """What is wrong with how a command ended."""
    if ran.returncode != condition.exit_code or not ran.stderr.startswith(f"error[{condition.error}]"):
        return f"exit {ran.returncode}, not {condition.exit_code} and {condition.error}: {ran.stderr.strip()[-300:]}"
    return "a traceback" if "Traceback" in ran.stderr else None


def litter_of(bench: Bench, before: set[str]) -> str:
    """The files that were not there before."""
    return ", ".join(sorted(bench.names() - before))


def judge(bench: Bench, writer: Writer, condition: Condition) -> str | None:
    """What is wrong after a command has written, or not."""
    bench.mount(condition)
    try:
        for output in writer.outputs:
            (bench.disk / output).write_bytes(OLD)
        condition.fill(bench.disk)
        before = bench.names()
        ran = bench.run(writer.arguments, condition)
        if condition.may_have_room and ran.returncode == 0:
            is_new = all((bench.disk / name).read_bytes() != OLD for name in writer.outputs)
            return None if is_new and not litter_of(bench, before) else "a success with old files or litter"
        if problem := problem_of(ran, condition):
            return problem
        if lost := [name for name in writer.outputs if (bench.disk / name).read_bytes() != OLD]:
            return f"{', '.join(lost)} is not as it was"
        if litter := litter_of(bench, before):
            return f"exit {ran.returncode} leaves {litter}"
    finally:
        bench.unmount(condition)
    return None


def judge_stdout(bench: Bench, arguments: Sequence[str]) -> str | None:
    """What is wrong after a command has printed to a full disk."""
    with open("/dev/full", "w") as full:
        return problem_of(bench.run(arguments, stdout=full), Condition("stdout", "R0002", 6))


def judge_temporary(bench: Bench, arguments: Sequence[str]) -> str | None:
    """What is wrong after a command had no room in TMPDIR, which it may need or not."""
    condition = Condition("TMPDIR is full", "R0002", 6, fill=leave(0), variables={"TMPDIR": str(bench.disk)})
    bench.mount(condition)
    try:
        condition.fill(bench.disk)
        before = bench.names()
        ran = bench.run(arguments, condition)
        if ran.returncode != 0 and (problem := problem_of(ran, condition)):
            return problem
        outputs = set() if ran.returncode else {"d.om", "o.onnx"}
        litter = bench.names() - before - outputs
        for name in bench.names() - before:
            (bench.root / name).unlink()
        return f"exit {ran.returncode} leaves {', '.join(sorted(litter))}" if litter else None
    finally:
        bench.unmount(condition)


def main() -> int:
    """Try all and print what was found; 1 if there are findings."""
    if _INSIDE not in sys.argv:
        command = ["unshare", "--mount", sys.executable, "-m", "tests.gate.disks", _INSIDE]
        return subprocess.run(command, check=False).returncode
    start = time.monotonic()
    findings: list[str] = []
    counts: Counter[str] = Counter()

    def note(condition: str, command: str, problem: str | None) -> None:
        counts[condition] += 1
        if problem is not None:
            findings.append(f"{condition}, {command}: {problem}")

    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name).resolve())
        for condition in CONDITIONS:
            for writer in WRITERS:
                note(condition.name, writer.name, judge(bench, writer, condition))
        for arguments in STDOUT:
            note("full behind stdout", arguments[0], judge_stdout(bench, arguments))
        for arguments in TEMPORARY:
            note("full behind TMPDIR", arguments[0], judge_temporary(bench, arguments))
    for finding in findings[:20]:
        print(finding)
    print(", ".join(f"{condition} × {count}" for condition, count in counts.items()))
    print(f"{counts.total()} commands, {len(findings)} findings, {time.monotonic() - start:.0f} s")
    return 1 if findings or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
