"""Time models with fixed sizes against the same models with open batch, height and width, in alternating runs.

    python benchmarks/open_sizes.py model.onnx … [--rounds 30]

Both packages get the arrays of the fixed sizes, and one thread. The lines of the table show the minima and the numbers
of tasks; a ratio above 1 says that open sizes are faster.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import onnx
from feeds import feeds_for

import atcpy

_PICTURE_DIMS = {0: "batch", 2: "height", 3: "width"}
_ROW_DIMS = {0: "batch", 1: "length"}


def with_open_sizes(path: Path, target: Path) -> None:
    """Write a copy of a model whose inputs have open dims: of pictures all but the channels, of rows both."""
    model = onnx.load(path)
    for port in model.graph.input:
        dims = port.type.tensor_type.shape.dim
        for axis, name in {4: _PICTURE_DIMS, 2: _ROW_DIMS}.get(len(dims), {}).items():
            dims[axis].dim_param = name
    for port in model.graph.output:
        port.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    onnx.save(model, target, save_as_external_data=True, location="weights.bin")


def compare(path: Path, rounds: int) -> str:
    """Measure one model and format its line."""
    feeds = feeds_for(path)
    with tempfile.TemporaryDirectory() as folder:
        with_open_sizes(path, Path(folder) / "open.onnx")
        sessions = []
        for model in (path, Path(folder) / "open.onnx"):
            package = Path(folder) / f"{model.parent.name}_{model.stem}.om"
            atcpy.convert(model, package)
            sessions.append(atcpy.InferenceSession(package, threads=1))
        times: list[list[float]] = [[], []]
        for round_ in range(rounds + 1):
            for number in (0, 1) if round_ % 2 else (1, 0):
                start = time.perf_counter()
                sessions[number].run(None, feeds)
                times[number] += [1e3 * (time.perf_counter() - start)] if round_ else []
    fixed, opened = map(min, times)
    tasks = [len(session.plans[0].tasks) for session in sessions]
    return f"| {path.stem} | {fixed:.2f} | {opened:.2f} | {fixed / opened:.2f} | {tasks[0]} | {tasks[1]} |"


def table(paths: list[Path], rounds: int) -> Iterator[str]:
    """The lines of the table."""
    yield "| model | fixed, ms | open, ms | ratio | tasks | tasks of open sizes |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for path in paths:
        yield compare(path, rounds)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=30)
    args = parser.parse_args()
    for line in table(args.models, args.rounds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
