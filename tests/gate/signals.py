"""Signals at random moments of commands: each ends soon, by its code or the signal, and leaves old or new files.

    python -m tests.gate.signals --tries 500 --seed 1

`convert`, `check`, `run` and `verify`, each in a process of its own, get SIGINT, SIGTERM or SIGHUP at a moment between
their start and their end: while modules are imported, in kernels, in ONNX Runtime, while a file is written. What a
command prints has no traceback, and no temporary file is left, neither beside its output nor in TMPDIR.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from atcpy.errors import INTERRUPTED, TERMINATED

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "models" / "digits" / "digits.onnx"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SECONDS = 1.0  # a command that takes longer to end is late
REPEATS = 3
OLD = b"the file of yesterday"
LONG_KERNEL = """<ir_version: 10, opset_import: ["" : 21]> long (float[1,1,1500,1500] x) => (float[1,1,1500,1500] y) {
  y = MaxPool<kernel_shape=[41,41], pads=[20,20,20,20]>(x) }"""


@dataclass(frozen=True)
class Subject:
    """A command, the file that it writes, and how long it takes when nothing ends it."""

    name: str
    arguments: tuple[str, ...]
    output: str | None = None
    seconds: float = 0.0
    written: bytes = b""


@dataclass(frozen=True)
class Ending:
    """How a process ended."""

    code: int
    seconds: float  # from the signal on
    text: str

    @property
    def is_of_interpreter(self) -> bool:
        """Python was interrupted before it ran a line of atcpy: it prints a traceback, which nobody can prevent."""
        return "KeyboardInterrupt" in self.text and str(ROOT) not in self.text


class Bench:
    """A folder with models, in which commands run, with a TMPDIR of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("out", "tmp"):
            (root / name).mkdir()
        shutil.copy(DIGITS, root / "digits.onnx")
        onnx.save(chain(2000), root / "chain.onnx")
        onnx.save(onnx.parser.parse_model(LONG_KERNEL), root / "long.onnx")
        self.environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(root / "tmp"),
        }  # fmt: skip
        for name in ("digits", "long"):
            self.finish(self.start(("convert", "--model", f"{name}.onnx", "-o", name, "-q")))
        self.files = self.names()

    def start(self, arguments: Sequence[str]) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen(
            [sys.executable, "-m", "atcpy", *arguments],
            cwd=self.root,
            env=self.environment,
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def finish(self, process: subprocess.Popen[str]) -> Ending:
        """Wait until a command has ended."""
        start = time.monotonic()
        _, text = process.communicate(timeout=120)
        return Ending(process.returncode, time.monotonic() - start, text)

    def end_after(self, subject: Subject, number: signal.Signals, seconds: float) -> Ending:
        """Start a command beside an old output, and send it a signal after so many seconds."""
        self.reset(subject)
        process = self.start(subject.arguments)
        time.sleep(seconds)
        process.send_signal(number)
        return self.finish(process)

    def names(self) -> set[str]:
        """All files."""
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*")}

    def measured(self, subject: Subject) -> Subject:
        """The subject with its time and what it writes."""
        start = time.monotonic()
        ended = self.finish(self.start(subject.arguments))
        if ended.code != 0:
            raise AssertionError(f"{subject.name}: exit {ended.code}: {ended.text}")
        written = b"" if subject.output is None else (self.root / subject.output).read_bytes()
        seconds = time.monotonic() - start
        return Subject(subject.name, subject.arguments, subject.output, seconds, written)

    def reset(self, subject: Subject) -> None:
        """Leave the models, and of the output an old version."""
        for name in self.names() - self.files:
            (self.root / name).unlink()
        if subject.output is not None:
            (self.root / subject.output).write_bytes(OLD)

    def is_new(self, subject: Subject) -> bool:
        """Whether the output is what an undisturbed command writes."""
        assert subject.output is not None
        path = self.root / subject.output
        if path.suffix != ".npz":
            return path.read_bytes() == subject.written
        with tempfile.NamedTemporaryFile(suffix=".npz") as file:  # archives hold the time of day
            file.write(subject.written)
            file.flush()
            try:
                with np.load(file.name) as expected, np.load(path) as found:
                    return set(expected) == set(found) and all(
                        np.array_equal(expected[name], found[name]) for name in expected
                    )
            except (OSError, ValueError):
                return False


def chain(length: int) -> onnx.ModelProto:
    """A model that takes longer to convert than Python to start."""
    ops = " ".join(f"v{i + 1} = {'Sin' if i % 2 else 'Cos'}(v{i})" for i in range(length))
    return onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21]> chain (float[4] v0) => (float[4] v{length}) {{ {ops} }}'
    )


