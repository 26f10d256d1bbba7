"""How long packages take to open and how much memory they need, beside ONNX Runtime, each in fresh processes.

    python benchmarks/load_times.py models/generated/resnet50.onnx … [--feeds DIR]

Prints a table in Markdown. Opening is InferenceSession() of a file that is in the page cache, in a process that has
imported all that this needs; atcpy imports some of its modules for some packages only, so that the first opening of a
process has a column of its own. Memory is the peak of a process that opens the model and runs it, with all that Python
and the engine's packages need. Each time is the shortest of some processes. Exit status 1 if a package takes longer
than a fifth of ONNX Runtime's time and 2 ms, or more memory than ONNX Runtime.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from bounds import end_with_bounds
from engines import ENGINES
from feeds import load_feeds

from atcpy.errors import AtcError

OURS, THEIRS = "atcpy", "onnxruntime"
SHARE, FREE_S = 1 / 5, 2e-3  # of ONNX Runtime's time, and what needs no comparison


class OpeningError(Exception):
    """An engine could not open or run the model."""


@dataclass(frozen=True)
class Opening:
    """The shortest times and the least peak of some processes; `importing_s` is an opening with its imports."""

    open_s: float
    importing_s: float
    first_run_s: float
    peak_bytes: int


@dataclass(frozen=True)
class Row:
    """Both engines on a model; `theirs` is None where ONNX Runtime does not run it."""

    model: str
    ours: Opening
    theirs: Opening | None

    @property
    def misses(self) -> list[str]:
        """Which bounds the package does not keep."""
        if self.theirs is None:
            return []
        missed = []
        if self.ours.open_s > max(SHARE * self.theirs.open_s, FREE_S):
            missed.append("load")
        if self.ours.peak_bytes > self.theirs.peak_bytes:
            missed.append("memory")
        return missed


def measure(engine: str, path: Path, threads: int, feeds_file: Path, processes: int) -> Opening:
    """Open a file in some processes, one after the other. Raises OpeningError."""
    script = Path(__file__).with_name("opening.py")
    command = [sys.executable, str(script), engine, str(path), str(threads), str(feeds_file)]
    first = _run(command)
    found = [_run([*command, *first["imported"]]) for _ in range(processes)]
    open_s, first_run_s, peak = (min(each[key] for each in found) for key in ("open_s", "first_run_s", "peak_bytes"))
    return Opening(open_s, first["open_s"], first_run_s, int(peak))


def _run(command: Sequence[str]) -> dict[str, Any]:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise OpeningError(ended.stderr.strip().rpartition("\n")[2])
    measured: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return measured


def compare(model: Path, feeds: Path | None, threads: int, processes: int) -> Row:
    """Convert a model and measure both. Raises OpeningError if the package does not run."""
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder) / "feeds.npz"
        np.savez(inputs, **load_feeds(model, feeds))
        package = ENGINES[OURS].prepare(model, Path(folder))
        ours = measure(OURS, package, threads, inputs, processes)
        try:
            theirs = measure(THEIRS, model, threads, inputs, processes)
        except OpeningError:
            theirs = None
    return Row(model.stem, ours, theirs)


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The rows in Markdown."""
    head = ("load, ms", "ORT, ms", "ratio", "with imports, ms", "first run, ms", "ORT, ms", "peak, MB", "ORT, MB")
    yield f"| model | {' | '.join(head)} | missed |"
    yield "| --- |" + " ---: |" * len(head) + " --- |"
    for row in rows:
        yield _line(row)


def _line(row: Row) -> str:
    ours, theirs = row.ours, row.theirs
    ratio = "-" if theirs is None else f"{ours.open_s / theirs.open_s:.2f}"
    loads = (f"{1e3 * ours.open_s:.2f}", _ms(theirs and theirs.open_s), ratio, f"{1e3 * ours.importing_s:.1f}")
    runs = (f"{1e3 * ours.first_run_s:.2f}", _ms(theirs and theirs.first_run_s))
    peaks = (f"{ours.peak_bytes / 1e6:.0f}", "-" if theirs is None else f"{theirs.peak_bytes / 1e6:.0f}")
    return f"| `{row.model}` | {' | '.join((*loads, *runs, *peaks))} | {', '.join(row.misses)} |"


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.2f}"


def main(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL.onnx...", exists=True, dir_okay=False)],
    feeds: Annotated[Path | None, typer.Option(help="folder of inputs: MODEL.npz, or MODEL.*.npz with in/NAME")] = None,
    threads: Annotated[int, typer.Option(min=1, help="threads of the sessions")] = 1,
    processes: Annotated[int, typer.Option(min=1, help="processes for each engine and model")] = 3,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the figures to this file")] = None,
) -> None:
    """Compares the opening of packages with ONNX Runtime's."""
    rows: list[Row] = []
    print("\n".join(table([])))
    for model in models:
        try:
            rows.append(compare(model, feeds, threads, processes))
        except (AtcError, OpeningError) as error:
            print(f"{model.stem}: {error}", file=sys.stderr)
        else:
            print(_line(rows[-1]), flush=True)
    end_with_bounds(rows, json_file)


if __name__ == "__main__":
    typer.run(main)
