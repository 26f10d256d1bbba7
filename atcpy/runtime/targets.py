"""Memory of the caller for results: what is refused before anything is computed or written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from atcpy.errors import UsageError, Where
from atcpy.ir.dtype import DType
from atcpy.ir.tensor import Array
from atcpy.sizes import misfit

if TYPE_CHECKING:
    from atcpy.runtime.session import NodeArg


def check_targets(targets: Mapping[int, Array], ports: Sequence[NodeArg], feeds: Sequence[Any]) -> None:
    """Raises UsageError (E13031) if an array cannot be written, has not the type of its output, or shares memory with
    another one or with a feed. `targets` are by the index of the output, `ports` all outputs.
    """
    for index, array in targets.items():
        check_target(array, ports[index])
        if any(isinstance(feed, np.ndarray) and np.may_share_memory(array, feed) for feed in feeds):
            raise _unusable(ports[index].name, "it shares memory with an input", _OWN_MEMORY)
    for (index, array), (other, second) in combinations(targets.items(), 2):
        if np.may_share_memory(array, second):
            why = f"it shares memory with the one of {ports[other].name}"
            raise _unusable(ports[index].name, why, _OWN_MEMORY)


def check_target(array: Any, port: NodeArg) -> None:
    """Raises UsageError (E13031) if an array cannot be written, or cannot be the output in any run."""
    if port.dtype is DType.UNDEFINED:
        raise _unusable(port.name, "the output is no tensor", "None leaves it to the session")
    if not isinstance(array, np.ndarray):
        why = f"{type(array).__name__} is no array"
        raise _unusable(port.name, why, "numpy.from_dlpack(…) is the array of a tensor of another library")
    if not array.flags.writeable:
        raise _unusable(port.name, "it is read-only", "numpy.empty_like(…) is an array that can be written")
    if not (array.flags.c_contiguous and array.flags.aligned):
        why = "its elements do not follow each other"
        raise _unusable(port.name, why, "numpy.empty(shape, dtype) is an array whose elements do")
    if array.dtype != port.dtype.numpy or misfit(port.shape, port.ranges, array.shape, {}):
        raise _of_another_type(array, port.dtype.numpy, port.shape, port.name)


def check_type(array: Array, dtype: np.dtype[Any], shape: tuple[int, ...], name: str) -> None:
    """Raises UsageError (E13031) if an array has another type or shape than an output."""
    if array.dtype != dtype or array.shape != shape:
        raise _of_another_type(array, dtype, shape, name)


def fill(target: Array, result: Any, name: str) -> Array:
    """Copy a result into the caller's memory, and return that."""
    check_type(target, result.dtype, result.shape, name)
    target[...] = result
    return target


_OWN_MEMORY = "give each output memory of its own"


def _of_another_type(array: Array, dtype: np.dtype[Any], shape: Sequence[int | str] | None, name: str) -> UsageError:
    dims = "any shape" if shape is None else f"[{', '.join(map(str, shape))}]"
    what = f"it is {array.dtype} {list(array.shape)}, the output {dtype} {dims}"
    return _unusable(name, what, f"numpy.empty(shape, '{dtype}') of that shape")


def _unusable(name: str, why: str, hint: str) -> UsageError:
    what = f'run: the array for output "{name}" cannot be used: {why}'
    return UsageError("E13031", what, where=Where(value=name), hint=hint)
