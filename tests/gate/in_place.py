"""Packages and models that are changed in place, at random moments, while they are mapped and read.

    python -m tests.gate.in_place --tries 400 --seed 1

A file is cut short, written over, written anew or made longer while a session runs it, packages are opened and
inspected, or a model is converted, again and again. No result is wrong, nothing dies of a signal, and the error is
P0009 in a session that was open before, else one of a damaged file.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import atcpy
from atcpy.errors import AtcError
from atcpy.files import require_unchanged_files
from atcpy.ir.tensor import Array
from atcpy.report.package import PackageView
from tests.gate.allocations import ending_of
from tests.models_in_text import model, package

TEXT = """wide (float[4,600] x) => (float[4,700] y) <float[600,700] w, float[700,700] v> {
  a = MatMul(x, w) b = Relu(a) y = MatMul(b, v) }"""
FEEDS = {"x": np.linspace(-1, 1, 2400, dtype=np.float32).reshape(4, 600)}
MOST_SECONDS = 0.05  # until the file is changed
SETTLED_SECONDS = 1.0  # a command that fails no more by then never will: what was changed does not matter
DAMAGED = frozenset({"P0001", "P0003", "P0004", "P0005", "P0009"})
_RIGHT, _WRONG, _UNHARMED = 0, 1, 2


def cut(path: Path, rng: random.Random) -> None:
    """Cut a file short."""
    os.truncate(path, rng.randrange(path.stat().st_size))


def write_over(path: Path, rng: random.Random) -> None:
    """Write over a part of a file."""
    with path.open("r+b") as file:
        file.seek(rng.randrange(path.stat().st_size))
        file.write(rng.randbytes(5000))


def write_anew(path: Path, rng: random.Random) -> None:
    """Write another content of the same size, as `cp` does."""
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def lengthen(path: Path, rng: random.Random) -> None:
    """Append to a file."""
    with path.open("ab") as file:
        file.write(rng.randbytes(rng.choice([1, 5000])))


CHANGES: Sequence[Callable[[Path, random.Random], None]] = (cut, write_over, write_anew, lengthen)


def run_open_session(path: Path) -> Iterator[None]:
    """Run a session that is opened once."""
    session = atcpy.InferenceSession(path, threads=2)
    expected = session.run(None, FEEDS)[0]
    while True:
        if not np.array_equal(session.run(None, FEEDS)[0], expected):
            raise AssertionError("a wrong result")
        yield


def open_and_run(path: Path) -> Iterator[None]:
    """Open a package and run it."""
    expected: Array | None = None
    while True:
        result = atcpy.InferenceSession(path, threads=2).run(None, FEEDS)[0]
        expected = result if expected is None else expected
        if not np.array_equal(result, expected):
            raise AssertionError("a wrong result")
        yield


def inspect(path: Path) -> Iterator[None]:
    """Inspect a package."""
    while True:
        with require_unchanged_files():
            PackageView(path).summary()
        yield


def convert(path: Path) -> Iterator[None]:
    """Convert a model, and see that the package is whole."""
    target = path.with_suffix(".out.om")
    while True:
        atcpy.convert(path, target)
        atcpy.InferenceSession(target).run(None, FEEDS)
        yield


@dataclass(frozen=True)
class Subject:
    """What reads a file, and the codes with which it may end once the file is changed; None: those of any refusal."""

    name: str
    suffix: str
    read: Callable[[Path], Iterator[None]]
    codes: frozenset[str] | None
    may_be_unharmed: bool = False


SUBJECTS = (
    Subject("open session", ".om", run_open_session, frozenset({"P0009"})),
    Subject("new sessions", ".om", open_and_run, DAMAGED),
    Subject("inspect", ".om", inspect, DAMAGED),
    Subject("convert", ".onnx", convert, None, may_be_unharmed=True),
)


@dataclass(frozen=True)
class Try:
    """One file that is changed once."""

    subject: Subject
    change: Callable[[Path, random.Random], None]
    seed: int

    def command(self, path: Path) -> int:
        """Read the file until it is refused, and change it meanwhile; for a process of its own."""
        rng = random.Random(self.seed)
        changed = threading.Event()

        def change() -> None:
            time.sleep(rng.uniform(0, MOST_SECONDS))
            self.change(path, rng)
            changed.set()

        reading = self.subject.read(path)
        try:
            next(reading)
            threading.Thread(target=change, daemon=True).start()
            end = time.monotonic() + MOST_SECONDS + SETTLED_SECONDS
            while not changed.is_set() or time.monotonic() < end:
                next(reading)
        except AtcError as error:
            if self.subject.codes is None or error.code in self.subject.codes:
                return _RIGHT
            print(error)
        except AssertionError as error:
            print(error)
        else:
            return _UNHARMED
        return _WRONG

    def problem(self, folder: Path, content: bytes) -> str | None:
        """What is wrong with how it ends."""
        path = folder / f"file{self.subject.suffix}"
        path.write_bytes(content)
        code, text = ending_of(lambda: self.command(path))
        if code == _RIGHT or (code == _UNHARMED and self.subject.may_be_unharmed):
            return None
        what = "nobody notices" if code == _UNHARMED else f"exit {code}: {text.strip()[-300:]}"
        return f"{self.subject.name}, {self.change.__name__}, seed {self.seed}: {what}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Try and print what was found; 1 if there are findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.gate.in_place", description=__doc__)
    parser.add_argument("--tries", type=int, default=200, help="files that are changed (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first (default: %(default)s)")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    contents = {".om": package(TEXT), ".onnx": model(TEXT).SerializeToString()}
    counts: Counter[str] = Counter()
    findings: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        for number in range(options.tries):
            subject = SUBJECTS[number % len(SUBJECTS)]
            change = CHANGES[number // len(SUBJECTS) % len(CHANGES)]
            counts[subject.name] += 1
            tried = Try(subject, change, options.seed + number)
            if problem := tried.problem(Path(name), contents[subject.suffix]):
                findings.append(problem)
    for finding in findings[:20]:
        print(finding)
    print(", ".join(f"{name} × {count}" for name, count in counts.items()))
    print(f"{options.tries} changes, {len(findings)} findings, {time.monotonic() - start:.0f} s")
    return 1 if findings or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
