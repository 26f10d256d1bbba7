"""A task as it lies in a package."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """One kernel launch: the record that C checks and runs, and the node that it is part of."""

    kernel: str
    op_index: int
    record: bytes
