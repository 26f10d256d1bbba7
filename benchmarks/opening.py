"""Opens a model with one engine in a process of its own, and measures that: load_times.py runs it.

    python benchmarks/opening.py onnxruntime m.onnx 1 feeds.npz [MODULE …]      # prints JSON

`feeds.npz` has the inputs by name. The engine's modules, and those that are named, are imported before; which others
were imported since is printed. Memory is that of the whole process.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path

import numpy as np
from engines import ENGINES

RUNS = 3


def peak_bytes() -> int:
    """The most memory that this process had, by /proc."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def main(name: str, path: str, threads: str, feeds_file: str, *modules: str) -> None:
    """Print the seconds of opening and of the first run behind it, the peak of the memory, and what was imported."""
    engine = ENGINES[name]
    for module in (*engine.modules, *modules):
        importlib.import_module(module)
    with np.load(feeds_file) as archive:
        feeds = dict(archive)
    before = set(sys.modules)
    start = time.perf_counter()
    run = engine.open(Path(path), int(threads))
    opened = time.perf_counter()
    run(feeds)
    done = time.perf_counter()
    for _ in range(RUNS):
        run(feeds)
    imported = [module for module in sys.modules if module not in before]
    measured = {"open_s": opened - start, "first_run_s": done - opened, "peak_bytes": peak_bytes()}
    print(json.dumps(measured | {"imported": imported}))


if __name__ == "__main__":
    main(*sys.argv[1:])
