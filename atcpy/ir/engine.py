"""Engines: who runs a node. Names are GE's."""

from enum import Enum


class Engine(Enum):
    """An engine; the value is its name in GE, in dumps and in the package."""

    AICORE = "AIcoreEngine"
    VECTOR = "VectorEngine"
    AICPU = "AICPU"
    GE_LOCAL = "GE_LOCAL"
    HCCL = "DNN_HCCL"
    HOST_CPU = "HOST_CPU"

    __hash__ = object.__hash__  # an Enum hashes its name, in Python
