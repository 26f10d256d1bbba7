"""Runs cases on engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atcpy.errors import AtcError
from tests.conformance.cases import Case
from tests.conformance.compare import difference
from tests.conformance.engines import ENGINES
from tests.conformance.outcome import Outcome, Results, Status
from tests.conformance.pool import Lost, run_jobs

SECONDS = {"real": 600.0}  # the networks of the field
SECONDS_OTHERWISE = 60.0  # a second is much, but the machine may be busy


def run_case(engine: str, case: Case) -> Outcome:
    """Runs a case on an engine, in this process."""
    try:
        run = ENGINES[engine](case.model())
        for inputs, expected in case.data_sets():
            if text := difference(expected, run(inputs), case.rtol, case.atol):
                return Outcome(Status.WRONG, "", text)
    except AtcError as error:
        return Outcome(Status.ERROR, error.code, error.what)
    except Exception as error:  # noqa: BLE001  # whatever an engine raises is a result here
        text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        return Outcome(Status.INTERNAL if engine == "atcpy" else Status.ERROR, type(error).__name__, text)
    return Outcome(Status.PASS)


def run_cases(
    cases: Sequence[Case],
    engines: Sequence[str],
    *,
    workers: int,
    seen: Callable[[Outcome], None] = lambda outcome: None,
) -> Results:
    """Runs all cases on all engines, in processes of their own; `seen` is called with each outcome."""
    jobs = [(engine, index) for index in range(len(cases)) for engine in engines]
    results: Results = {engine: {} for engine in engines}

    def work(job: tuple[str, int]) -> Outcome:
        return run_case(job[0], cases[job[1]])

    def seconds(job: tuple[str, int]) -> float:
        return SECONDS.get(cases[job[1]].kind, SECONDS_OTHERWISE)

    for (engine, index), answer in run_jobs(work, jobs, workers=workers, seconds=seconds):
        if isinstance(answer, Lost):
            answer = Outcome(Status[answer.cause.upper()], "", answer.detail)
        results[engine][cases[index].name] = answer
        seen(answer)
    return results
