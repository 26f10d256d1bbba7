"""One rank of `atcpy run` under MPI: `python -m mpi4py -m atcpy.cli.rank FOLDER`, as `--ranks` starts it.

What it is to do stands in the folder: it loads nothing that only the command line needs.
"""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from atcpy.cli.job import Job
from atcpy.cli.launch import Several, find_launch
from atcpy.cli.limits import Limits
from atcpy.cli.outcome import Outcome, as_known_error
from atcpy.cli.rank_folder import RankFolder, Teller
from atcpy.cli.signals import INTERRUPTED, TERMINATED, Terminated
from atcpy.runtime.failures import RankFailed

if TYPE_CHECKING:
    from atcpy.runtime.mpi_world import MpiWorld

_TURN_SECONDS = 0.25  # for each rank before this one, which may have the same to say
_MOST_TURNS = 8
_COMMON_SECONDS = 3.0  # for all ranks to have found what is wrong for all


def main(path: str) -> None:
    """Does what the folder says, and leaves there what came of it."""
    teller, launch, order = Teller(), find_launch(), RankFolder(path).order()
    with Limits(None, order.memory_limit), redirect_stdout(sys.stderr):
        outcome = join(order.job, Several(launch, 1, 1, order.groups, order.wait), teller)
    teller.found(outcome)


def join(job: Job, several: Several, teller: Teller | None = None) -> Outcome:
    """What this rank of MPI finds. A rank that fails ends all, and one of them says why."""
    launch = several.launch
    try:
        world = _mpi_world(several, teller)
        job.prepare()
        return finished(job.on(world))
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    except Terminated:
        os._exit(TERMINATED)
    except BaseException as error:  # noqa: BLE001  a rank that only raises leaves the others waiting
        _end_all(RankFailed(launch.rank, launch.ranks, as_known_error(error)), teller)


def _mpi_world(several: Several, teller: Teller | None) -> "MpiWorld":
    from atcpy.runtime.mpi_world import MpiWorld, check_size  # starts MPI: from here on, mpiexec notices who ends

    launch = several.launch
    if teller is not None:
        teller.met()
    check_size(several.count)
    return MpiWorld(
        several.members(), several.wait, lambda error: _end_all(RankFailed(launch.rank, launch.ranks, error), teller)
    )


def finished(outcome: Outcome) -> Outcome:
    """An outcome; raises the error of one that failed."""
    if outcome.error is not None:
        raise outcome.error
    return outcome


def together(outcomes: Sequence[Outcome]) -> Outcome:
    """What rank 0 found, and the results of all ranks in it."""
    results: list[Any] = [outcome.result for outcome in outcomes]
    ranks = [{"rank": rank, **result} for rank, result in enumerate(results)]
    for rank in ranks:
        del rank["ranks"]
    return replace(outcomes[0], result={**results[0], "ranks": ranks})


def _end_all(failure: RankFailed, teller: Teller | None) -> NoReturn:
    """Tells why this rank fails, and ends it in the way that mpiexec notices: without waiting for the others."""
    if teller is not None:
        teller.failed(failure)
    elif failure.is_common and failure.has_mpi:
        from atcpy.runtime.mpi_world import meet

        if failure.rank == 0:
            _say(failure)
        meet(_COMMON_SECONDS)
    elif failure.rank == 0 or failure.has_mpi:
        time.sleep(_TURN_SECONDS * min(failure.rank, _MOST_TURNS))  # whoever says the same before it ends this one
        _say(failure)
    os._exit(as_known_error(failure.error).exit_code)


def _say(failure: RankFailed) -> None:
    sys.stderr.write(f"{failure}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main(sys.argv[1])
