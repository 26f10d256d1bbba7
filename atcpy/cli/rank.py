"""One rank of `atcpy run` under MPI: `python -m mpi4py -m atcpy.cli.rank FOLDER`, as `--ranks` starts it.

What it is to do stands in the folder: it loads nothing that only the command line needs.
"""

import os
import sys
import time
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, NoReturn

from atcpy.cli.job import Job
from atcpy.cli.launch import Several, find_launch
from atcpy.cli.limits import Limits
from atcpy.cli.outcome import Outcome, as_known_error
from atcpy.cli.rank_folder import RankFolder
from atcpy.cli.signals import INTERRUPTED, TERMINATED, Terminated
from atcpy.runtime.failures import RankFailed

if TYPE_CHECKING:
    from atcpy.runtime.mpi_world import MpiWorld

_TURN_SECONDS = 0.25  # for each rank before this one, which may have the same to say
_MOST_TURNS = 8
_COMMON_SECONDS = 3.0  # for rank 0 to say what all of them found


def main(path: str) -> None:
    """Does what the folder says, and leaves there what came of it."""
    folder, launch = RankFolder(path), find_launch()
    folder.enter(launch.rank)
    order = folder.order()
    with Limits(None, order.memory_limit), redirect_stdout(sys.stderr):
        outcome = join(order.job, Several(launch, 1, 1, order.groups, order.wait), folder)
    if launch.rank == 0:
        folder.leave_outcome(outcome)


def join(job: Job, several: Several, folder: RankFolder | None = None) -> Outcome:
    """What this rank of MPI finds. A rank that fails ends all, and one of them says why."""
    launch = several.launch
    try:
        job.prepare()
        return finished(job.on(_mpi_world(several, folder)))
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    except Terminated:
        os._exit(TERMINATED)
    except BaseException as error:  # noqa: BLE001  a rank that only raises leaves the others waiting
        _end_all(RankFailed(launch.rank, launch.ranks, as_known_error(error)), folder)


def _mpi_world(several: Several, folder: RankFolder | None) -> "MpiWorld":
    launch, members = several.launch, several.members()
    from atcpy.runtime.mpi_world import MpiWorld, check_size

    check_size(launch.ranks)
    return MpiWorld(members, several.wait, lambda error: _end_all(RankFailed(launch.rank, launch.ranks, error), folder))


def finished(outcome: Outcome) -> Outcome:
    """An outcome; raises the error of one that failed."""
    if outcome.error is not None:
        raise outcome.error
    return outcome


def _end_all(failure: RankFailed, folder: RankFolder | None) -> NoReturn:
    """Tells why this rank fails, and ends it in the way that mpiexec notices: without waiting for the others."""
    if folder is not None:
        folder.leave_failure(failure)
    else:
        if failure.rank:  # whoever says the same before it ends this one
            time.sleep(_COMMON_SECONDS if failure.is_common else _TURN_SECONDS * min(failure.rank, _MOST_TURNS))
        sys.stderr.write(f"{failure}\n")
        sys.stderr.flush()
    os._exit(as_known_error(failure.error).exit_code)


if __name__ == "__main__":
    main(sys.argv[1])
