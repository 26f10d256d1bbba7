"""Random graphs of three seeds against numpy and, if installed, the oracles."""

from pathlib import Path

import pytest

from tests.parsers.tensorflow.oracles import compare_with, interpreter
from tests.parsers.tensorflow.random_graphs import random_graph, run_graph

GRAPHS = 12


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_random_graphs_agree_with_numpy(seed: int, tmp_path: Path) -> None:
    for index in range(GRAPHS):
        assert not run_graph(random_graph(1000 * seed + index), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("oracle", ["openvino", "tensorflow"])
def test_oracles_agree_with_the_expected_results_of_random_graphs(oracle: str) -> None:
    if not interpreter(oracle):
        pytest.skip(f"{oracle} is not installed, and no ATCPY_{oracle.upper()}_PYTHON names an interpreter that has it")
    graphs = [random_graph(1000 * seed + index) for seed in (1, 2, 3) for index in range(GRAPHS)]
    opinions = compare_with(oracle, graphs)
    assert not [problem for problems in opinions.values() for problem in problems]
    assert len(opinions) > len(graphs) * 0.9
