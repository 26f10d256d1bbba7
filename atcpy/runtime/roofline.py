"""The roofline of this machine: how fast a task could be at most, by what it computes and what it touches."""

from __future__ import annotations

from dataclasses import dataclass

from atcpy.kernels import _kernels
from atcpy.runtime.profile import TaskCost

_MAX_BYTES = 1 << 28
# Buffers that a level of the caches holds, or the memory alone, in sizes of the second level a thread.
_LEVELS = (0.5, 8, 32)


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """How many bytes a second are read where so many are read again and again."""

    bytes: int
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class Roofline:
    """What all threads of a session reach together, measured: operations on float32 a second, and the bandwidth for
    more and more bytes.
    """

    threads: int
    flops_per_second: float
    bandwidths: tuple[Bandwidth, ...]

    def floor_seconds(self, cost: TaskCost) -> float | None:
        """Seconds that a launch takes at least: of its products and its bytes, what takes longer. None if its products
        are of another type than float32, whose peak is not measured.
        """
        if cost.flops is not None and not cost.is_float32:
            return None
        return max((cost.flops or 0) / self.flops_per_second, cost.bytes / self.bandwidth(cost.bytes))

    def bandwidth(self, count: int) -> float:
        """Bytes a second of what is near enough to hold so many bytes."""
        fitting = (each for each in self.bandwidths if each.bytes >= count)
        return next(fitting, self.bandwidths[-1]).bytes_per_second


def measure_roofline(threads: int) -> Roofline:
    """Measure this machine for so many threads, in about a tenth of a second. Raises MemoryError."""
    _, l1_bytes, l2_bytes = _kernels.cpu()
    sizes = [l1_bytes * threads // 2, *(min(_MAX_BYTES, int(l2_bytes * threads * level)) for level in _LEVELS)]
    flops = _kernels.peak_flops(threads)
    return Roofline(threads, flops, tuple(Bandwidth(size, _kernels.peak_bandwidth(threads, size)) for size in sizes))
