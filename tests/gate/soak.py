"""Threads that share sessions of many kinds for thousands of runs: results stay the same bits, and memory stays flat.

python -m tests.gate.soak --threads 8 --runs 10000 --seed 1

Some models have tasks that are worth several threads. The pool takes the machine for one of more cores, so that workers
help several runs at the same time, and leave when others begin.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from atcpy import InferenceSession
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from tests.gate.packages import TEXTS, whole
from tests.models_in_text import package

MAX_GROWTH = 32 << 20  # bytes of resident memory, over all runs: arenas of threads that meet a size later than others
SIZES = (1, 2, 3, 5, 8, 17)  # of open dims
THREADS = (2, 3, 4)  # of sessions
# Work for several threads: products, windows, rows, and branches beside each other.
PARALLEL = {
    "product": "m (float[96,128] x, float[128,112] w) => (float[96,112] y) { y = MatMul(x, w) }",
    "conv": "m (float[1,16,24,24] x, float[24,16,3,3] w) => (float[1,24,22,22] y) { t = Conv(x, w) y = Relu(t) }",
    "rows": "m (float[300,256] x) => (float[300,256] y) { y = Softmax(x) }",
    "branches": "m (float[60,256] x) => (float[60,256] a, float[60,256] b, float[60,256] c) "
    "{ p = Softmax(x) a = Exp(p) q = Erf(x) b = Softmax(q) r = Tanh(x) c = Softmax(r) }",
}


@dataclass(frozen=True)
class Job:
    """A session, inputs, and the bytes of the results."""

    name: str
    session: InferenceSession
    feeds: dict[str, Array]
    results: tuple[bytes, ...]


def jobs(seed: int) -> list[Job]:
    """Each package with several inputs; those with open dims with several sizes."""
    rng = np.random.default_rng(seed)
    found: list[Job] = []
    packages = {name: whole(name) for name in TEXTS} | {name: package(text) for name, text in PARALLEL.items()}
    for number, (name, content) in enumerate(packages.items()):
        session = InferenceSession(content, threads=THREADS[number % len(THREADS)])
        for size in SIZES:
            feeds = feeds_of_size(session, size, rng)
            results = tuple(result.tobytes() for result in session.run(None, feeds))
            found.append(Job(name, session, feeds, results))
    return found


def feeds_of_size(session: InferenceSession, size: int, rng: np.random.Generator) -> dict[str, Array]:
    """Random inputs, open dims being of one size; those of the gear that the size chooses, if there are gears."""
    feeds: dict[str, Array] = {}
    for port in session.get_inputs():
        gear = port.gears[size % len(port.gears)] if port.gears else None
        shape = gear or tuple(size if isinstance(dim, str) else dim for dim in port.shape or ())
        numpy = port.dtype.numpy
        is_float = numpy.kind == "f"
        feeds[port.name] = (
            rng.standard_normal(shape).astype(numpy) if is_float else rng.integers(0, 2, shape).astype(numpy)
        )
    return feeds


def resident_bytes() -> int:
    """Resident memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run(threads: int, runs: int, seed: int) -> tuple[int, int, list[str]]:
    """How many runs there were, by how many bytes memory grew, and the findings."""
    work = jobs(seed)

    def thread(number: int, count: int) -> list[str]:
        rng = random.Random(f"{seed} {number}")
        wrong: list[str] = []
        for _ in range(count):
            job = rng.choice(work)
            results = tuple(result.tobytes() for result in job.session.run(None, job.feeds))
            if results != job.results:
                wrong.append(f"{job.name}: other results")
        return wrong

    findings: list[str] = []
    with ThreadPoolExecutor(threads) as pool:
        for wrong in pool.map(thread, range(threads), [max(runs // 10, 50)] * threads):
            findings += wrong
        gc.collect()
        before = resident_bytes()
        for wrong in pool.map(thread, range(threads, 2 * threads), [runs] * threads):
            findings += wrong
        gc.collect()
        growth = resident_bytes() - before
    if growth > MAX_GROWTH:
        findings.append(f"memory grew by {growth >> 20} MB")
    return threads * runs, growth, findings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print what was found; 1 if there are findings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--runs", type=int, default=2_000, help="of each thread")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cores", type=int, default=12, help="that the pool believes to have")
    options = parser.parse_args(arguments)
    _kernels.set_cores(options.cores)
    start = time.monotonic()
    runs, growth, findings = run(options.threads, options.runs, options.seed)
    for finding in sorted(set(findings))[:20]:
        print(finding)
    print(
        f"{runs} runs, memory {growth / (1 << 20):+.1f} MB, {len(findings)} findings, {time.monotonic() - start:.0f} s"
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
