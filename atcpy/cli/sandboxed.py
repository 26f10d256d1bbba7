"""The child of `atcpy run --sandbox`: loads a package, reads the inputs, closes itself in, runs, sends the outputs."""

import json
import os
import sys

from atcpy.cli.job import Job
from atcpy.cli.sandbox import send, send_error
from atcpy.errors import AtcError, InternalError, as_known_error
from atcpy.runtime.distributed.world import SingleRank
from atcpy.runtime.sandbox import enter_sandbox


def main() -> None:
    """Do the job that standard input describes; its result is all that goes to standard output."""
    job = Job.from_record(json.load(sys.stdin.buffer))
    result = sys.stdout.buffer
    sys.stdout = sys.stderr  # what anything else prints
    try:
        send(result, job.compute(SingleRank(), before_run=enter_sandbox))
    except (AtcError, InternalError) as error:
        send_error(result, error)
    except Exception as error:  # noqa: BLE001  outermost handler: the parent reports it
        send_error(result, as_known_error(error))
    os._exit(0)  # nothing of the end of a process is left to do, and some of it would be denied
