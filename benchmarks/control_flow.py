"""Time small models of control flow against ONNX Runtime, in alternating runs on one thread.

    python benchmarks/control_flow.py [--rounds 400]

Each line shows the microseconds of a run, the minimum over the rounds, and ONNX Runtime's time over ours.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import parser

import atcpy

RUNS = 20  # in a round

# A name, and a graph with the inputs c, a bool that is true, x, 64 floats, and s, ten rows of them.
MODELS = {
    "an If": """y = If(c) <then_branch = t () => (float[64] a) { a = Add(x, x) },
        else_branch = e () => (float[64] b) { b = Mul(x, x) }>""",
    "an If of open dims": """y = If(c) <then_branch = t () => (float[n] a) { a = Add(x, x) },
        else_branch = e () => (float[n] b) { b = Mul(x, x) }>""",
    "an If between nodes": """m = ReduceSum<keepdims = 0>(x)  z = Constant<value_float = 0.0>()  p = Greater(m, z)
        w = Relu(x)  v = If(p) <then_branch = t () => (float[64] a) { a = Add(w, w) },
        else_branch = e () => (float[64] b) { b = Mul(w, w) }>  y = Neg(v)""",
    "a Loop of 10": """k = Constant<value_int = 10>()  y = Loop(k, , x) <body = b (int64 i, bool d, float[64] v)
        => (bool g, float[64] w) { g = Identity(d)  w = Add(v, v) }>""",
    "a while of 11": """k = Constant<value = bool {1}>()  y = Loop(, k, x) <body = b (int64 i, bool d, float[64] v)
        => (bool g, float[64] w) { w = Add(v, v)  m = ReduceSum<keepdims = 0>(w)
        h = Constant<value_float = 100000.0>()  g = Less(m, h) }>""",
    "a Scan of 10": """y, z = Scan<num_scan_inputs = 1, body = b (float[64] v, float[64] e)
        => (float[64] w, float[64] r) { w = Add(v, e)  r = Identity(w) }>(x, s)""",
}


def timed(run: Callable[[], Any]) -> float:
    """Return the microseconds of a run, the mean of some."""
    run()
    start = time.perf_counter()
    for _ in range(RUNS):
        run()
    return 1e6 * (time.perf_counter() - start) / RUNS


def compare(name: str, rounds: int) -> str:
    """Measure one model and format its line."""
    x, s = np.ones(64, np.float32), np.ones((10, 64), np.float32)
    size = "n" if "[n]" in MODELS[name] else "64"
    inputs = {"c": ("bool", np.array(True)), "x": (f"float[{size}]", x), "s": ("float[10,64]", s)}
    body = MODELS[name]
    read = {
        key: value for key, value in inputs.items() if f"({key})" in body or f", {key})" in body or f"({key}," in body
    }
    ports = ", ".join(f"{kind} {key}" for key, (kind, _) in read.items())
    text = f'<ir_version: 10, opset_import: ["": 21]> g ({ports}) => (float[{size}] y) {{ {body} }}'
    model, feeds = parser.parse_model(text), {key: array for key, (_, array) in read.items()}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    peer = onnxruntime.InferenceSession(model.SerializeToString(), options)
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "model.om"
        atcpy.convert(model, package)
        ours = atcpy.InferenceSession(package, threads=1)
    np.testing.assert_allclose(ours.run(None, feeds)[0], peer.run(None, feeds)[0], rtol=1e-5)
    times = [(timed(lambda: ours.run(None, feeds)), timed(lambda: peer.run(None, feeds))) for _ in range(rounds)]
    own, other = (min(column) for column in zip(*times, strict=True))
    return f"{name:<22} {own:7.2f} us   ONNX Runtime {other:7.2f} us   {other / own:5.2f}x"


def main() -> None:
    """Print one line per model."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--rounds", type=int, default=400)
    for name in MODELS:
        print(compare(name, arguments.parse_args().rounds), flush=True)


if __name__ == "__main__":
    main()
