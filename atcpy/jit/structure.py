"""Arguments and results of functions, taken apart: the arrays, and the structure around them.

Arrays may stand in tuples, lists and dicts. Whatever else is found is part of the structure, by its value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from atcpy.ir.tensor import Array


@dataclass(frozen=True, slots=True)
class ArrayAt:
    """An array of the list, by its index."""

    index: int


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value that is no array."""

    value: Any

    @property
    def key(self) -> Hashable:
        """What tells values apart: 1, 1.0 and True are equal, but no function need treat them alike.

        Raises TypeError for a value that cannot be hashed.
        """
        hash(self.value)
        # repr tells 0.0 and -0.0 apart, and calls a NaN equal to itself.
        return (type(self.value), repr(self.value) if isinstance(self.value, float | complex) else self.value)


@dataclass(frozen=True, slots=True)
class Container:
    """A tuple, a list or a dict; `names` are the keys of a dict, and the indices of the others."""

    kind: type
    names: tuple[Hashable, ...]
    members: tuple[Structure, ...]


Structure = ArrayAt | Fixed | Container


def take_apart(value: Any, is_array: Callable[[object], bool], arrays: list[Any]) -> Structure:
    """Append the arrays of a value to `arrays`, and return the structure around them."""
    if is_array(value):
        arrays.append(value)
        return ArrayAt(len(arrays) - 1)
    if isinstance(value, dict):
        members = tuple(take_apart(member, is_array, arrays) for member in value.values())
        return Container(type(value), tuple(value), members)
    if isinstance(value, tuple | list):
        members = tuple(take_apart(member, is_array, arrays) for member in value)
        return Container(type(value), tuple(range(len(value))), members)
    return Fixed(value)


def put_together(structure: Structure, arrays: Sequence[Any]) -> Any:
    """The value of a structure, with these arrays."""
    match structure:
        case ArrayAt(index):
            return arrays[index]
        case Fixed(value):
            return value.copy() if isinstance(value, np.ndarray) else value
        case Container(kind, names, members):
            values = [put_together(member, arrays) for member in members]
            if issubclass(kind, dict):
                return dict(zip(names, values, strict=True))
            return kind(*values) if hasattr(kind, "_fields") else list(values) if kind is list else tuple(values)


def key_of(structure: Structure) -> Hashable:
    """What two structures have in common for which a function is compiled once. Raises TypeError where a value cannot
    be hashed.
    """
    match structure:
        case ArrayAt():
            return structure
        case Fixed():
            return structure.key
        case Container(kind, names, members):
            return (kind, names, tuple(map(key_of, members)))


def paths(structure: Structure, name: str = "") -> Iterator[str]:
    """The name of each array, in the order of the list: `x`, or `batch.0` and `batch.image` for those in `batch`."""
    match structure:
        case ArrayAt():
            yield name
        case Container(_, names, members):
            for key, member in zip(names, members, strict=True):
                yield from paths(member, f"{name}.{key}" if name else str(key))


def fixed_values(structure: Structure) -> Iterator[Any]:
    """The values that are no arrays."""
    match structure:
        case Fixed(value):
            yield value
        case Container(_, _, members):
            for member in members:
                yield from fixed_values(member)


def as_arrays(value: Any) -> Any:
    """An argument with arrays of other libraries as numpy's, where they export their memory (DLPack)."""
    if isinstance(value, dict):
        return {key: as_arrays(member) for key, member in value.items()}
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return type(value)(map(as_arrays, value))
    if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray | np.generic):
        return np.from_dlpack(value)
    return value


def is_numpy(value: object) -> bool:
    """Whether a value is an array or a scalar of numpy."""
    return isinstance(value, np.ndarray | np.generic)


def native(array: Any) -> Array:
    """A numpy array in the machine's order of bytes."""
    found = np.asarray(array)
    return found if found.dtype.isnative else found.astype(found.dtype.newbyteorder("="))
