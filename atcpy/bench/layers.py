"""Time by task: which layer takes how long, on which kernel."""

from dataclasses import dataclass

import numpy as np

from atcpy import InferenceSession
from atcpy.bench.sides import Feeds

PROFILES = 20


@dataclass(frozen=True, slots=True)
class LayerTime:
    """A task: its median time, its share of the sum, and the model's nodes that it stands for."""

    task: int
    op: str
    nodes: tuple[str, ...]
    kernel: str
    engine: str
    median: float
    share: float


def time_layers(session: InferenceSession, feeds: Feeds, profiles: int = PROFILES) -> list[LayerTime]:
    """Each task's median over some runs, in order of execution; the first run is left out. Tasks of the body of a loop
    are added up.
    """
    tasks = [item.task for item in session.profile(feeds)]
    medians = np.median([[item.seconds for item in session.profile(feeds)] for _ in range(profiles)], axis=0)
    total = float(medians.sum()) or 1.0
    return [
        LayerTime(i, t.op_type, t.sources or (t.node,), t.kernel, t.engine, float(seconds), float(seconds) / total)
        for i, (t, seconds) in enumerate(zip(tasks, medians, strict=True))
    ]
