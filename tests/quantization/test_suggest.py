"""The search for the fewest layers that stay float."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from atcpy.errors import VerifyFailed
from atcpy.quantization.errors import QuantizationError
from atcpy.quantization.options import Bound, Metric
from atcpy.quantization.suggest import fewest_kept, predict_kept, rank

LAYERS = [f"layer{number}" for number in range(20)]
BOUND = Bound(Metric.SNR, 20.0)


@pytest.mark.parametrize("first", [0, 1, 7, 19, 50])
@pytest.mark.parametrize("needed", [0, 1, 2, 6, 13, 19])
def test_the_shortest_beginning_is_found(first: int, needed: int) -> None:
    tried: list[int] = []

    def meets(kept: Sequence[str]) -> bool:
        assert list(kept) == LAYERS[: len(kept)]
        tried.append(len(kept))
        return len(kept) >= needed

    assert fewest_kept(LAYERS, first, BOUND, meets) == LAYERS[:needed]
    assert len(tried) == len(set(tried))
    assert len(tried) <= 12


def test_a_model_without_quantised_layers_is_no_answer() -> None:
    with pytest.raises(VerifyFailed):
        fewest_kept(LAYERS, 3, BOUND, lambda kept: len(kept) == len(LAYERS))


@pytest.mark.parametrize("count", [1, 2])
def test_few_layers(count: int) -> None:
    with pytest.raises(VerifyFailed):
        fewest_kept(LAYERS[:count], 1, BOUND, lambda kept: False)


def test_effects_add_up() -> None:
    effects = {"a": 0.02, "b": 0.005, "c": 0.004, "d": 0.001}
    assert rank(effects) == ["a", "b", "c", "d"]
    for snr, kept in ((10, 0), (15, 0), (20, 1), (22, 2), (25, 3), (35, 4)):
        assert predict_kept(rank(effects), effects, 1, Bound(Metric.SNR, snr)) == kept


@pytest.mark.parametrize(
    ("metric", "value", "is_met"),
    [
        (Metric.SNR, 20.0, True), (Metric.SNR, 20.1, False), (Metric.COSINE, 0.9, True), (Metric.COSINE, 0.91, False),
        (Metric.MAX_ABS, 0.5, True), (Metric.MAX_ABS, 0.4, False),
    ],
)  # fmt: skip
def test_bounds_are_met_by_each_output(metric: Metric, value: float, is_met: bool) -> None:
    good, error = QuantizationError(1.0, 90.0, 0.0), QuantizationError(0.9, 20.0, 0.5)
    assert Bound(metric, value).is_met({"a": good, "b": error}) is is_met
