"""Packages with an error planted in the constants of one task, and a right checksum."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from atcpy.ir import Region
from atcpy.ir.compiled import plans_of
from atcpy.kernels.record import read_slots
from atcpy.om.container import Partition, reseal
from atcpy.om.package import read_package


def plant(package: Path, task: int, factor: float = 1.5, share: int = 16) -> int:
    """Multiply the first of `share` parts of the first constant that a task reads; return the index of its node."""
    read = read_package(package)
    tasks = read.tasks or next(plans_of(read.clusters)).tasks
    record = tasks[task]
    slots = [slot for slot in read_slots(record.record)[0] if slot is not None and slot[0] is Region.WEIGHTS]
    _, _, offset, nbytes = slots[0]
    content = bytearray(package.read_bytes())
    first = read.container.extent(Partition.WEIGHTS_DATA).offset + offset
    elements = np.frombuffer(content, np.float32, nbytes // 4, first).copy()
    elements[: max(1, elements.size // share)] *= factor
    content[first : first + nbytes] = elements.tobytes()
    package.write_bytes(reseal(bytes(content)))
    return record.op_index
