"""The roofline: what is measured, and the floor of a task's time that follows."""

from __future__ import annotations

import pytest

from atcpy.kernels import _kernels
from atcpy.runtime.profile import TaskCost
from atcpy.runtime.roofline import Bandwidth, Roofline, measure_roofline

MACHINE = Roofline(2, 100.0, (Bandwidth(10, 8.0), Bandwidth(1000, 2.0)))


def cost(read: int, written: int, flops: int | None, *, is_float32: bool = True) -> TaskCost:
    return TaskCost(0, read, written, flops, is_float32)


@pytest.mark.parametrize(
    ("task", "seconds"),
    [
        (cost(4, 4, None), 1.0),
        (cost(4, 4, 50), 1.0),
        (cost(4, 4, 200), 2.0),
        (cost(10, 0, None), 10 / 8),
        (cost(10, 1, None), 11 / 2),
        (cost(5000, 0, None), 2500.0),
        (cost(0, 0, None), 0.0),
        (cost(4, 4, None, is_float32=False), 1.0),
        (cost(4, 4, 200, is_float32=False), None),
    ],
)
def test_the_floor_is_what_takes_longer_of_products_and_bytes(task: TaskCost, seconds: float | None) -> None:
    assert MACHINE.floor_seconds(task) == seconds


def test_the_peaks_of_this_machine_are_plausible() -> None:
    roofline = measure_roofline(1)
    assert 1e8 < roofline.flops_per_second < 1e13
    sizes = [each.bytes for each in roofline.bandwidths]
    assert sizes == sorted(sizes) and sizes[0] > 0
    assert all(1e7 < each.bytes_per_second < 1e13 for each in roofline.bandwidths)


@pytest.mark.parametrize("threads", [0, -1, 1025])
def test_other_numbers_of_threads_are_refused(threads: int) -> None:
    with pytest.raises(ValueError, match="threads"):
        _kernels.peak_flops(threads)
    with pytest.raises(ValueError, match="threads"):
        _kernels.peak_bandwidth(threads, 4096)


def test_other_numbers_of_bytes_are_refused() -> None:
    for count in (-1, 1 << 62):
        with pytest.raises(ValueError, match="bytes"):
            _kernels.peak_bandwidth(1, count)
    assert _kernels.peak_bandwidth(3, 0) > 0, "a piece a thread at least"
