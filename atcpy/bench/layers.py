"""Time by task: which layer takes how long, on which kernel."""

from dataclasses import dataclass

import numpy as np

from atcpy import InferenceSession
from atcpy.bench.rounds import median_interval
from atcpy.bench.sides import Feeds
from atcpy.runtime.profile import TaskTime
from atcpy.runtime.roofline import Roofline

PROFILES = 20


@dataclass(frozen=True, slots=True)
class LayerTime:
    """A task: its median time in a run with the confidence interval `ci`, its share of the sum, and the model's nodes
    that it stands for. `floor`: the seconds that it takes at least by the peaks of the machine, None if that is not
    known. Bytes and `flops`, None for a task that sums no products, are those of a run, too.
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
    read_bytes: int
    written_bytes: int
    flops: int | None


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
    return [
        _layer(number, item, float(median), (float(low), float(high)), float(median) / total, roofline)
        for number, (item, median, low, high) in enumerate(zip(times, medians, lows, highs, strict=True))
    ]


def _layer(
    number: int, time: TaskTime, median: float, ci: tuple[float, float], share: float, roofline: Roofline | None
) -> LayerTime:
    task, cost, runs = time.task, time.cost, time.runs
    floor = None if roofline is None else roofline.floor_seconds(cost)
    return LayerTime(
        number,
        task.op_type,
        task.sources or (task.node,),
        task.kernel,
        task.engine,
        median,
        ci,
        share,
        floor=None if floor is None else runs * floor,
        read_bytes=runs * cost.read_bytes,
        written_bytes=runs * cost.written_bytes,
        flops=None if cost.flops is None else runs * cost.flops,
    )