def subjects() -> tuple[Subject, ...]:
    """The commands."""
    return (
        Subject("convert", ("convert", "--model", "digits.onnx", "-o", "out/d.om", "-q"), "out/d.om"),
        Subject("convert, 2000 nodes", ("convert", "--model", "chain.onnx", "-o", "out/c.om", "-q"), "out/c.om"),
        Subject("check", ("check", "chain.onnx", "-q")),
        Subject("run", ("run", "digits.om", "--fill", "random", "--npz_out", "out/y.npz", "-q"), "out/y.npz"),
        Subject("run, long kernel", ("run", "long.om", "--fill", "ones", "--npz_out", "out/y.npz", "-q"), "out/y.npz"),
        Subject("verify", ("verify", "digits.om", "--against", "digits.onnx", "-q")),
    )


def judge(bench: Bench, subject: Subject, number: signal.Signals, ended: Ending) -> str | None:
    """What is wrong with an ending."""
    codes = (-number, INTERRUPTED if number == signal.SIGINT else TERMINATED)
    if ended.code not in (0, *codes):
        return f"exit {ended.code}: {ended.text.strip()[-300:]}"
    expected = ("", "interrupted\n") if number == signal.SIGINT else ("",)
    if ended.text not in expected:
        return f"it printed {ended.text.strip()[-500:]!r}"
    litter = bench.names() - bench.files - {subject.output}
    if litter:
        return f"exit {ended.code} leaves {', '.join(sorted(litter))}"
    if subject.output is not None:
        path = bench.root / subject.output
        is_old = path.exists() and path.read_bytes() == OLD
        if not is_old and not (path.exists() and bench.is_new(subject)):
            return "the output is torn or lost"
        if is_old and ended.code == 0:
            return "a success without a new output"
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Try and print what was found; 1 if there are findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.gate.signals", description=__doc__)
    parser.add_argument("--tries", type=int, default=500, help="signals that are sent (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of commands and moments (default: %(default)s)")
    options = parser.parse_args(arguments)
    rng = random.Random(options.seed)
    start = time.monotonic()
    counts: Counter[str] = Counter()
    findings: list[str] = []
    latest = 0.0
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name).resolve())
        measured = [bench.measured(subject) for subject in subjects()]
        for _ in range(options.tries):
            subject, number = rng.choice(measured), rng.choice(SIGNALS)
            moment = subject.seconds * rng.uniform(0, 1.05)
            ended = bench.end_after(subject, number, moment)
            late = ended.seconds
            for _ in range(REPEATS if late > SECONDS else 0):  # the scheduler may have given the time to others
                late = min(late, bench.end_after(subject, number, moment).seconds)
            latest = max(latest, late)
            if late > SECONDS:
                findings.append(f"{number.name} after {moment:.3f} s of {subject.name}: it took {late:.2f} s to end")
            if ended.is_of_interpreter:
                counts["before atcpy"] += 1
                continue
            counts[f"{number.name}: {'code' if ended.code > 0 else 'done' if ended.code == 0 else 'signal'}"] += 1
            if problem := judge(bench, subject, number, ended):
                findings.append(f"{number.name} after {moment:.3f} s of {subject.name}: {problem}")
    for finding in findings[:20]:
        print(finding)
    print(", ".join(f"{end} × {count}" for end, count in sorted(counts.items())))
    print(
        f"{options.tries} signals, the latest end after {latest:.2f} s, {len(findings)} findings, "
        f"{time.monotonic() - start:.0f} s"
    )
    return 1 if findings or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
