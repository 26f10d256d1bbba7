"""The regions of memory that tasks read and write."""

from enum import IntEnum


class Region(IntEnum):
    """Where the bytes of a task's operand lie; numbers as in kernels/csrc/core/task.h."""

    NONE = 0
    ARENA = 1
    WEIGHTS = 2
    INPUT = 3
    OUTPUT = 4
