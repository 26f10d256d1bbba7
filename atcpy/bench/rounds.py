"""Interleaved timing, A B A B …, so that machine noise affects both sides equally.

In a round each side first runs once without being timed (caches, clock, the other side's threads), and then as often as
fits. A ratio compares the two sides of a round; its confidence interval is a bootstrap over the rounds.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from atcpy.bench.sides import Feeds, Side

ROUND_SECONDS = 0.1
MIN_ROUNDS = 5
CONFIDENCE = 0.95
NOISE = 0.01  # the difference between two runs of one program on a quiet machine
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
    """How many times faster the first side is; `verdict` is `faster`, `slower`, or `same` within the noise."""

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
    show: Callable[[float], object] = lambda share: None,
) -> Measured:
    """Time the sides in rounds until each has had `min_seconds` and at least MIN_ROUNDS rounds. `show` is called with
    the share of that which is done.
    """
    first = [_time(side, feeds, clock) for side in sides]
    typical = [min(_time(side, feeds, clock) for _ in range(max(1, warmup))) for side in sides]
    counts = [max(1, round(ROUND_SECONDS / max(seconds, 1e-9))) for seconds in typical]
    rounds: list[list[list[float]]] = [[] for _ in sides]
    spent = 0.0
    while spent < min_seconds * len(sides) or len(rounds[-1]) < MIN_ROUNDS:
        for side, count, side_rounds in zip(sides, counts, rounds, strict=True):
            check()
            side.run(feeds)
            side_rounds.append([_time(side, feeds, clock) for _ in range(count)])
            spent += sum(side_rounds[-1])
        show(min(spent / max(min_seconds * len(sides), 1e-9), len(rounds[-1]) / MIN_ROUNDS, 1.0))
    times = tuple(_summary(side, side_rounds, f) for side, side_rounds, f in zip(sides, rounds, first, strict=True))
    ratio = compare_rounds(rounds[0], rounds[1]) if len(sides) > 1 else None
    return Measured(times, ratio, sum(len(round_) for side_rounds in rounds for round_ in side_rounds))


def _time(side: Side, feeds: Feeds, clock: Callable[[], float]) -> float:
    started = clock()
    side.run(feeds)
    return clock() - started


def _summary(side: Side, rounds: Sequence[Sequence[float]], first: float) -> SideTimes:
    seconds = np.concatenate([np.asarray(round_) for round_ in rounds])
    median, p90 = (float(np.percentile(seconds, q)) for q in (50, 90))
    return SideTimes(side.name, median, p90, float(seconds.min()), side.load_seconds, first, seconds.size)


def compare_rounds(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> Ratio:
    """The median over the rounds of their median time divided by ours."""
    ratios = np.array([np.median(b) / np.median(a) for a, b in zip(first, second, strict=True)])
    rng = np.random.default_rng(0)
    resampled = np.median(rng.choice(ratios, (_RESAMPLES, ratios.size)), axis=1)
    low, high = (float(np.quantile(resampled, q)) for q in ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    verdict = "faster" if low > 1 + NOISE else "slower" if high < 1 - NOISE else "same"
    return Ratio(float(np.median(ratios)), (low, high), verdict)
