"""Time an iteration of models with states: as single runs, in one call, and in a package that repeats itself.

    python benchmarks/iterations.py [--rounds 20] [--iterations 1000] [--threads 1] [MODEL.onnx STEPPED OUT=IN,…]

Each line shows microseconds an iteration, the minimum over the rounds, the ways in turn. `single` calls `run` and gives
states to the next call, `out` writes them into memory that alternates, `in C` is `run_iterations`, `loop` one run of a
package of `--iterations_per_loop`, which collectives exclude. Results of the first three are compared bit by bit.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from feeds import feeds_for

import atcpy

EXAMPLES = Path(__file__).parents[1] / "examples" / "sink"
Way = Callable[[], list[np.ndarray]]


class Case:
    """A model whose input `stepped` has a value for each of `n` iterations, and whose outputs are `state`."""

    def __init__(self, path: Path, stepped: str, state: dict[str, str], n: int) -> None:
        self.path, self.stepped, self.state, self.n = path, stepped, state, n
        feeds = feeds_for(path)
        rng = np.random.default_rng(0)
        steps = [(feeds[stepped] * rng.standard_normal()).astype(feeds[stepped].dtype) for _ in range(n)]
        self.feeds = {**feeds, stepped: np.stack(steps)}

    def single(self, session: atcpy.InferenceSession | onnxruntime.InferenceSession) -> list[np.ndarray]:
        """Hand the outputs of each run to the next one."""
        names, now = [port.name for port in session.get_outputs()], dict(self.feeds)
        carried = [(old, names.index(new)) for new, old in self.state.items()]
        for step in self.feeds[self.stepped]:
            now[self.stepped] = step
            results = session.run(None, now)
            for old, number in carried:
                now[old] = results[number]
        return list(results)

    def alternating(self, session: atcpy.InferenceSession) -> list[np.ndarray]:
        """The same into two sets of memory, in turn."""
        ports = session.get_outputs()
        names, now = [port.name for port in ports], dict(self.feeds)
        memory = [[np.empty(port.shape, port.dtype.numpy) for port in ports] for _ in range(2)]
        carried = [(old, names.index(new)) for new, old in self.state.items()]
        for number, step in enumerate(self.feeds[self.stepped]):
            now[self.stepped] = step
            results = session.run(None, now, out=memory[number % 2])
            for old, index in carried:
                now[old] = results[index]
        return list(results)

    def in_c(self, session: atcpy.InferenceSession) -> list[np.ndarray]:
        """One call."""
        return list(session.run_iterations(self.feeds, self.n, state=self.state))


def compare(name: str, case: Case, rounds: int, threads: int) -> str:
    """Measure one model and format its line."""
    model = onnx.load(case.path)
    has_collectives = any(node.domain == "hccl" for node in model.graph.node)
    with tempfile.TemporaryDirectory() as folder:
        single, loop = Path(folder) / "single.om", Path(folder) / "loop.om"
        atcpy.convert(case.path, single)
        session = atcpy.InferenceSession(single, threads=threads)
        ways: list[Way | None] = [
            lambda: case.single(session),
            lambda: case.alternating(session),
            lambda: case.in_c(session),
            None,
            None,
        ]
        if not has_collectives:
            options = {"iterations_per_loop": case.n, "state": case.state, "stepped": [case.stepped]}
            atcpy.convert(case.path, loop, **options)
            repeating = atcpy.InferenceSession(loop, threads=threads)
            ways[3] = lambda: repeating.run(None, case.feeds)
            settings = onnxruntime.SessionOptions()
            settings.intra_op_num_threads = threads
            peer = onnxruntime.InferenceSession(str(case.path), settings, providers=["CPUExecutionProvider"])
            ways[4] = lambda: case.single(peer)
        first = [None if way is None else way() for way in ways]
        for other in first[1:3]:
            for a, b in zip(first[0] or [], other or [], strict=True):
                np.testing.assert_array_equal(a, b)
        best = [np.inf] * len(ways)
        for _ in range(rounds):
            for number, way in enumerate(ways):
                if way is not None:
                    start = time.perf_counter()
                    way()
                    best[number] = min(best[number], 1e6 * (time.perf_counter() - start) / case.n)
    columns = " ".join(f"{'-':>9}" if value == np.inf else f"{value:9.2f}" for value in best)
    return f"{name:28} {columns} {best[0] / best[2]:7.1f}x"


def cases(folder: Path, n: int) -> dict[str, Case]:
    """The models of the examples."""
    sys.path.insert(0, str(EXAMPLES))
    from gradient_descent import STATE, training_step
    from rnn_step import gru_step

    reduce = 'hccl.HcomAllReduce<reduction = "mean">'
    models = {
        "GRU step of width 16": (gru_step(16), {"h2": "h"}),
        "GRU step of width 256": (gru_step(256), {"h2": "h"}),
        "training step": (training_step(32), STATE),
        "training step, 1 collective": (training_step(32, reduce=reduce), STATE),
    }
    found = {}
    for number, (name, (model, state)) in enumerate(models.items()):
        onnx.save(model, folder / f"{number}.onnx")
        found[name] = Case(folder / f"{number}.onnx", "x", state, n)
    return found


def main() -> None:
    """Measure all, or the model of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="*", help="a model, the input to step through, and its states")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    print(f"{'microseconds an iteration':28} {'single':>9} {'out':>9} {'in C':>9} {'loop':>9} {'ort':>9} {'saved':>8}")
    with tempfile.TemporaryDirectory() as folder:
        if options.model:
            path, stepped, states = options.model
            state = dict(pair.split("=", 1) for pair in states.split(","))
            found = {Path(path).stem: Case(Path(path), stepped, state, options.iterations)}
        else:
            found = cases(Path(folder), options.iterations)
        for name, case in found.items():
            print(compare(name, case, options.rounds, options.threads), flush=True)


if __name__ == "__main__":
    main()
