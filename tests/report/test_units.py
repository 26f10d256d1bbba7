import pytest

from atcpy.errors import count_of
from atcpy.report.units import counts, duration, shape, size


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KB"), (102_657_024, "97.9 MB"), (3 << 30, "3.0 GB")],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.42, "1.42 s"), (0.0256, "25.6 ms"), (3.1e-6, "3.10 µs"), (123.4, "123 s"), (0.1, "100 ms"), (0, "0.00 µs")],
)
def test_times(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_shapes_and_counts() -> None:
    assert shape((1, 3, "n")) == "[1,3,n]"
    assert shape(()) == "[]"
    assert shape(None) == "?"
    assert counts({"Conv": 53, "Gemm": 1}) == "Conv 53 · Gemm 1"
    assert (count_of(1, "task"), count_of(57, "task")) == ("1 task", "57 tasks")
