"""The search for the pass and the match that break a model, on passes that are only names."""

from __future__ import annotations

from math import ceil, log2

import pytest

from atcpy.debug.bisect import Applied, Outcome, Trial, Try, bisect, first_that

ORDER = ("a", "b", "c", "d", "e", "f", "g")
APPLIED = {name: Applied(5, numbered=True, fired=tuple(((name, f"n{i}"),) for i in range(5))) for name in ORDER}
IDLE = {"b": Applied(0), "e": Applied(0)}  # these find nothing to rewrite


def broken_by(name: str, match: int, applied: dict[str, Applied]) -> Try:
    def attempt(trial: Trial) -> Outcome:
        rewritten = 0 if name in trial.off else trial.limits.get(name, applied[name].count)
        good = rewritten < match
        return Outcome(good, "" if good else "differs", {k: v for k, v in applied.items() if k not in trial.off})

    return attempt


@pytest.mark.parametrize("name", [name for name in ORDER if name not in IDLE])
@pytest.mark.parametrize("match", range(1, 6))
def test_pass_and_match_are_found_in_few_runs(name: str, match: int) -> None:
    applied = APPLIED | IDLE
    report = bisect(ORDER, broken_by(name, match, applied))
    assert report.broken and not report.required
    assert report.passes == ("a", "c", "d", "f", "g")
    assert report.culprit is not None
    assert (report.culprit.name, report.culprit.match) == (name, match)
    assert report.culprit.nodes == ((name, f"n{match - 1}"),)
    assert report.pass_runs <= 1 + ceil(log2(len(report.passes) + 1))
    assert report.match_runs <= ceil(log2(5))
    assert len(report.steps) == report.pass_runs + report.match_runs


def test_matches_that_are_not_numbered_are_not_searched() -> None:
    report = bisect(ORDER, broken_by("d", 1, APPLIED | {"d": Applied(5)}))
    assert report.culprit is not None
    assert (report.culprit.name, report.culprit.match, report.match_runs) == ("d", None, 0)


def test_a_sound_model_takes_one_run() -> None:
    report = bisect(ORDER, lambda trial: Outcome(True))
    assert not report.broken
    assert (report.pass_runs, report.match_runs, len(report.steps)) == (1, 0, 1)


def test_no_pass_is_blamed_for_what_is_wrong_without_any() -> None:
    report = bisect(ORDER, lambda trial: Outcome(False, f"without {len(trial.off)}", APPLIED))
    assert report.broken and report.required and report.culprit is None
    assert report.why == f"without {len(ORDER)}"


def test_the_smallest_number_that_breaks_may_be_either_end() -> None:
    assert [first_that(lambda n, k=k: n >= k, 0, 6) for k in range(7)] == list(range(7))  # type: ignore[misc]
