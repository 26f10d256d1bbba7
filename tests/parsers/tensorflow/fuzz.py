"""Checks the random graphs of many seeds: python -m tests.parsers.tensorflow.fuzz FIRST LAST [ORACLE]."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.parsers.tensorflow.oracles import ask
from tests.parsers.tensorflow.random_graphs import random_graph, run_graph


def main(first: int, last: int, oracle: str = "") -> None:
    """Prints what is wrong."""
    graphs = [random_graph(seed) for seed in range(first, last)]
    problems = [problem for found in (ask(oracle, graphs) if oracle else {}).values() for problem in found]
    with tempfile.TemporaryDirectory() as folder:
        for graph in graphs:
            try:
                problems += run_graph(graph, Path(folder))
            except Exception as error:  # noqa: BLE001 the others are to be seen, too
                problems.append(f"seed {graph.seed}: {type(error).__name__} {error}")
    print(*problems, f"{len(graphs)} graphs", sep="\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
