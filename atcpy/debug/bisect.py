"""Which pass breaks a model, and which of its matches.

Passes run in a fixed order. With the first k of them on and those behind off, pass k sees the graph that it sees when
all are on; so the first k with which the check fails names the pass, and halving finds it:

    runs = 1 (is anything wrong?) + ⌈log2(n + 1)⌉ (which of the n passes that applied?)
           + ⌈log2 m⌉ (which of its m matches?)

k = 0 is among those that are tried: if the check fails with every pass off that may be off, none of them is the cause.
The matches of one pass are numbered in the order in which it rewrites them, and are halved the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log2

from atcpy.ir.decisions import Decisions, Matched
from atcpy.passes.pass_set import PassSet


@dataclass(frozen=True, slots=True)
class Applied:
    """What one pass rewrote in one conversion; `numbered` if it can be told after which match to stop."""

    count: int
    numbered: bool = False
    fired: tuple[Matched, ...] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """One conversion: the passes that are left out, and of how many matches a pass may rewrite."""

    off: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a trial; `why` it is bad. `applied` is None where the graph is compiled when it runs."""

    good: bool
    why: str = ""
    applied: Mapping[str, Applied] | None = None


Try = Callable[[Trial], Outcome]


@dataclass(frozen=True, slots=True)
class Step:
    """One run, as it is reported."""

    run: int
    what: str
    good: bool
    why: str


@dataclass(frozen=True, slots=True)
class Culprit:
    """The pass, and of its matches the first that breaks the check, counted from 1."""

    name: str
    applied: int
    match: int | None = None
    nodes: Matched = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectReport:
    """What was found; the fields are those of `passes bisect --json`. With `required` the cause is among the passes
    that cannot be switched off, or no pass at all.
    """

    broken: bool
    passes: tuple[str, ...] = ()
    culprit: Culprit | None = None
    required: bool = False
    why: str = ""
    pass_runs: int = 1
    match_runs: int = 0
    steps: tuple[Step, ...] = ()

    @property
    def bound(self) -> float:
        """Twice log2 of the number of passes that applied."""
        return 2 * log2(len(self.passes)) if self.passes else 0.0


def applied_in(decisions: Decisions, running: str = "") -> dict[str, Applied]:
    """What each pass did; the one that was at work when the conversion broke off did something in any case."""
    found: dict[str, Applied] = {}
    for record in decisions.passes:
        count = record.applied or int(record.name == running)
        found[record.name] = Applied(count, record.obeys_limit, tuple(record.fired))
    return found


def switchable(passes: PassSet) -> list[str]:
    """Return the names of the passes that may be left out, in the order in which they run."""
    return [entry.name for entry in passes if not entry.required]


def bisect(order: Sequence[str], attempt: Try, report_step: Callable[[Step], None] = lambda step: None) -> BisectReport:
    """Looks for the one of these passes with which `attempt` turns bad."""
    return _Search(order, attempt, report_step).run()


class _Search:
    def __init__(self, order: Sequence[str], attempt: Try, report_step: Callable[[Step], None]) -> None:
        self._order = order
        self._attempt = attempt
        self._report_step = report_step
        self._steps: list[Step] = []

    def run(self) -> BisectReport:
        report = self._search()
        return replace(report, match_runs=len(self._steps) - report.pass_runs, steps=tuple(self._steps))

    def _search(self) -> BisectReport:
        whole = self._try("all passes on", Trial())
        if whole.good:
            return BisectReport(broken=False)
        done = whole.applied
        names = [name for name in self._order if done is None or done.get(name, Applied(0)).count]
        outcomes = {len(names): whole}

        def breaks(count: int) -> bool:
            last = f" (up to {names[count - 1]})" if count else ""
            outcomes[count] = self._try(f"the first {count} of {len(names)} on{last}", self._prefix(names, count))
            return not outcomes[count].good

        first = first_that(breaks, 0, len(names))
        report = BisectReport(broken=True, passes=tuple(names), why=whole.why, pass_runs=len(self._steps))
        if first == 0:
            return replace(report, required=True, why=outcomes[0].why)
        return replace(report, culprit=self._match(names, first, outcomes[first]))

    def _prefix(self, names: Sequence[str], count: int, limits: Mapping[str, int] | None = None) -> Trial:
        """The first so many of `names` on; of all passes behind them none, for what they see has changed."""
        end = self._order.index(names[count - 1]) + 1 if count else 0
        return Trial(tuple(self._order[end:]), limits or {})

    def _match(self, names: Sequence[str], count: int, outcome: Outcome) -> Culprit:
        name = names[count - 1]
        done = (outcome.applied or {}).get(name, Applied(0))
        if not done.numbered:
            return Culprit(name, done.count)

        def breaks(matches: int) -> bool:
            what = f"{name}: the first {matches} of {done.count} matches"
            return not self._try(what, self._prefix(names, count, {name: matches})).good

        number = first_that(breaks, 1, done.count)
        return Culprit(name, done.count, number, done.fired[number - 1] if number <= len(done.fired) else ())

    def _try(self, what: str, trial: Trial) -> Outcome:
        outcome = self._attempt(trial)
        step = Step(len(self._steps) + 1, what, outcome.good, outcome.why)
        self._steps.append(step)
        self._report_step(step)
        return outcome


def first_that(breaks: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest number from `low` to `high` that breaks; `high` is known to."""
    while low < high:
        middle = (low + high) // 2
        if breaks(middle):
            high = middle
        else:
            low = middle + 1
    return low
