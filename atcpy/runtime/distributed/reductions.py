"""Reductions of collectives: the functions, and the element types that are widened while they are summed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from atcpy.ir import DType
from atcpy.ir.tensor import Array

FOLDS: Final = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
CHUNK_BYTES: Final = 1 << 20  # reduced at once: they stay in the cache


def sum_type(array: Array) -> np.dtype[Any]:
    """The accumulation type: float32 for shorter floats, so that no step rounds."""
    dtype = DType.from_numpy(array.dtype)
    return np.dtype(np.float32) if dtype.is_float and dtype.bits < 32 else array.dtype


def chunks(count: int, itemsize: int, nbytes: int = CHUNK_BYTES) -> Iterator[slice]:
    """Slices of at most `nbytes` of a flat array; the same on every rank."""
    step = max(1, nbytes // itemsize)
    return (slice(first, min(first + step, count)) for first in range(0, count, step))


def fold(parts: Sequence[Array], reduction: str) -> Array:
    """Reduce arrays of one shape, from the first to the last."""
    whole = parts[0].astype(sum_type(parts[0]))
    for part in parts[1:]:
        FOLDS[reduction](whole, part, out=whole, casting="unsafe")
    return whole
