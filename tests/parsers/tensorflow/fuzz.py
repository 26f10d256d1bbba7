"""Checks random graphs and corrupted ones: python -m tests.parsers.tensorflow.fuzz --count 100 [--oracle openvino]."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.parsers.tensorflow.mutants import mutant, problem
from tests.parsers.tensorflow.oracles import compare_with
from tests.parsers.tensorflow.random_graphs import RandomGraph, random_graph, run_graph

MUTANTS = 5  # of each graph


def main(count: int, first: int, oracle: str) -> int:
    """Print the problems found; return the exit status."""
    graphs = [random_graph(seed) for seed in range(first, first + count)]
    opinions = compare_with(oracle, graphs) if oracle else {}
    problems = [problem for found in opinions.values() for problem in found]
    with tempfile.TemporaryDirectory() as folder:
        for graph in graphs:
            try:
                problems += run_graph(graph, Path(folder))
            except Exception as error:  # noqa: BLE001 the others are to be seen, too
                problems.append(f"seed {graph.seed}: {type(error).__name__} {error}")
            problems += _of_mutants(graph, Path(folder))
    answered = f", {oracle} answered for {len(opinions)}" if oracle else ""
    print(*problems, f"{len(graphs)} graphs{answered}", sep="\n")
    return int(bool(problems))


def _of_mutants(graph: RandomGraph, folder: Path) -> list[str]:
    chance, path, found = random.Random(graph.seed), folder / "mutant.pb", []
    for number in range(MUTANTS):
        path.write_bytes(mutant(graph.builder.graph, chance).SerializeToString())
        what = problem(path, folder, f"seed {graph.seed}, mutant {number}")
        if what:
            found.append(what)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--oracle", default="")
    arguments = parser.parse_args()
    sys.exit(main(arguments.count, arguments.seed, arguments.oracle))
