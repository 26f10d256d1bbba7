"""Constants of graphs compiled at run time: packed once for all variants of a session.

Variants for other shapes mostly have the same constants, which plans share. The memory is reserved larger than it is
needed at first, since pages that are never written cost nothing.
"""

from __future__ import annotations

import mmap
from collections.abc import Hashable, Sequence
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from atcpy.ir import Weight

_ALIGNMENT = 64
_GROWTH = 4  # a region is this many times as large as its first plan needs
_MIN_BYTES = 1 << 20


class WeightStore:
    """The packed constants of a session. Threads may share it."""

    def __init__(self) -> None:
        self._region = memoryview(bytearray(_ALIGNMENT))  # constants without elements need an address, too
        self._used = 0
        self._offsets: dict[Hashable, int] = {}
        self._lock = Lock()

    def pack(self, weights: Sequence[Weight]) -> tuple[memoryview, dict[int, int]]:
        """Pack `weights`; return the memory, and the offset of each in it by its planned offset."""
        from atcpy.om.weights import tensor_to_bytes  # the formats, and the schema of graphs

        with self._lock:
            missing = {_key(weight): weight for weight in weights if _key(weight) not in self._offsets}
            if sum(map(_aligned_bytes, missing.values())) > len(self._region) - self._used:
                missing = {_key(weight): weight for weight in weights}
                self._offsets, self._used = {}, 0
                self._region = memoryview(
                    mmap.mmap(-1, max(_GROWTH * sum(map(_aligned_bytes, missing.values())), _MIN_BYTES))
                )
            for key, weight in missing.items():
                self._region[self._used : self._used + weight.nbytes] = tensor_to_bytes(weight.tensor, weight.desc)
                self._offsets[key] = self._used
                self._used += _aligned_bytes(weight)
            return self._region, {weight.offset: self._offsets[_key(weight)] for weight in weights}


def _key(weight: Weight) -> Hashable:
    return weight.tensor.digest, weight.desc.format, weight.desc.memory_shape


def _aligned_bytes(weight: Weight) -> int:
    return -(-weight.nbytes // _ALIGNMENT) * _ALIGNMENT
