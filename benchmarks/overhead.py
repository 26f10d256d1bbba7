"""Measures what atcpy adds to kernels: a run, a task, and the wake-up of another thread.

    python benchmarks/overhead.py [--threads 2]

- A task: the slope of the time of models with 8 and 1008 nodes that compute next to nothing, their kernel included.
- A run: what is left of the smaller model, so to speak with no tasks: InferenceSession.run with checks and copies.
- The pool: pool_latency.c, compiled with core/pool.c: nanoseconds from the caller's call until all threads have begun
  their part, and from the end of the last part until the call returns; with workers that spin, as between the tasks of
  a run, and with workers that sleep, as after a pause.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import onnx
import typer
from onnx import TensorProto, helper

import atcpy

FEW, MANY = 8, 1008
ROUNDS: Final = 200
PAUSE_US: Final = 300  # workers spin for less
CSRC: Final = Path(__file__).parents[1] / "atcpy" / "kernels" / "csrc"


@dataclass(frozen=True)
class Latency:
    """Nanoseconds until all threads have begun, and from the last end to the return: median and 99th percentile."""

    begin: tuple[int, int]
    end: tuple[int, int]


def chain(count: int) -> onnx.ModelProto:
    """A model of as many nodes, each of which is a task of one number."""
    nodes = [helper.make_node("Softmax", [f"v{n}"], [f"v{n + 1}"]) for n in range(count)]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("v0", f"v{count}")]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def shortest(run: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The shortest seconds of some runs."""
    run()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def executor_ns(threads: int) -> tuple[float, float]:
    """Nanoseconds of a run without tasks, and of a task."""
    feeds = {"v0": np.ones(1, np.float32)}
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for count in (FEW, MANY):
            package = Path(folder) / "m.om"
            atcpy.convert(chain(count), package)
            with atcpy.InferenceSession(package, threads=threads) as session:
                assert len(session.profile(feeds)) == count, "a node is a task"
                seconds.append(shortest(partial(session.run, None, feeds)))
    task = (seconds[1] - seconds[0]) / (MANY - FEW)
    return 1e9 * (seconds[0] - FEW * task), 1e9 * task


def pool_latency(threads: int, pause_us: int, folder: Path) -> Latency:
    """Compile and run the measurement. Raises CalledProcessError."""
    program = folder / "pool_latency"
    sources = [str(Path(__file__).with_name("pool_latency.c")), str(CSRC / "core" / "pool.c")]
    flags = ["-std=c11", "-O2", "-D_GNU_SOURCE", f"-I{CSRC}", "-pthread", "-o", str(program)]
    if not program.exists():
        subprocess.run([*shlex.split(os.environ.get("CC", "cc")), *sources, *flags], check=True)
    ended = subprocess.run([program, str(threads), str(pause_us)], capture_output=True, text=True, check=True)
    begin, end = ([int(word) for word in line.split()] for line in ended.stdout.splitlines())
    return Latency((begin[0], begin[1]), (end[0], end[1]))


def main(
    threads: Annotated[int, typer.Option(min=2, help="threads of the pool, the caller's included")] = 2,
) -> None:
    """Prints a table in Markdown."""
    run_ns, task_ns = executor_ns(1)
    print("| what | median, ns | 99 % of them, ns |")
    print("| --- | ---: | ---: |")
    print(f"| a run, beside its tasks | {run_ns:.0f} | |")
    print(f"| a task, its kernel included | {task_ns:.0f} | |")
    with tempfile.TemporaryDirectory() as folder:
        for state, pause_us in (("spin", 0), ("sleep", PAUSE_US)):
            latency = pool_latency(threads, pause_us, Path(folder))
            print(f"| {threads} threads begin, workers {state} | {latency.begin[0]} | {latency.begin[1]} |")
            print(f"| their end is noticed, workers {state} | {latency.end[0]} | {latency.end[1]} |")


if __name__ == "__main__":
    typer.run(main)
