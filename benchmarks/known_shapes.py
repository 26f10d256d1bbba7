"""Time packages of open dims at shapes that the session has met, against packages that are fixed at these shapes.

    python benchmarks/known_shapes.py model.onnx … [--shapes 3] [--seconds 3] [--equal total=past+new] [--seed 1]

Sizes are drawn as in `new_shapes.py`. Both packages and ONNX Runtime run in turn, on one thread, for seconds at each
shape. Each line shows the microseconds of a run, the minimum of each, what the open package takes beyond the fixed one,
and ONNX Runtime's time over that of the open one.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import onnxruntime
from new_shapes import draw_sizes, make_feeds

import atcpy


def minima(runs: list[Callable[[], object]], seconds: float) -> list[float]:
    """Return the least microseconds of each, run in turn for some seconds after two untimed runs."""
    best = [float("inf")] * len(runs)
    for run in runs * 2:
        run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for index, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[index] = min(best[index], 1e6 * (time.perf_counter() - start))
    return best


def compare(path: Path, shapes: int, seconds: float, equal: Mapping[str, str], seed: int) -> Iterator[str]:
    """Measure a model at some shapes and format a line for each."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    peer = onnxruntime.InferenceSession(str(path), options)
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "open.om"
        atcpy.convert(path, package)
        ours = atcpy.InferenceSession(package, threads=1)
        for _ in range(shapes):
            feeds = make_feeds(peer.get_inputs(), draw_sizes(peer.get_inputs(), equal, rng), numbers)
            text = ";".join(f"{name}:{','.join(map(str, array.shape))}" for name, array in feeds.items() if array.ndim)
            atcpy.convert(path, Path(folder) / "fixed.om", input_shape=text)
            fixed = atcpy.InferenceSession(Path(folder) / "fixed.om", threads=1)
            sessions = (ours, fixed, peer)
            runs = [lambda session=session, feeds=feeds: session.run(None, feeds) for session in sessions]
            own, fixed_time, other = minima(runs, seconds)
            yield (
                f"{path.stem:<24} {own:9.1f} us   fixed {fixed_time:9.1f} us   {own - fixed_time:+7.1f} us"
                f"   ONNX Runtime {other:9.1f} us   {other / own:5.2f}x   {text[:60]}"
            )


def main() -> None:
    """Print one line for each model and shape."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--shapes", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--equal", action="append", default=[], metavar="NAME=A+B")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    equal = dict(item.split("=", 1) for item in args.equal)
    for path in args.models:
        for line in compare(path, args.shapes, args.seconds, equal, args.seed):
            print(line, flush=True)


if __name__ == "__main__":
    main()
