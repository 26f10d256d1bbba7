"""Time models with independent branches with streams and without, by `atcpy bench --streams`.

    python benchmarks/streams.py [--min_time 3] [--threads 2] [MODEL.onnx …]

Each line shows the microseconds of a run without streams and with them, medians of runs in turns, the ratio, and both
arenas. Results are compared bit by bit.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from feeds import feeds_for
from onnx import TensorProto, helper, numpy_helper

import atcpy


class Builder:
    """A model with seeded weights."""

    def __init__(self, *shape: int) -> None:
        self.rng = np.random.default_rng(0)
        self.shape, self.nodes, self.weights = shape, [], []  # type: ignore[var-annotated]

    def weight(self, *shape: int) -> str:
        """A constant of values near 0, and its name."""
        name = f"w{len(self.weights)}"
        values = self.rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def op(self, op_type: str, *inputs: str, **attrs: object) -> str:
        """A node, and the name of its output."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name, **attrs))
        return name

    def conv(self, x: str, channels: int, count: int, size: int) -> str:
        """A convolution that keeps the pixels, and its activation."""
        weight = self.weight(count, channels, size, size)
        return self.op("Relu", self.op("Conv", x, weight, pads=[size // 2] * 4))

    def model(self, y: str) -> onnx.ModelProto:
        """The model with output `y`."""
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        graph = helper.make_graph(self.nodes, "g", [x], [onnx.ValueInfoProto(name=y)], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def small_branches() -> onnx.ModelProto:
    """32 branches of four small products each."""
    b, ends = Builder(8, 64), []
    for _ in range(32):
        h = "x"
        for _ in range(4):
            h = b.op("Relu", b.op("MatMul", h, b.weight(64, 64)))
        ends.append(h)
    return b.model(b.op("Concat", *ends, axis=1))


def inception() -> onnx.ModelProto:
    """Six blocks of four branches on 14 × 14 pixels."""
    b, h, channels = Builder(1, 64, 14, 14), "x", 64
    for _ in range(6):
        pooled = b.op("MaxPool", h, kernel_shape=[3, 3], pads=[1] * 4)
        parts = [
            b.conv(h, channels, 32, 1),
            b.conv(b.conv(h, channels, 24, 1), 24, 32, 3),
            b.conv(b.conv(h, channels, 8, 1), 8, 16, 5),
            b.conv(pooled, channels, 16, 1),
        ]
        h, channels = b.op("Concat", *parts, axis=1), 96
    return b.model(h)


def towers() -> onnx.ModelProto:
    """Two towers of six convolutions, of pixels that fill the threads."""
    b, ends = Builder(1, 3, 64, 64), []
    for _ in range(2):
        h, channels = "x", 3
        for layer in range(6):
            h, channels = b.conv(h, channels, 32, 3), 32
            if layer % 2 == 1:
                h = b.op("MaxPool", h, kernel_shape=[2, 2], strides=[2, 2])
        ends.append(b.op("Flatten", b.op("GlobalAveragePool", h)))
    return b.model(b.op("MatMul", b.op("Concat", *ends, axis=1), b.weight(64, 10)))


def recurrent() -> onnx.ModelProto:
    """Four LSTMs that read one sequence."""
    b, ends = Builder(16, 1, 64), []
    for number in range(4):
        inputs = ["x", b.weight(1, 256, 64), b.weight(1, 256, 64)]
        b.nodes.append(helper.make_node("LSTM", inputs, ["", f"h{number}"], f"l{number}", hidden_size=64))
        ends.append(f"h{number}")
    return b.model(b.op("Concat", *ends, axis=2))


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "small branches": small_branches,
    "inception": inception,
    "towers": towers,
    "recurrent": recurrent,
}


def compare(path: Path, seconds: float, threads: int) -> str:
    """Measure one model and format its line."""
    feeds, results, arenas = feeds_for(path), [], []
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "m.om"
        for single in (True, False):
            arenas.append(atcpy.convert(path, package, enable_single_stream=single).memory.arena)
            results.append(atcpy.InferenceSession(package, threads=threads).run(None, feeds))
        times = atcpy.bench(
            package, streams=True, vs_model=path, input_data=feeds, min_time=seconds, threads=threads
        ).streams
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    single_us, streams_us = 1e6 * times.without_streams, 1e6 * times.with_streams
    return (
        f"{path.stem:24} {single_us:10.1f} {streams_us:10.1f} {times.ratio.ratio:7.2f}x {arenas[0]:12} {arenas[1]:12}"
    )


def main() -> None:
    """Measure all, or the models of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--min_time", type=float, default=3.0)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    print(f"{'':24} {'single us':>10} {'streams us':>10} {'saves':>8} {'arena':>12} {'with streams':>12}")
    for path in options.models:
        print(compare(path, options.min_time, options.threads), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, make in MODELS.items() if not options.models else ():
            path = Path(folder) / f"{name}.onnx"
            onnx.save(make(), path)
            print(compare(path, options.min_time, options.threads), flush=True)


if __name__ == "__main__":
    main()
