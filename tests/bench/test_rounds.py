import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from atcpy.bench import rounds
from atcpy.bench.rounds import MIN_ROUNDS, compare_medians, compare_rounds, measure, median_interval
from atcpy.bench.sides import Feeds, Side

USERS_ROUND_SECONDS = 0.1


@pytest.fixture(autouse=True)
def _whole_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds as long as those of users; the clock here takes no time."""
    monkeypatch.setattr(rounds, "ROUND_SECONDS", USERS_ROUND_SECONDS)


class Clock:
    """Time that passes only when a side runs."""

    def __init__(self) -> None:
        self.now = 0.0
        self.order = ""

    def __call__(self) -> float:
        return self.now

    def side(self, name: str, *seconds: float, feeds: Feeds | None = None, outputs: Sequence[object] = ()) -> Side:
        """A side whose runs take these times, again and again."""
        times = itertools.cycle(seconds)

        def run() -> Sequence[object]:
            self.now += next(times)
            self.order += name
            return outputs

        return Side(name, "1.2.3", 0.5, feeds or {}, run)


def test_the_sides_are_interleaved() -> None:
    clock = Clock()
    measured = measure([clock.side("a", 0.05), clock.side("b", 0.1)], min_seconds=0, warmup=2, clock=clock)
    # First runs, two warm-ups each, then rounds: one run that is not timed, and as many as fit into 0.1 s.
    # The last one shows the outputs.
    assert clock.order == "ab" + "aa" + "bb" + "aaabb" * MIN_ROUNDS + "a"
    a, b = measured.sides
    assert (a.runs, b.runs) == (2 * MIN_ROUNDS, MIN_ROUNDS)
    assert measured.interleaved_runs == 3 * MIN_ROUNDS
    assert (a.median, a.min, a.p90) == pytest.approx((0.05, 0.05, 0.05))
    assert (a.load, a.first) == pytest.approx((0.5, 0.05))
    assert measured.ratio is not None
    assert measured.ratio.ratio == pytest.approx(2)
    assert measured.ratio.ci == pytest.approx((2, 2))
    assert measured.ratio.verdict == "faster"


def test_each_side_gets_its_time() -> None:
    clock = Clock()
    measured = measure([clock.side("a", 0.01), clock.side("b", 0.01)], min_seconds=3, warmup=1, clock=clock)
    assert all(side.runs * 0.01 >= 2.9 for side in measured.sides)


def test_the_share_that_is_done_grows_to_all() -> None:
    clock, shares = Clock(), list[float]()
    sides = [clock.side("a", 0.05), clock.side("b", 0.05)]
    measure(sides, min_seconds=2, warmup=1, clock=clock, show=shares.append)
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (pytest.approx(0.05), 1.0)
    shares.clear()
    measure(sides, min_seconds=0, warmup=1, clock=clock, show=shares.append)
    assert shares == [pytest.approx((n + 1) / MIN_ROUNDS) for n in range(MIN_ROUNDS)]


def test_one_side_has_no_ratio() -> None:
    clock = Clock()
    assert measure([clock.side("a", 0.01)], min_seconds=0, warmup=1, clock=clock).ratio is None


@pytest.mark.parametrize(
    ("theirs", "verdict"),
    [
        ([1.2, 1.21, 1.19, 1.2, 1.2], "faster"),
        ([0.8, 0.81, 0.79, 0.8, 0.8], "slower"),
        ([1.0, 1.1, 0.9, 1.05, 0.96], "same"),
    ],
)
def test_a_difference_inside_the_noise_is_none(theirs: list[float], verdict: str) -> None:
    ratio = compare_rounds([[1.0]] * 5, [[t] for t in theirs])
    assert ratio.verdict == verdict
    assert ratio.ci[0] <= ratio.ratio <= ratio.ci[1]


def test_what_slows_both_sides_does_not_change_the_ratio() -> None:
    drift = [1.0, 1.5, 2.0, 3.0, 5.0]
    ratio = compare_rounds([[d] for d in drift], [[1.3 * d] for d in drift])
    assert ratio.ratio == pytest.approx(1.3)
    assert ratio.ci == pytest.approx((1.3, 1.3))


def test_each_further_side_has_a_ratio_to_the_first() -> None:
    clock = Clock()
    sides = [clock.side("a", 0.05), clock.side("b", 0.1), clock.side("ort", 0.025)]
    measured = measure(sides, min_seconds=0, warmup=1, clock=clock)
    ratios = [side.ratio for side in measured.sides]
    assert ratios[0] is None
    assert [(ratio.ratio, ratio.verdict) for ratio in ratios if ratio] == [
        (pytest.approx(2), "faster"),
        (pytest.approx(0.5), "slower"),
    ]
    assert measured.ratio == ratios[1]
    assert [(side.name, side.engine, side.version) for side in measured.sides[1:]] == [
        ("b", "b", "1.2.3"),
        ("ort 1.2", "ort", "1.2.3"),
    ]


def test_percentiles_and_rates_are_those_of_all_runs() -> None:
    clock = Clock()
    times = [0.001 * k for k in range(1, 101)]
    outputs = [np.zeros((4, 2)), np.float32(1)]
    side = clock.side("a", *times, feeds={"x": np.zeros((4, 8))}, outputs=outputs)
    measured = measure([side], min_seconds=5.05, warmup=100, clock=clock)
    [found] = measured.sides
    runs = found.runs
    assert runs >= 100
    assert found.median <= found.p90 <= found.p95 <= found.p99 <= 0.1
    assert found.p99 > 0.097
    assert found.ci[0] <= found.median <= found.ci[1]
    assert measured.samples == 4
    assert found.samples_per_second == pytest.approx(4 * found.runs_per_second)


def test_runs_in_a_second_are_those_of_the_mean() -> None:
    clock = Clock()
    # Each round is a run that is not timed, and three that are: 0.03, 0.03, 0.12.
    [side] = measure([clock.side("a", 0.03, 0.03, 0.03, 0.12)], min_seconds=0, warmup=3, clock=clock).sides
    assert side.median == pytest.approx(0.03)
    assert side.runs_per_second == pytest.approx(1 / 0.06)


@pytest.mark.parametrize(
    ("feeds", "outputs", "samples"),
    [
        ([(4, 3), (4,), ()], [(4, 10), ()], 4),
        ([(4, 3), (2,)], [(4, 10)], None),
        ([(28, 28)], [(1, 10)], None),
        ([()], [()], None),
    ],
)
def test_samples_are_counted_where_axis_0_is_the_same_everywhere(
    feeds: list[tuple[int, ...]], outputs: list[tuple[int, ...]], samples: int | None
) -> None:
    clock = Clock()
    named = {str(number): np.zeros(shape) for number, shape in enumerate(feeds)}
    side = clock.side("a", 0.1, feeds=named, outputs=[np.zeros(shape) for shape in outputs])
    measured = measure([side], min_seconds=0, warmup=1, clock=clock)
    assert measured.samples == samples
    assert (measured.sides[0].samples_per_second is None) == (samples is None)


def test_the_interval_of_a_median_holds_it_in_95_of_100_cases() -> None:
    samples = np.random.default_rng(0).exponential(size=(20, 4000))
    low, high = median_interval(samples)
    held = float(np.mean((low <= np.log(2)) & (np.log(2) <= high)))
    assert 0.94 < held < 0.98
    assert median_interval(np.array([3.0])) == (3.0, 3.0)


@pytest.mark.parametrize(
    ("now", "before", "noise", "verdict"),
    [
        ((1.0, 1.1), (1.2, 1.3), 0.01, "faster"),
        ((1.0, 1.1), (1.2, 1.3), 0.10, "same"),
        ((1.0, 1.1), (1.05, 1.3), 0.01, "same"),
        ((1.2, 1.3), (1.0, 1.1), 0.01, "slower"),
    ],
)
def test_medians_of_two_processes_differ_where_their_intervals_do(
    now: tuple[float, float], before: tuple[float, float], noise: float, verdict: str
) -> None:
    ratio = compare_medians(sum(now) / 2, now, sum(before) / 2, before, noise)
    assert ratio.verdict == verdict
    assert ratio.ratio == pytest.approx(sum(before) / sum(now))
    assert ratio.ci == pytest.approx((before[0] / now[1], before[1] / now[0]))
