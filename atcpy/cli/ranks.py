"""`atcpy run` on several ranks: as threads that simulate them, as one of the processes of MPI, as who starts those, or
not at all: then the model of costs says what it would take.
"""

from dataclasses import replace
from typing import Any

from atcpy.cli.invocation import Invocation
from atcpy.cli.job import Job
from atcpy.cli.launch import Several, crowd
from atcpy.cli.outcome import Outcome
from atcpy.cli.rank_folder import outcome_of
from atcpy.errors import AtcWarning
from atcpy.report.units import duration, size
from atcpy.runtime.failures import RankFailed

MOST_SIMULATED = 64


def run_on_several(run: Invocation, job: Job, several: Several) -> Outcome:
    """What came of a run on several ranks, or why nothing did."""
    launch = several.launch
    if launch.ranks > 1:
        from atcpy.cli.rank import join

        if launch.rank:  # rank 0 tells
            run.json, run.quiet = False, True
        outcome = join(job, several)
        return replace(outcome, warnings=[*outcome.warnings, *crowd(launch.ranks)])
    from atcpy.om.collectives import has_collectives
    from atcpy.om.container import Verify, open_container

    count = several.count
    several.members()  # what is wrong with the table is said here, by one process
    if not has_collectives(open_container(job.package, verify=Verify.HEADER)):
        job.prepare()
        name = "--ranks" if several.ranks > 1 else "--simulate_ranks"
        unused = AtcWarning("W0012", f"{name} has no effect: the package has no collectives")
        outcome = job.alone()
        return replace(outcome, warnings=[*outcome.warnings, unused])
    if several.simulated > MOST_SIMULATED:
        return predict(job.package, count)
    if several.simulated > 1:
        return _simulate(job, several)
    from atcpy.cli.mpiexec import start

    outcome = start(run, job, several)
    return outcome if outcome.error else replace(outcome, warnings=[*outcome.warnings, *crowd(count)])


def _simulate(job: Job, several: Several) -> Outcome:
    """What the ranks find where they are threads of this process."""
    from atcpy.cli.rank import finished, together
    from atcpy.runtime.simulated_world import run_simulated

    job.prepare()
    try:
        found = run_simulated(lambda world: finished(job.on(world)), several.count, several.members(), several.wait)
    except RankFailed as failure:
        return outcome_of(failure)
    return together(found)


def predict(package: str, ranks: int) -> Outcome:
    """What the model of costs says of so many ranks: seconds for each collective, by the cheapest algorithm."""
    from atcpy.om.container import Verify
    from atcpy.om.reader import read_model, read_package
    from atcpy.options import recorded_options
    from atcpy.passes.collective_costs import cheapest
    from atcpy.runtime.agreement import collectives_of

    model = read_model(read_package(package, verify=Verify.HEADER))
    network = replace(recorded_options(model.cmdline).prepare.allreduce.network, ranks=ranks)
    rows: list[dict[str, Any]] = []
    for node in collectives_of(model.graph):
        values = node.outputs if node.op_type == "HcomAllGather" else node.operands
        nbytes = sum(value.desc.nbytes for value in values if value.desc.is_static)
        way = cheapest(node.op_type, nbytes, network.between(max(0, node.int_attr("rank_size", 0))))
        rows.append({"name": node.name, "bytes": nbytes, "algorithm": way.name, "seconds": way.seconds(nbytes)})
    total = sum(row["seconds"] for row in rows)
    lines = [f"{row['name']}  {size(row['bytes'])}  {row['algorithm']}  {duration(row['seconds'])}" for row in rows]
    lines.append(f"{len(rows)} collectives of {ranks} ranks take {duration(total)} by the model of costs; nothing ran")
    return Outcome({"ranks": ranks, "collectives": rows, "seconds": total}, lines)
