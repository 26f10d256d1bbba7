"""Time a session that several threads use at the same time.

    python benchmarks/concurrency.py PACKAGE.om … [--callers 1,2,4] [--threads 1,2] [--seconds 1] [--rounds 3]

Each line shows, for so many callers of one session with so many threads, the runs a second of all callers together (the
best of the rounds), how many times those of one caller that is, and the median and the 99th percentile of a run.
"""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path

import numpy as np

from atcpy import InferenceSession


def feeds_of(session: InferenceSession) -> dict[str, np.ndarray]:
    """Random inputs; open dims are 1."""
    rng = np.random.default_rng(0)
    feeds = {}
    for port in session.get_inputs():
        shape = tuple(dim if isinstance(dim, int) else 1 for dim in port.shape or ())
        numpy = port.dtype.numpy
        values = rng.standard_normal(shape) if numpy.kind == "f" else rng.integers(0, 2, shape)
        feeds[port.name] = values.astype(numpy)
    return feeds


def measure(session: InferenceSession, callers: int, seconds: float) -> tuple[float, list[float]]:
    """Runs a second of all callers, and how long each run took in milliseconds."""
    feeds = feeds_of(session)
    times: list[list[float]] = [[] for _ in range(callers)]
    start = threading.Barrier(callers)

    def call(own: list[float]) -> None:
        for _ in range(3):
            session.run(None, feeds)
        start.wait()
        end = time.perf_counter() + seconds
        before = time.perf_counter()
        while before < end:
            session.run(None, feeds)
            now = time.perf_counter()
            own.append(1e3 * (now - before))
            before = now

    threads = [threading.Thread(target=call, args=(own,)) for own in times]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = sum(1e3 * len(own) / sum(own) for own in times)
    return rate, [one for own in times for one in own]


def main() -> None:
    """Measure all packages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="+", type=Path)
    parser.add_argument("--callers", default="1,2,4")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"{'package':24} {'threads':>7} {'callers':>7} {'runs/s':>10} {'of one':>7} {'median ms':>10} {'p99 ms':>8}")
    for path in options.packages:
        for threads in map(int, options.threads.split(",")):
            session, one = InferenceSession(path, threads=threads), 0.0
            for callers in map(int, options.callers.split(",")):
                rounds = [measure(session, callers, options.seconds) for _ in range(options.rounds)]
                rate, times = max(rounds, key=lambda round_: round_[0])
                one = one or rate
                median, late = np.percentile(times, [50, 99])
                head = f"{path.stem:24} {threads:7} {callers:7}"
                line = f"{head} {rate:10.1f} {rate / one:6.2f}x {median:10.3f} {late:8.3f}"
                print(line, flush=True)


if __name__ == "__main__":
    main()
