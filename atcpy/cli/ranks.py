"""`atcpy run` on several ranks: simulated by threads, as one of the processes of MPI, or as the process that starts
those. Beyond `MAX_SIMULATED` ranks nothing runs: the cost model predicts the time.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from atcpy.cli.invocation import Invocation
from atcpy.cli.job import Job, raise_failed
from atcpy.cli.outcome import Outcome
from atcpy.errors import AtcError, AtcWarning, InternalError, UsageError, Where, as_known_error
from atcpy.om.signature import PublicKey, read_public_keys
from atcpy.runtime.distributed.failures import RankFailed
from atcpy.runtime.distributed.launch import RankSetup, oversubscribed

MAX_SIMULATED = 64


def run_on_ranks(run: Invocation, job: Job, setup: RankSetup) -> Outcome:
    """Run a package on several ranks, or say why nothing ran."""
    launch = setup.launch
    if launch.ranks > 1:
        from atcpy.runtime.distributed.rank import run_rank

        if launch.rank:  # rank 0 reports
            run.json, run.quiet = False, True
        outcome = run_rank(job.on_rank, setup)
        return replace(outcome, warnings=[*outcome.warnings, *oversubscribed(launch.ranks)])
    from atcpy.om.collectives import has_collectives
    from atcpy.om.container import Verify, open_container

    count = setup.count
    setup.members()  # what is wrong with the table is reported here, by one process
    signers = read_public_keys(job.require_signature)
    if not has_collectives(open_container(job.package, verify=Verify.HEADER, signers=signers)):
        job.prepare()
        name = "--ranks" if setup.ranks > 1 else "--simulate_ranks"
        unused = AtcWarning("W0012", f"{name} has no effect: the package has no collectives")
        outcome = job.on_single_rank()
        return replace(outcome, warnings=[*outcome.warnings, unused])
    if setup.simulated > MAX_SIMULATED:
        if job.iterations is not None:
            what = f"--iterations: on {setup.simulated} ranks nothing runs, one run is predicted"
            hint = f"at most {MAX_SIMULATED} ranks"
            raise UsageError("E10001", what, where=Where(option="iterations"), hint=hint)
        if job.profile is not None:
            what = f"--profile: beyond {MAX_SIMULATED} simulated ranks times are predicted, nothing runs"
            raise UsageError("E10056", what, where=Where(option="profile"), hint="simulate fewer ranks")
        return _predict(job.package, count, signers)
    if setup.simulated > 1:
        return _simulate(job, setup)
    return _start(run, job, setup)


def _start(run: Invocation, job: Job, setup: RankSetup) -> Outcome:
    """Run the ranks as processes of MPI."""
    from atcpy.runtime.distributed.mpiexec import run_ranks

    work = {
        "job": asdict(job),
        "groups": setup.groups,
        "wait": setup.wait,
    }
    try:
        results = run_ranks("atcpy.cli.rank", work, setup, seconds=run.option("timeout"), debug=run.debug)
    except RankFailed as failure:
        return _failed(failure)
    outcome = _merge([Outcome.from_record(result) for result in results])
    return replace(outcome, warnings=[*outcome.warnings, *oversubscribed(setup.count)])


def _simulate(job: Job, setup: RankSetup) -> Outcome:
    """Run the ranks as threads of this process."""
    from atcpy.runtime.distributed.simulated_world import run_simulated

    job.prepare()
    try:
        outcomes = run_simulated(lambda world: raise_failed(job.on(world)), setup.count, setup.members(), setup.wait)
    except RankFailed as failure:
        return _failed(failure)
    return _merge(outcomes)


def _predict(package: str, ranks: int, signers: Sequence[PublicKey]) -> Outcome:
    from atcpy.report.predicted_run import lines, predict_collectives

    rows = predict_collectives(package, ranks, signers)
    total = sum(row["seconds"] for row in rows)
    return Outcome({"ranks": ranks, "collectives": rows, "seconds": total}, list(lines(rows, ranks)))


def _merge(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of rank 0, with the results of all ranks in it."""
    results: list[Any] = [outcome.result for outcome in outcomes]
    ranks = [{"rank": rank, **result} for rank, result in enumerate(results)]
    for rank in ranks:
        del rank["ranks"]
    return replace(outcomes[0], result={**results[0], "ranks": ranks})


def _failed(failure: RankFailed) -> Outcome:
    """The outcome of a run of which a rank failed: one line on stderr."""
    error = as_known_error(failure.error)
    shown: AtcError | InternalError
    if isinstance(error, AtcError):
        first = error.problems[0]
        shown = type(first)(first.code, failure.what, where=first.where, why=first.why, hint=first.hint)
    else:
        shown = InternalError(failure.what, code=error.code, where=error.where)
    return Outcome(None, error=shown, verdict=str(failure))
