"""Time runs with a profile and without, in alternating rounds, and what a run without one costs beside it.

    python benchmarks/profiling.py [--rounds 200] [--threads 1] [MODEL.onnx …]

Each line shows the microseconds of a run without a profile and with one: the quarter of the rounds that were fastest,
on average, since what else the machine does only adds to the others.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from feeds import feeds_for

import atcpy

MIN_ROUND_SECONDS = 0.004


def time_of(run: Callable[[], object], count: int) -> float:
    """Seconds of a run, of `count` runs."""
    start = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - start) / count


def measure(path: Path, rounds: int, threads: int) -> str:
    """The line of a model."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "model.om"
        atcpy.convert(path, package)
        session = atcpy.InferenceSession(package, threads=threads)
        feeds = feeds_for(path)

        def plain() -> object:
            return session.run(None, feeds)

        profile = atcpy.Profile()

        def profiled() -> object:
            return session.run(None, feeds, profile=profile)

        for run in (plain, profiled):
            run()
        count = max(1, round(MIN_ROUND_SECONDS / time_of(plain, 3)))
        off: list[float] = []
        on: list[float] = []
        for _ in range(rounds):
            off.append(time_of(plain, count))
            profile = atcpy.Profile()
            on.append(time_of(profiled, count))
        fastest_off, fastest_on = (statistics.fmean(sorted(times)[: max(1, rounds // 4)]) for times in (off, on))
        tasks = len(session.tasks)
    figures = f"{fastest_off * 1e6:10.2f} {fastest_on * 1e6:10.2f} {fastest_on / fastest_off - 1:+8.2%}"
    return f"{path.stem:24} {tasks:5} {figures}"


def main() -> None:
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("models", nargs="*", type=Path, default=[Path("models/digits/digits.onnx")])
    arguments = parser.parse_args()
    print(f"{'model':24} tasks    off, µs     on, µs       on")
    for path in arguments.models:
        print(measure(path, arguments.rounds, arguments.threads))


if __name__ == "__main__":
    main()
