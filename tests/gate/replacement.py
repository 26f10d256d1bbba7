"""Packages that are replaced while others read or write them: each reader gets one of them whole, and nothing is left.

    python -m tests.gate.replacement --rounds 2000

One process converts two models to one file, alternately, while others open and run it. Then two processes convert to
one file at once, round by round: the last wins, whichever it is.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx

import atcpy
from tests.models_in_text import model

READERS = 2
# Large enough that writing takes several system calls.
TEXT = "{name} (float[1,64] x) => (float[1,64] y) <float[64,64] w> {{ a = MatMul(x, w) y = {op}(a) }}"
FEEDS = {"x": np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)}
_FORK = multiprocessing.get_context("fork")


def result_of(package: Path | bytes) -> bytes:
    """What a package computes."""
    return bytes(atcpy.InferenceSession(package, threads=1).run(None, FEEDS)[0].tobytes())


def convert_in_turn(models: Sequence[Path], target: Path, rounds: int) -> None:
    """Convert one model after the other to one file."""
    for number in range(rounds):
        atcpy.convert(models[number % len(models)], target)


class Reading:
    """Processes that read a file until they are stopped."""

    def __init__(self, read: Callable[[], str | None], processes: int) -> None:
        self._stop = _FORK.Event()
        self._pipes = [_FORK.Pipe(duplex=False) for _ in range(processes)]
        self._processes = [_FORK.Process(target=self._run, args=(read, pipe)) for _, pipe in self._pipes]
        for process in self._processes:
            process.start()
        for _, pipe in self._pipes:
            pipe.close()

    def _run(self, read: Callable[[], str | None], pipe: multiprocessing.connection.Connection) -> None:
        reads, findings = 0, list[str]()
        while not self._stop.is_set():
            try:
                problem = read()
            except Exception as error:  # noqa: BLE001  whatever a reader meets is a finding
                problem = f"{type(error).__name__}: {error}"
            reads += 1
            if problem is not None:
                findings.append(problem)
        pipe.send((reads, findings))

    def end(self) -> tuple[int, list[str]]:
        """How many reads there were, and what was wrong with some."""
        self._stop.set()
        found = [pipe.recv() for pipe, _ in self._pipes]
        for process in self._processes:
            process.join()
        return sum(reads for reads, _ in found), [finding for _, findings in found for finding in findings]


def read_while_replaced(models: Sequence[Path], target: Path, rounds: int) -> tuple[int, list[str]]:
    """Readers beside one writer: how many reads, and the findings."""
    results = []
    for source in models:
        atcpy.convert(source, target)
        results.append(result_of(target))
    assert results[0] != results[1]
    reading = Reading(lambda: None if result_of(target) in results else "a result of neither model", READERS)
    convert_in_turn(models, target, rounds)
    return reading.end()


def write_at_once(models: Sequence[Path], target: Path, rounds: int) -> list[str]:
    """Two writers of one file at once: the findings."""
    whole: list[bytes] = []
    for source in models:
        atcpy.convert(source, target)
        whole.append(target.read_bytes())
    findings: list[str] = []
    batch = 10  # conversions of each that overlap; then the file is looked at
    for _ in range(max(rounds // batch, 1)):
        writers = [_FORK.Process(target=convert_in_turn, args=([source], target, batch)) for source in models]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
            if writer.exitcode != 0:
                findings.append(f"a writer ended with {writer.exitcode}")
        if target.read_bytes() not in whole:
            findings.append("the file is of neither writer")
        if litter := [path.name for path in target.parent.iterdir() if path != target]:
            findings.append(f"two writers leave {', '.join(litter)}")
    return findings


def main(arguments: Sequence[str] | None = None) -> int:
    """Try and print what was found; 1 if there are findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.gate.replacement", description=__doc__)
    parser.add_argument("--rounds", type=int, default=500, help="conversions of each kind (default: %(default)s)")
    options = parser.parse_args(arguments)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        models = [root / f"{op}.onnx" for op in ("Relu", "Neg")]
        for path in models:
            onnx.save(model(TEXT.format(name=path.stem, op=path.stem)), path)
        target = root / "out" / "m.om"
        target.parent.mkdir()
        reads, findings = read_while_replaced(models, target, options.rounds)
        findings += write_at_once(models, target, options.rounds)
    for finding in findings[:20]:
        print(finding)
    print(
        f"{reads} reads beside {options.rounds} replacements, {options.rounds} conversions of two writers at once, "
        f"{len(findings)} findings, {time.monotonic() - start:.0f} s"
    )
    return 1 if findings or reads == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
