"""Time models with symbolic dims at shapes new to the session, against ONNX Runtime, in alternating runs.

    python benchmarks/new_shapes.py model.onnx … [--shapes 40] [--equal total=past+new] [--seed 1]

Sizes are random: 1 to 4 for first axes, multiples of 32 from 64 to 320 for images, else 1 to 128. `--equal` declares
dims that are sums of others. Both engines get one thread, the same arrays, and an untimed first run at another shape.
Each line shows the geometric mean over the shapes of ONNX Runtime's time over ours, the medians in milliseconds, the
number of shapes compiled at run time, and the largest difference of the results.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import atcpy

Feeds = dict[str, Any]
_DTYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8}


def draw_sizes(ports: Any, equal: Mapping[str, str], rng: random.Random) -> dict[str, int]:
    """A size for each symbolic dim, by its name or, if unnamed, its position."""
    sizes: dict[str, int] = {}
    for port in ports:
        for axis, dim in enumerate(port.shape):
            name = _name(port, axis, dim)
            if isinstance(dim, int) or name in sizes:
                continue
            is_picture = len(port.shape) == 4 and axis > 1
            sizes[name] = 32 * rng.randint(2, 10) if is_picture else rng.randint(1, 4 if axis == 0 else 128)
    for name, sum_of in equal.items():
        if name in sizes:
            sizes[name] = sum(sizes[part] for part in sum_of.split("+"))
    return sizes


def _name(port: Any, axis: int, dim: object) -> str:
    return dim if isinstance(dim, str) and dim else f"{port.name}.{axis}"


def make_feeds(ports: Any, sizes: Mapping[str, int], rng: np.random.Generator) -> Feeds:
    """Normally distributed floats; integers are 0 or 1, which are valid indices of any table."""
    feeds: Feeds = {}
    for port in ports:
        shape = [dim if isinstance(dim, int) else sizes[_name(port, axis, dim)] for axis, dim in enumerate(port.shape)]
        dtype = _DTYPES[port.type]
        floats = np.issubdtype(dtype, np.floating)
        feeds[port.name] = (rng.standard_normal(shape) if floats else rng.integers(0, 2, shape)).astype(dtype)
    return feeds


def timed(run: Callable[[None, Feeds], Any], feeds: Feeds) -> tuple[float, Any]:
    """Return the milliseconds of one run, and its results."""
    start = time.perf_counter()
    results = run(None, feeds)
    return 1e3 * (time.perf_counter() - start), results


def compare(path: Path, shapes: int, equal: Mapping[str, str], seed: int) -> str:
    """Measure one model and format its line."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    peer = onnxruntime.InferenceSession(str(path), options)
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "model.om"
        atcpy.convert(path, package)
        ours = atcpy.InferenceSession(package, threads=1)
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    ratios, times, difference = [], [], 0.0
    for round_ in range(shapes + 1):
        feeds = make_feeds(peer.get_inputs(), draw_sizes(peer.get_inputs(), equal, rng), numbers)
        found = {}
        for name, run in sorted((("ours", ours.run), ("peer", peer.run)), reverse=bool(round_ % 2)):
            found[name] = timed(run, feeds)
        pairs = zip(found["ours"][1], found["peer"][1], strict=True)
        difference = max(difference, *(float(np.abs(a.astype(float) - b).max(initial=0)) for a, b in pairs))
        if round_:
            times.append((found["ours"][0], found["peer"][0]))
            ratios.append(found["peer"][0] / found["ours"][0])
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    medians = [statistics.median(column) for column in zip(*times, strict=True)]
    cache = ours.shape_cache
    compiled = 0 if cache is None else cache.misses
    return (
        f"{path.stem:<26} {mean:6.2f}x   {medians[0]:8.2f} ms   ONNX Runtime {medians[1]:8.2f} ms   "
        f"{compiled} compiled   {difference:.1e}"
    )


def main() -> None:
    """Print one line per model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--shapes", type=int, default=40)
    parser.add_argument("--equal", action="append", default=[], metavar="NAME=A+B")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    equal = dict(item.split("=", 1) for item in args.equal)
    for path in args.models:
        print(compare(path, args.shapes, equal, args.seed), flush=True)


if __name__ == "__main__":
    main()
