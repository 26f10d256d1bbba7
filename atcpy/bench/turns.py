"""Timing in turns: A B A B …, so that what happens on the machine happens to both sides.

A turn begins with a run that is not timed (caches, clock, the other side's threads), then times as many runs as fit.
A ratio compares turns that were neighbours in time; its confidence interval is a bootstrap over the turns.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from atcpy.bench.sides import Feeds, Side

TURN_SECONDS = 0.1
MIN_TURNS = 5
CONFIDENCE = 0.95
NOISE = 0.01  # what two runs of one program differ by on a quiet machine
_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class SideTimes:
    """One side's seconds: `first` is the first run after loading, before any warm-up."""

    name: str
    median: float
    p90: float
    min: float
    load: float
    first: float
    runs: int


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times faster the first side is; `verdict` is `faster`, `slower`, or `same` inside the noise."""

    ratio: float
    ci: tuple[float, float]
    verdict: str


@dataclass(frozen=True, slots=True)
class Measured:
    """The sides in order, and the first against the second if there are two."""

    sides: tuple[SideTimes, ...]
    ratio: Ratio | None
    interleaved_runs: int


def measure(
    sides: Sequence[Side],
    feeds: Feeds,
    *,
    min_seconds: float,
    warmup: int,
    clock: Callable[[], float] = time.perf_counter,
    check: Callable[[], None] = lambda: None,
) -> Measured:
    """Time the sides in turns until each has had `min_seconds` and at least MIN_TURNS turns."""
    first = [_time(side, feeds, clock) for side in sides]
    typical = [min(_time(side, feeds, clock) for _ in range(max(1, warmup))) for side in sides]
    counts = [max(1, round(TURN_SECONDS / max(seconds, 1e-9))) for seconds in typical]
    turns: list[list[list[float]]] = [[] for _ in sides]
    spent = 0.0
    while spent < min_seconds * len(sides) or len(turns[-1]) < MIN_TURNS:
        for side, count, kept in zip(sides, counts, turns, strict=True):
            check()
            side.run(feeds)
            kept.append([_time(side, feeds, clock) for _ in range(count)])
            spent += sum(kept[-1])
    times = tuple(_summary(side, kept, f) for side, kept, f in zip(sides, turns, first, strict=True))
    ratio = compare_turns(turns[0], turns[1]) if len(sides) > 1 else None
    return Measured(times, ratio, sum(len(turn) for kept in turns for turn in kept))


def _time(side: Side, feeds: Feeds, clock: Callable[[], float]) -> float:
    started = clock()
    side.run(feeds)
    return clock() - started


def _summary(side: Side, turns: Sequence[Sequence[float]], first: float) -> SideTimes:
    seconds = np.concatenate([np.asarray(turn) for turn in turns])
    median, p90 = (float(np.percentile(seconds, q)) for q in (50, 90))
    return SideTimes(side.name, median, p90, float(seconds.min()), side.load_seconds, first, seconds.size)


def compare_turns(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> Ratio:
    """The median over the turns of their median time over ours."""
    ratios = np.array([np.median(b) / np.median(a) for a, b in zip(ours, theirs, strict=True)])
    rng = np.random.default_rng(0)
    resampled = np.median(rng.choice(ratios, (_RESAMPLES, ratios.size)), axis=1)
    low, high = (float(np.quantile(resampled, q)) for q in ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    verdict = "faster" if low > 1 + NOISE else "slower" if high < 1 - NOISE else "same"
    return Ratio(float(np.median(ratios)), (low, high), verdict)
