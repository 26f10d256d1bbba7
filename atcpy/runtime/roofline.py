"""The roofline of this machine: how fast a task could be at most, by what it computes and what it touches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from atcpy.kernels import _kernels
from atcpy.runtime.profile import TaskCost

_MAX_BYTES = 1 << 28
_OTHER_TYPES = ("bfloat16", "int8")
# Buffers that a level of the caches holds, or the memory alone, in sizes of the second level a thread.
_LEVELS = (0.5, 8, 32)


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """How many bytes a second are read where so many are read again and again."""

    bytes: int
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class Roofline:
    """What all threads of a session reach together, measured: operations on float32 a second, the bandwidth for more
    and more bytes, and operations a second on other types that instructions of the CPU multiply.
    """

    threads: int
    flops_per_second: float
    bandwidths: tuple[Bandwidth, ...]
    other_types: Mapping[str, float] = field(default_factory=dict)

    def floor_seconds(self, cost: TaskCost) -> float | None:
        """Seconds that a launch takes at least: of its products and its bytes, what takes longer. None if its products
        are of a type whose peak is not measured.
        """
        peak = self.peak(cost.multiplied)
        if cost.flops is not None and peak is None:
            return None
        products = cost.flops / peak if cost.flops is not None and peak is not None else 0.0
        return max(products, cost.bytes / self.bandwidth(cost.bytes))

    def peak(self, multiplied: str) -> float | None:
        """Operations a second on factors of a type; None if that is not measured."""
        return self.flops_per_second if multiplied == "float32" else self.other_types.get(multiplied)

    def bandwidth(self, count: int) -> float:
        """Bytes a second of what is near enough to hold so many bytes."""
        fitting = (each for each in self.bandwidths if each.bytes >= count)
        return next(fitting, self.bandwidths[-1]).bytes_per_second


def measure_roofline(threads: int) -> Roofline:
    """Measure this machine for so many threads, in about a tenth of a second. Raises MemoryError."""
    _, l1_bytes, l2_bytes = _kernels.cpu()
    sizes = [l1_bytes * threads // 2, *(min(_MAX_BYTES, int(l2_bytes * threads * level)) for level in _LEVELS)]
    bandwidths = tuple(Bandwidth(size, _kernels.peak_bandwidth(threads, size)) for size in sizes)
    flops, *others = (_kernels.peak_operations(threads, name) for name in ("float32", *_OTHER_TYPES))
    other_types = {name: peak for name, peak in zip(_OTHER_TYPES, others, strict=True) if peak > 0}
    return Roofline(threads, flops, bandwidths, other_types)
