"""Measures the parameters of the cost model of collectives between the ranks that run.

`mpiexec -n 2 python -m mpi4py -m atcpy.runtime.distributed.network` prints them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from statistics import median

import numpy as np

from atcpy.ops.collectives import WORLD
from atcpy.options import Network
from atcpy.runtime.distributed.world import World

_BYTES = 1 << 20  # of which the sums stay in the cache
_ROUNDS = 50
_WIDTH = 1024  # of a product of matrices
_MAX_WAIT_SECONDS = 60.0


def measure_network(world: World) -> Network:
    """Fit the parameters to the times of short and of long allreduces; every rank takes part."""
    rounds, share = (world.ranks - 1).bit_length(), (world.ranks - 1) / world.ranks
    short, long = np.zeros(1, np.float32), np.zeros(_BYTES // 4, np.float32)
    first = _seconds(lambda: world.all_reduce(short, "sum", WORLD))
    last = _seconds(lambda: world.all_reduce(long, "sum", WORLD))
    gamma = _seconds(lambda: np.add(long, long, out=long)) / _BYTES
    per_byte = max(0.0, last - first) / _BYTES
    square = np.ones((_WIDTH, _WIDTH), np.float32)
    speed = _WIDTH**3 / _seconds(lambda: np.matmul(square, square), 5)
    return Network(first / rounds, max(0.0, (per_byte / share - gamma) / 2), gamma, world.ranks, speed)


def _seconds(work: Callable[[], object], rounds: int = _ROUNDS) -> float:
    """Median time over many rounds."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return median(times)


def main() -> None:
    """Print the measured parameters on rank 0 of MPI."""
    from atcpy.runtime.distributed.mpi_world import MpiWorld

    world = MpiWorld({}, _MAX_WAIT_SECONDS, lambda error: os._exit(error.exit_code))
    network = measure_network(world)
    if world.rank == 0:
        sys.stdout.write(json.dumps(asdict(network)) + "\n")


if __name__ == "__main__":
    main()
