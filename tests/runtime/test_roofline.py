"""The roofline: what is measured, and the floor of a task's time that follows."""

from __future__ import annotations

import pytest

from atcpy.kernels import _kernels
from atcpy.runtime.profile import TaskCost
from atcpy.runtime.roofline import Bandwidth, Roofline, measure_roofline

MACHINE = Roofline(2, 100.0, (Bandwidth(10, 8.0), Bandwidth(1000, 2.0)), {"int8": 400.0})


def cost(read: int, written: int, flops: int | None, multiplied: str = "float32") -> TaskCost:
    return TaskCost(0, read, written, flops, multiplied)


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
        (cost(4, 4, None, multiplied="float64"), 1.0),
        (cost(4, 4, 200, multiplied="float64"), None),
        (cost(4, 4, 1000, multiplied="int8"), 2.5),
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
    isa = _kernels.cpu()[0]
    assert set(roofline.other_types) == {"avx512vnni": {"int8"}, "avx512bf16": {"bfloat16", "int8"}}.get(isa, set())
    assert all(peak > 1.5 * roofline.flops_per_second for peak in roofline.other_types.values())


def test_another_type_of_products_is_refused() -> None:
    with pytest.raises(ValueError, match="no such type of products: float16"):
        _kernels.peak_operations(1, "float16")


@pytest.mark.parametrize("threads", [0, -1, 1025])
def test_other_numbers_of_threads_are_refused(threads: int) -> None:
    with pytest.raises(ValueError, match="threads"):
        _kernels.peak_operations(threads, "float32")
    with pytest.raises(ValueError, match="threads"):
        _kernels.peak_bandwidth(threads, 4096)


def test_other_numbers_of_bytes_are_refused() -> None:
    for count in (-1, 1 << 62):
        with pytest.raises(ValueError, match="bytes"):
            _kernels.peak_bandwidth(1, count)
    assert _kernels.peak_bandwidth(3, 0) > 0, "a piece a thread at least"
