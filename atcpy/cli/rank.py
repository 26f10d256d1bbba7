"""One rank of `atcpy run` under MPI: `python -m mpi4py -m atcpy.cli.rank FOLDER`, as `--ranks` starts it.

The folder says what to do: nothing that only the command line needs is loaded.
"""

import sys
from contextlib import redirect_stdout

from atcpy.cli.job import Job
from atcpy.cli.limits import Limits
from atcpy.runtime.distributed.channel import RankChannel, RankFolder
from atcpy.runtime.distributed.launch import RankSetup, find_launch
from atcpy.runtime.distributed.rank import run_rank


def main(path: str) -> None:
    """Do what the folder says, and send the result through the channel."""
    channel, launch, work = RankChannel(), find_launch(), RankFolder(path).read_work()
    job = Job.from_record(work["job"])
    with Limits(None, work["job"]["memory_limit"]), redirect_stdout(sys.stderr):
        outcome = run_rank(job.on_rank, RankSetup(launch, 1, 1, work["groups"], work["wait"]), channel)
    channel.send_result(outcome.to_record())


if __name__ == "__main__":
    main(sys.argv[1])
