"""One rank of a run under MPI: what ends it, and how the other ranks learn of it."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn, TypeVar

from atcpy.errors import INTERRUPTED, TERMINATED, ResourceLimit, Terminated, as_known_error
from atcpy.kernels import _kernels
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
    launch = setup.launch
    if channel is not None:
        channel.send_starting()
    with _waiting_for_mpi(setup):
        # The import starts MPI: from here on, mpiexec notices which rank ends.
        from atcpy.runtime.distributed.mpi_world import MpiWorld, check_size
    if channel is not None:
        channel.send_started()
    check_size(setup.count)
    return MpiWorld(
        setup.members(), setup.wait, lambda error: _end_all(RankFailed(launch.rank, launch.ranks, error), channel)
    )


@contextmanager
def _waiting_for_mpi(setup: RankSetup) -> Iterator[None]:
    """Let `--wait` and signals end this rank while MPI starts: it waits there for all others, in C, with the
    interpreter locked, and for ever if one of them has ended before.
    """
    launch = setup.launch
    why = f"the others do not come to MPI, where it waits since {setup.wait:g} s"
    failure = RankFailed(launch.rank, launch.ranks, ResourceLimit("EI0007", why))
    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if is_main else ()
    handlers = {number: signal.getsignal(number) for number in numbers}
    for number in handlers:
        signal.signal(number, signal.SIG_DFL)
    _kernels.start_watchdog(setup.wait, f"{failure}\n", as_known_error(failure.error).exit_code)
    try:
        yield
    finally:
        _kernels.stop_watchdog()
        for number, handler in handlers.items():
            signal.signal(number, handler)


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
