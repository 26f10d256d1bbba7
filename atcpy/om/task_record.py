"""Tasks as they lie in a package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, overload

from atcpy.kernels import _kernels
from atcpy.kernels.record import read_op_index, record_family

_SIZE = _kernels.TASK_BYTES


class TaskRecord(NamedTuple):
    """One kernel launch: the record that C checks and runs, and the node that it is part of."""

    kernel: str
    op_index: int
    record: bytes


class TaskRecords(Sequence[TaskRecord]):
    """The tasks of a plan. Their records lie one behind the other, as C takes them: packages have thousands, and most
    are never looked at one by one.
    """

    __slots__ = ("records",)

    def __init__(self, records: bytes = b"") -> None:
        self.records = records

    def __len__(self) -> int:
        return len(self.records) // _SIZE

    @overload
    def __getitem__(self, number: int) -> TaskRecord: ...

    @overload
    def __getitem__(self, number: slice) -> TaskRecords: ...

    def __getitem__(self, number: int | slice) -> TaskRecord | TaskRecords:
        if isinstance(number, slice):
            first, last, step = number.indices(len(self))
            if step != 1:
                raise ValueError("tasks are taken in their order")
            return TaskRecords(self.records[first * _SIZE : max(first, last) * _SIZE])
        at = range(len(self))[number] * _SIZE
        record = self.records[at : at + _SIZE]
        return TaskRecord(record_family(record), read_op_index(record), record)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskRecords) and self.records == other.records

    def __hash__(self) -> int:
        return hash(self.records)

    def numbers_of(self, kernel: str) -> list[int]:
        """The numbers of the tasks of a kernel family."""
        return _kernels.tasks_of_family(self.records, kernel)
