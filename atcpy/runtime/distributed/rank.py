"""One rank of a run under MPI: what ends it, and how the other ranks learn of it."""

import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeVar

from atcpy.errors import INTERRUPTED, TERMINATED, Terminated, as_known_error
from atcpy.runtime.distributed.channel import RankChannel
from atcpy.runtime.distributed.failures import RankFailed
from atcpy.runtime.distributed.launch import RankSetup
from atcpy.runtime.distributed.world import World

if TYPE_CHECKING:
    from atcpy.runtime.distributed.mpi_world import MpiWorld

Result = TypeVar("Result")

_DELAY_SECONDS = 0.25  # for each rank before this one, which may have the same to report
_MAX_DELAYS = 8
_COMMON_SECONDS = 3.0  # for all ranks to have found what is wrong for all


def run_rank(work: Callable[[World], Result], setup: RankSetup, channel: RankChannel | None = None) -> Result:
    """Run `work` as this rank of MPI. A rank that fails ends all, and one of them says why."""
    launch = setup.launch
    try:
        return work(_mpi_world(setup, channel))
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    except Terminated:
        os._exit(TERMINATED)
    except BaseException as error:  # noqa: BLE001  a rank that only raises leaves the others waiting
        _end_all(RankFailed(launch.rank, launch.ranks, error), channel)


def _mpi_world(setup: RankSetup, channel: RankChannel | None) -> "MpiWorld":
    # The import starts MPI: from here on, mpiexec notices which rank ends.
    from atcpy.runtime.distributed.mpi_world import MpiWorld, check_size

    launch = setup.launch
    if channel is not None:
        channel.send_started()
    check_size(setup.count)
    return MpiWorld(
        setup.members(), setup.wait, lambda error: _end_all(RankFailed(launch.rank, launch.ranks, error), channel)
    )


def _end_all(failure: RankFailed, channel: RankChannel | None) -> NoReturn:
    """Report why this rank fails, and end it in the way that mpiexec notices: without waiting for the others."""
    if channel is not None:
        channel.send_failure(failure)
    elif failure.is_common and failure.has_mpi:
        from atcpy.runtime.distributed.mpi_world import meet

        if failure.rank == 0:
            _print(failure)
        meet(_COMMON_SECONDS)
    elif failure.rank == 0 or failure.has_mpi:
        time.sleep(_DELAY_SECONDS * min(failure.rank, _MAX_DELAYS))  # a rank that reports the same first ends this one
        _print(failure)
    os._exit(as_known_error(failure.error).exit_code)


def _print(failure: RankFailed) -> None:
    sys.stderr.write(f"{failure}\n")
    sys.stderr.flush()
