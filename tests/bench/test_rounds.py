import pytest

from atcpy.bench.rounds import MIN_ROUNDS, compare_rounds, measure
from atcpy.bench.sides import Side


class Clock:
    """Time that passes only when a side runs."""

    def __init__(self) -> None:
        self.now = 0.0
        self.order = ""

    def __call__(self) -> float:
        return self.now

    def side(self, name: str, seconds: float) -> Side:
        def run(feeds: object) -> None:
            self.now += seconds
            self.order += name

        return Side(name, 0.5, run)


def test_the_sides_are_interleaved() -> None:
    clock = Clock()
    measured = measure([clock.side("a", 0.05), clock.side("b", 0.1)], {}, min_seconds=0, warmup=2, clock=clock)
    # First runs, two warm-ups each, then rounds: one run that is not timed, and as many as fit into 0.1 s.
    assert clock.order == "ab" + "aa" + "bb" + "aaabb" * MIN_ROUNDS
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
    measured = measure([clock.side("a", 0.01), clock.side("b", 0.01)], {}, min_seconds=3, warmup=1, clock=clock)
    assert all(side.runs * 0.01 >= 2.9 for side in measured.sides)


def test_the_share_that_is_done_grows_to_all() -> None:
    clock, shares = Clock(), list[float]()
    sides = [clock.side("a", 0.05), clock.side("b", 0.05)]
    measure(sides, {}, min_seconds=2, warmup=1, clock=clock, show=shares.append)
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (pytest.approx(0.05), 1.0)
    shares.clear()
    measure(sides, {}, min_seconds=0, warmup=1, clock=clock, show=shares.append)
    assert shares == [pytest.approx((n + 1) / MIN_ROUNDS) for n in range(MIN_ROUNDS)]


def test_one_side_has_no_ratio() -> None:
    clock = Clock()
    assert measure([clock.side("a", 0.01)], {}, min_seconds=0, warmup=1, clock=clock).ratio is None


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
