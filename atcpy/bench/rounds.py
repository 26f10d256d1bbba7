"""Interleaved timing, A B C A B C …, so that machine noise affects all sides equally.

In a round each side first runs once without being timed (caches, clock, the other sides' threads), and then as often as
fits. A ratio compares the first side with another one of the same round; its confidence interval is a bootstrap over
the rounds. Medians of different processes have no rounds in common: their ratio is compared by the interval of each.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from atcpy.bench.sides import Side

ROUND_SECONDS = 0.1
MIN_ROUNDS = 5
CONFIDENCE = 0.95
NOISE = 0.01  # the difference between two runs of one program on a quiet machine
LAYER_NOISE = 0.05  # the same of a task, beyond its confidence interval: a step of the clock is 6 % of a short one
_RESAMPLES = 2000
_DEVIATIONS = 1.96  # of a normal distribution, which have CONFIDENCE between them


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times faster the first side is; `verdict` is `faster`, `slower`, or `same` within the noise."""

    ratio: float
    ci: tuple[float, float]
    verdict: str


@dataclass(frozen=True, slots=True)
class SideTimes:
    """One side's seconds: `first` is the first run after loading, before any warm-up; `ci` is the confidence interval
    of the median. `ratio` says how many times faster the first side is than this one; the first has none.
    `samples_per_second` is None if it is not known how many samples a run takes.
    """

    name: str
    engine: str
    version: str
    median: float
    ci: tuple[float, float]
    p90: float
    p95: float
    p99: float
    min: float
    load: float
    first: float
    runs: int
    runs_per_second: float
    samples_per_second: float | None
    ratio: Ratio | None


@dataclass(frozen=True, slots=True)
class Measured:
    """The sides in order. `samples` is the size of axis 0 that all inputs and outputs have in common, if they do."""

    sides: tuple[SideTimes, ...]
    samples: int | None
    interleaved_runs: int

    @property
    def ratio(self) -> Ratio | None:
        """The first side against the second, if there are two."""
        return self.sides[1].ratio if len(self.sides) > 1 else None


def measure(
    sides: Sequence[Side],
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
    first = [_time(side, clock) for side in sides]
    typical = [min(_time(side, clock) for _ in range(max(1, warmup))) for side in sides]
    counts = [max(1, round(ROUND_SECONDS / max(seconds, 1e-9))) for seconds in typical]
    rounds: list[list[list[float]]] = [[] for _ in sides]
    spent = 0.0
    while spent < min_seconds * len(sides) or len(rounds[-1]) < MIN_ROUNDS:
        for side, count, side_rounds in zip(sides, counts, rounds, strict=True):
            check()
            side.run()
            side_rounds.append([_time(side, clock) for _ in range(count)])
            spent += sum(side_rounds[-1])
        show(min(spent / max(min_seconds * len(sides), 1e-9), len(rounds[-1]) / MIN_ROUNDS, 1.0))
    samples = _common_axis([*sides[0].feeds.values(), *sides[0].run()])
    times = tuple(
        _summary(side, side_rounds, first_run, samples, compare_rounds(rounds[0], side_rounds) if number else None)
        for number, (side, side_rounds, first_run) in enumerate(zip(sides, rounds, first, strict=True))
    )
    return Measured(times, samples, sum(len(round_) for side_rounds in rounds for round_ in side_rounds))


def _common_axis(arrays: Sequence[object]) -> int | None:
    """The size of axis 0 that all arrays with axes have in common, None if they differ."""
    sizes = {np.shape(array)[0] for array in arrays if isinstance(array, np.ndarray) and array.ndim}
    return int(sizes.pop()) if len(sizes) == 1 else None


def _time(side: Side, clock: Callable[[], float]) -> float:
    started = clock()
    side.run()
    return clock() - started


def _summary(
    side: Side, rounds: Sequence[Sequence[float]], first: float, samples: int | None, ratio: Ratio | None
) -> SideTimes:
    seconds = np.concatenate([np.asarray(round_) for round_ in rounds])
    median, p90, p95, p99 = (float(np.percentile(seconds, q)) for q in (50, 90, 95, 99))
    low, high = median_interval(np.array([np.median(round_) for round_ in rounds]))
    rate = float(seconds.size / seconds.sum())
    return SideTimes(
        name=side.name,
        engine=side.engine,
        version=side.version,
        median=median,
        ci=(min(float(low), median), max(float(high), median)),
        p90=p90,
        p95=p95,
        p99=p99,
        min=float(seconds.min()),
        load=side.load_seconds,
        first=first,
        runs=seconds.size,
        runs_per_second=rate,
        samples_per_second=None if samples is None else samples * rate,
        ratio=ratio,
    )


def median_interval(samples: Any) -> tuple[Any, Any]:
    """The confidence interval of the median along axis 0 by order statistics, which assume no distribution."""
    count = len(samples)
    below = max(0, math.floor((count - _DEVIATIONS * math.sqrt(count)) / 2))
    ordered = np.sort(samples, axis=0)
    return ordered[below], ordered[count - 1 - below]


def compare_rounds(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> Ratio:
    """The median over the rounds of their median time divided by ours."""
    ratios = np.array([np.median(b) / np.median(a) for a, b in zip(first, second, strict=True)])
    rng = np.random.default_rng(0)
    resampled = np.median(rng.choice(ratios, (_RESAMPLES, ratios.size)), axis=1)
    low, high = (float(np.quantile(resampled, q)) for q in ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    return Ratio(float(np.median(ratios)), (low, high), _verdict(low, high))


def compare_medians(
    first: float, first_ci: tuple[float, float], second: float, second_ci: tuple[float, float], noise: float
) -> Ratio:
    """The second median divided by the first, which were not measured in turns: the interval has all that both of
    theirs allow.
    """
    low, high = second_ci[0] / first_ci[1], second_ci[1] / first_ci[0]
    return Ratio(second / first, (low, high), _verdict(low, high, noise))


def _verdict(low: float, high: float, noise: float = NOISE) -> str:
    return "faster" if low > 1 + noise else "slower" if high < 1 - noise else "same"
