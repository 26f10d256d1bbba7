"""A task as it lies in a package."""

from __future__ import annotations

from typing import NamedTuple


class TaskRecord(NamedTuple):
    """One kernel launch: the record that C checks and runs, and the node that it is part of."""

    kernel: str
    op_index: int
    record: bytes
