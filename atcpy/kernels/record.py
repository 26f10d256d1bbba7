"""Task records as the runtime reads them; `kernels/csrc/core/task.h` lays them out."""

from __future__ import annotations

import struct
from functools import lru_cache

from atcpy.ir.region import Region

# Region, index of the graph's input or output, offset and size in bytes.
HostSlot = tuple[Region, int, int, int]
HOST_FAMILY = "host"
STREAM_ACTIVE = "stream_active"  # begins a section of streams
HEADER = struct.Struct("<24sBBHIIIII")
SLOT = struct.Struct("<BBHIQQ")
_FAMILY_BYTES = 24


def record_family(record: bytes) -> str:
    """The kernel family that a record names; whether there is one, the loader in C says."""
    return _read_family(record[:_FAMILY_BYTES])


@lru_cache(256)  # tasks are thousands, families dozens
def _read_family(field: bytes) -> str:
    return field.rstrip(b"\0").decode("ascii", "replace")


def read_order(record: bytes) -> tuple[int, int, int]:
    """The stream of a task, the event that it waits for and the one that it records: numbers from 1, 0 is none."""
    *_, stream, event_wait, event_record, _, _ = HEADER.unpack_from(record)
    return stream, event_wait, event_record


def read_op_index(record: bytes) -> int:
    """The index of the node that a task runs."""
    *_, op_index, _ = HEADER.unpack_from(record)
    return int(op_index)


def read_slots(record: bytes) -> tuple[list[HostSlot | None], list[HostSlot]]:
    """Sources and destinations of a checked record, as (region, index, offset, bytes)."""
    _, n_src, n_dst, *_ = HEADER.unpack_from(record)
    slots: list[HostSlot | None] = []
    for number in range(n_src + n_dst):
        region, _, index, _, offset, nbytes = SLOT.unpack_from(record, HEADER.size + number * SLOT.size)
        slots.append((Region(region), index, offset, nbytes) if region else None)
    return slots[:n_src], [slot for slot in slots[n_src:] if slot is not None]
