"""Constants of graphs compiled at run time: packed once for all variants of a session.

Variants for other shapes mostly have the same constants. They lie in regions of memory that plans
share; a region is reserved larger than it is needed at first, since pages that nobody writes cost
nothing.
"""

from __future__ import annotations

import mmap
from collections.abc import Hashable, Sequence
from threading import Lock

from atcpy.ir import Weight
from atcpy.om.weights import tensor_to_bytes

_ALIGNMENT = 64
_SPARE = 4  # a region has room for so many times what its first plan needs
_LEAST_BYTES = 1 << 20


class WeightStore:
    """The packed constants of a session. Threads may share it."""

    def __init__(self) -> None:
        self._region = memoryview(bytearray(_ALIGNMENT))  # constants without elements need a place, too
        self._used = 0
        self._places: dict[Hashable, int] = {}
        self._lock = Lock()

    def place(self, weights: Sequence[Weight]) -> tuple[memoryview, dict[int, int]]:
        """Memory that holds all of `weights`, and where each now begins, by its planned offset."""
        with self._lock:
            missing = {_key(weight): weight for weight in weights if _key(weight) not in self._places}
            if sum(map(_room, missing.values())) > len(self._region) - self._used:
                missing = {_key(weight): weight for weight in weights}
                self._places, self._used = {}, 0
                self._region = memoryview(mmap.mmap(-1, max(_SPARE * sum(map(_room, missing.values())), _LEAST_BYTES)))
            for key, weight in missing.items():
                self._region[self._used : self._used + weight.nbytes] = tensor_to_bytes(weight.tensor, weight.desc)
                self._places[key] = self._used
                self._used += _room(weight)
            return self._region, {weight.offset: self._places[_key(weight)] for weight in weights}


def _key(weight: Weight) -> Hashable:
    return weight.tensor.digest, weight.desc.format, weight.desc.memory_shape


def _room(weight: Weight) -> int:
    return -(-weight.nbytes // _ALIGNMENT) * _ALIGNMENT
