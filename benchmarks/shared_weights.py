"""Measure the memory of several sessions and several processes that run one package (Linux).

    python benchmarks/shared_weights.py bert_base.om

Each line is a set of processes of their own, each of which has run all of its sessions once: the megabytes that are
resident in a process (RSS), those of all processes together where shared pages count once (PSS), and the milliseconds
that opening the last session took. What Python and the extension need is subtracted.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path

import numpy as np

import atcpy

CASES = ((1, 1, True), (2, 1, True), (1, 2, True), (1, 1, False), (2, 1, False))  # sessions, processes, mapped


@dataclass(frozen=True)
class Usage:
    """Megabytes of a process, and the time to open its last session."""

    rss: float
    pss: float
    open_ms: float


def usage() -> Mapping[str, float]:
    """Megabytes by the names of the kernel."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    return {name: int(value.split()[0]) / 1024 for name, value in (line.split(":") for line in lines)}


def measure(package: str, sessions: int, mmap: bool, barrier: Barrier, results: multiprocessing.Queue[Usage]) -> None:
    """Run the sessions of one process."""
    before = usage()
    opened = []
    for _ in range(sessions):
        start = time.perf_counter()
        opened.append(atcpy.InferenceSession(package, threads=1, mmap=mmap))
        open_ms = 1e3 * (time.perf_counter() - start)
    for session in opened:
        session.run(None, {port.name: np.zeros(port.shape, port.dtype.numpy) for port in session.get_inputs()})
    barrier.wait()
    after = usage()
    barrier.wait()  # pages count as shared as long as the others have them
    results.put(Usage(after["Rss"] - before["Rss"], after["Pss"] - before["Pss"], open_ms))


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", help="a package of fixed shapes")
    package = parser.parse_args().package
    context = multiprocessing.get_context("spawn")
    print("sessions  processes  mmap    RSS MB  PSS MB, all  open ms")
    for sessions, processes, mmap in CASES:
        barrier, results = context.Barrier(processes), context.Queue()
        arguments = (package, sessions, mmap, barrier, results)
        workers = [context.Process(target=measure, args=arguments) for _ in range(processes)]
        for worker in workers:
            worker.start()
        found = [results.get() for _ in workers]
        for worker in workers:
            worker.join()
        rss, pss = max(each.rss for each in found), sum(each.pss for each in found)
        open_ms = min(each.open_ms for each in found)
        print(f"{sessions:8}  {processes:9}  {'yes' if mmap else 'no':4}  {rss:8.0f}  {pss:11.0f}  {open_ms:7.1f}")


if __name__ == "__main__":
    main()
