"""Memory of the caller for results: what is refused before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from atcpy.errors import UsageError, Where
from atcpy.ir.tensor import Array


def check_targets(targets: Mapping[int, Array], names: Sequence[str], feeds: Sequence[Any]) -> None:
    """Raises UsageError (E13031) if an array cannot be written, or shares memory with another one or with a feed.
    `targets` are by the index of the output, `names` those of all outputs.
    """
    for index, array in targets.items():
        if not isinstance(array, np.ndarray):
            raise _unusable(names[index], f"{type(array).__name__} is no array")
        if not array.flags.writeable:
            raise _unusable(names[index], "it is read-only")
        if not (array.flags.c_contiguous and array.flags.aligned):
            raise _unusable(names[index], "its elements do not follow each other")
        if any(isinstance(feed, np.ndarray) and np.may_share_memory(array, feed) for feed in feeds):
            raise _unusable(names[index], "it shares memory with an input")
    for (index, array), (other, second) in combinations(targets.items(), 2):
        if np.may_share_memory(array, second):
            raise _unusable(names[index], f"it shares memory with the one of {names[other]}")


def check_type(array: Array, dtype: np.dtype[Any], shape: tuple[int, ...], name: str) -> None:
    """Raises UsageError (E13031) if an array has another type or shape than an output."""
    if array.dtype != dtype or array.shape != shape:
        what = f"it is {array.dtype} {list(array.shape)}, the output {dtype} {list(shape)}"
        raise _unusable(name, what)


def fill(target: Array, result: Any, name: str) -> Array:
    """Copy a result into the caller's memory, and return that."""
    if not isinstance(result, np.ndarray):
        raise _unusable(name, "the output is no tensor")
    check_type(target, result.dtype, result.shape, name)
    target[...] = result
    return target


def _unusable(name: str, why: str) -> UsageError:
    return UsageError("E13031", f'run: the array for output "{name}" cannot be used: {why}', where=Where(value=name))
