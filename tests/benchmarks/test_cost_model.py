"""The report on the cost model: ranks, what is one shape, and which choices of Winograd are right."""

from __future__ import annotations

import re
from pathlib import Path

import cost_model
import pytest

from atcpy.runtime.profile import TaskCost

from .test_rooflines import PEAKS


def sample(work: int, seconds: float, op: str = "Op", read: int = 0) -> cost_model.Sample:
    cost = TaskCost(0, read, 0, None, work=work)
    return cost_model.Sample("family", op, f"{op} {work}", cost, seconds, seconds)


def test_ranks_not_values_are_correlated() -> None:
    assert cost_model.rank_correlation([1, 2, 3, 4], [1, 10, 1000, 1001]) == pytest.approx(1)
    assert cost_model.rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    assert cost_model.rank_correlation([1, 2, 2, 3], [1, 2, 2, 3]) == pytest.approx(1)  # ties share a rank
    assert cost_model.rank_correlation([1, 1, 1], [1, 2, 3]) == 0


def test_repeated_layers_are_one_shape_and_short_ones_none() -> None:
    samples = [sample(10, 3e-6), sample(10, 1e-6), sample(10, 2e-6), sample(10, 9e-6, "Other"), sample(5, 1e-8)]
    [(family, found)] = cost_model.by_family(samples).items()
    assert (family, sorted(each.seconds for each in found)) == ("family", [2e-6, 9e-6])


def test_the_farthest_from_the_median_is_the_worst_miss() -> None:
    families = {"family": [sample(1000, 1e-6), sample(2000, 2e-6), sample(3000, 3e-6), sample(1000, 50e-6)]}
    assert list(cost_model.family_table(families))[-1].startswith("| family | 4 | 0.11 ⚠ | 1.00 | 1 | ")
    assert list(cost_model.miss_table(families))[2] == "| family | Op 1000 | 1000 | 50 | 1 | 50 |"


@pytest.mark.parametrize(
    ("estimate", "measured", "is_right"),
    [(2.0, 1.5, True), (1.3, 0.96, True), (1.3, 0.9, False), (1.0, 1.1, True), (1.0, 1.5, False)],
)
def test_a_choice_is_right_unless_it_loses(estimate: float, measured: float, is_right: bool) -> None:
    gain = cost_model.Gain("m", estimate, measured)
    assert gain.is_right is is_right
    assert list(cost_model.gain_table([gain]))[-1].endswith("|  |" if is_right else "| ⚠ |")


@pytest.mark.slow
def test_the_report_has_each_family_and_convolution(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shapes = [(n * 64, 64) for n in range(1, 7)]
    monkeypatch.setattr(cost_model, "nodes", lambda: (cost_model.Node("MatMul", (s,), ((64, 64),)) for s in shapes))
    monkeypatch.setattr(cost_model.winograd_gains, "__defaults__", (((14, 32, 32),),))
    monkeypatch.setattr(cost_model.winograd_gains_of_bytes, "__defaults__", (((20, 48, 48),),))
    monkeypatch.setattr(cost_model, "measure_roofline", lambda threads: PEAKS)
    cost_model.main([Path("models/digits/digits.onnx")])
    page = capsys.readouterr().out
    assert re.search(r"^\| matmul \| [67] \| ", page, re.MULTILINE)
    assert re.search(r"^\| 14×14, 32 → 32 \| [\d.]+ \| [\d.]+ \| (winograd2d|conv2d) \| ", page, re.MULTILINE)
    assert re.search(r"^\| 20×20, 48 → 48, 8 bits \| [\d.]+ \| [\d.]+ \| (qwinograd2d|qgemm) \| ", page, re.MULTILINE)
    assert "the layers of `digits`" in page


def test_nodes_are_models_of_one_node() -> None:
    names = [node.name for node in cost_model.nodes()]
    assert len(set(names)) == len(names)
    assert {name.split()[0] for name in names} >= {"Conv", "MatMul", "Softmax", "LSTM", "Resize"}
