"""How many threads a session has unless it is told."""

import os
import re

from atcpy.errors import UsageError


def default_threads() -> int:
    """ATCPY_THREADS, or the number of physical cores that this process may run on."""
    text = os.environ.get("ATCPY_THREADS")
    if text is not None:
        if not re.fullmatch(r"\d{1,4}", text) or not 1 <= int(text) <= 1024:
            raise UsageError("E13024", f"ATCPY_THREADS={text}: not a number from 1 to 1024")
        return int(text)
    cores = set()
    for cpu in sorted(os.sched_getaffinity(0)):
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", encoding="ascii") as siblings:
                cores.add(siblings.read().strip())
        except OSError:
            cores.add(str(cpu))
    return len(cores)
