"""Time by task: which layer takes how long, on which kernel, against what the machine allows and on more threads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from atcpy import InferenceSession
from atcpy.bench.rounds import median_interval
from atcpy.bench.sides import Feeds
from atcpy.runtime.profile import TaskTime
from atcpy.runtime.roofline import Roofline

PROFILES = 20
SIMULATED_THREADS: Final = (2, 4, 8, 16, 32, 64)  # which this machine need not have


@dataclass(frozen=True, slots=True)
class BusyThreads:
    """How many of so many threads are busy on average while a task runs, by its items and how the pool deals them
    out, if each takes equally long.
    """

    threads: int
    busy: float


@dataclass(frozen=True, slots=True)
class LayerTime:
    """A task: its median time in a run with the confidence interval `ci`, its share of the sum, and the model's nodes
    that it stands for. `floor`: the seconds that it takes at least by the peaks of the machine, and `roofline` their
    share of its time, None if that is not known. Bytes and `flops`, None for a task that sums no products, are those of
    a run, too. `work` is what its kernel's family estimates, in element operations, of a run; `items` the parts that
    threads share. `busy_threads` has the number of threads that ran it, and those that are simulated.
    """

    task: int
    op: str
    nodes: tuple[str, ...]
    kernel: str
    engine: str
    median: float
    ci: tuple[float, float]
    share: float
    floor: float | None
    roofline: float | None
    read_bytes: int
    written_bytes: int
    gbytes_per_second: float
    flops: int | None
    gflops_per_second: float | None
    work: int
    items: int
    busy_threads: tuple[BusyThreads, ...]


def time_layers(
    session: InferenceSession, feeds: Feeds, profiles: int = PROFILES, roofline: Roofline | None = None
) -> list[LayerTime]:
    """Each task's median over some runs, in order of execution; the first run is left out. Tasks of the body of a loop
    are added up.
    """
    times = session.profile(feeds)
    seconds = np.array([[item.seconds for item in session.profile(feeds)] for _ in range(profiles)])
    medians, (lows, highs) = np.median(seconds, axis=0), median_interval(seconds)
    total = float(medians.sum()) or 1.0
    counts = sorted({session.threads, *SIMULATED_THREADS})
    return [
        _layer(number, item, float(median), (float(low), float(high)), total, roofline, counts)
        for number, (item, median, low, high) in enumerate(zip(times, medians, lows, highs, strict=True))
    ]


def idle_share(layers: Sequence[LayerTime], threads: int, of_threads: int) -> float:
    """The share of the time of `of_threads` threads that they would wait in, by the times that `threads` took, whose
    tasks follow each other.
    """
    busy = [{each.threads: each.busy for each in layer.busy_threads} for layer in layers]
    alone = [layer.median * of[threads] for layer, of in zip(layers, busy, strict=True)]
    together = sum(seconds / of[of_threads] for seconds, of in zip(alone, busy, strict=True))
    return 1 - sum(alone) / (of_threads * together) if together > 0 else 0.0


def _layer(
    number: int, time: TaskTime, median: float, ci: tuple[float, float], total: float, roofline: Roofline | None,
    thread_counts: Sequence[int],
) -> LayerTime:  # fmt: skip
    task, cost, runs = time.task, time.cost, time.runs
    floor = None if roofline is None else roofline.floor_seconds(cost)
    flops = None if cost.flops is None else runs * cost.flops
    return LayerTime(
        number,
        task.op_type,
        task.sources or (task.node,),
        task.kernel,
        task.engine,
        median,
        ci,
        median / total,
        floor=None if floor is None else runs * floor,
        roofline=None if floor is None or median <= 0 else runs * floor / median,
        read_bytes=runs * cost.read_bytes,
        written_bytes=runs * cost.written_bytes,
        gbytes_per_second=runs * cost.bytes * 1e-9 / median if median > 0 else 0.0,
        flops=flops,
        gflops_per_second=None if flops is None or median <= 0 else flops * 1e-9 / median,
        work=runs * cost.work,
        items=cost.items,
        busy_threads=tuple(BusyThreads(threads, cost.busy_threads(threads)) for threads in thread_counts),
    )
