"""Writes quantized.json: what TensorFlow computes with integers that stand for numbers.

Needs TensorFlow: python make_quantized.py. Its own kernels are asked, since those of oneDNN round averages.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # is read as TensorFlow is imported
import tensorflow as tf

TYPES = {"quint8": "uint8", "qint8": "int8", "qint32": "int32"}
RNG = np.random.default_rng(0)
F32 = np.float32
Case = tuple[str, dict[str, Any], dict[str, Any]]  # an op, its inputs and its attributes


def integers(dtype: str, *shape: int) -> tf.Tensor:
    """Random integers of all sizes."""
    info = np.iinfo(TYPES[dtype])
    drawn = RNG.integers(info.min, info.max, shape, endpoint=True, dtype=TYPES[dtype])
    if dtype == "qint32" and RNG.random() < 0.5:
        drawn >>= 10
    return tf.bitcast(tf.constant(drawn), dtype)


def span(*, holds_zero: bool = False, is_wide: bool = False) -> tuple[np.float32, np.float32]:
    """A random range, which may be a point unless it must be wide, and leave out 0."""
    low = F32(RNG.choice([-RNG.random() * 5, -RNG.random() * 1e-2, 0, RNG.random()]))
    high = F32(
        low
        + F32(RNG.choice([RNG.random() * 6, RNG.random() * 1e-3, 0], p=[0.7, 0.3, 0] if is_wide else [0.7, 0.2, 0.1]))
    )
    return (min(low, F32(0)), max(high, F32(0))) if holds_zero else (low, high)


def symmetric() -> tuple[np.float32, np.float32]:
    """A range as products have it."""
    high = F32(RNG.random() * 10 ** float(RNG.integers(0, 5)))
    return -high, high


def named(names: str, *arrays: Any) -> dict[str, Any]:
    """The inputs of an op by their names."""
    return dict(zip(names.split(), arrays, strict=True))


def other_ranges() -> Iterator[Case]:
    """Cases of the ops that compute and change ranges."""
    for _ in range(4):
        x, ends = integers("qint32", 2, 5), symmetric()
        inputs = named("input input_min input_max", x, *ends)
        yield "RequantizationRange", inputs, {}
        yield "QuantizeDownAndShrinkRange", inputs, {"out_type": "quint8"}
        lopsided = (ends[0], F32(ends[1] * F32(1.5)))
        for out_type in ("quint8", "qint8"):
            for pair in (ends, lopsided):
                names = "input input_min input_max requested_output_min requested_output_max"
                yield "Requantize", named(names, x, *pair, *span(holds_zero=True)), {"out_type": out_type}


def conversions() -> Iterator[Case]:
    """Cases between numbers and integers."""
    for _ in range(4):
        x = RNG.normal(size=(3, 4)).astype(F32) * 3
        for dtype in ("quint8", "qint8"):
            yield "QuantizeV2", named("input min_range max_range", x, *span()), {"T": dtype, "mode": "MIN_FIRST"}
        for dtype in TYPES:
            yield (
                "Dequantize",
                named("input min_range max_range", integers(dtype, 2, 3), *symmetric()),
                {"mode": "MIN_FIRST"},
            )


def sums_and_products() -> Iterator[Case]:
    """Cases of two operands, each with a range."""
    for index in range(6):
        dtype = ("quint8", "qint8")[index % 2]
        operands = integers(dtype, 2, 3, 4), integers(dtype, 4)
        names = "input bias min_input max_input min_bias max_bias"
        yield "QuantizedBiasAdd", named(names, *operands, *span(), *span()), {"out_type": "qint32"}
        x, y, names = (
            integers("quint8", 3, 4),
            integers("quint8", *((3, 4), (4,))[index % 2]),
            "x y min_x max_x min_y max_y",
        )
        yield "QuantizedAdd", named(names, x, y, *span(is_wide=True), *span(is_wide=True)), {}
        yield "QuantizedMul", named(names, x, y, *span(is_wide=True), *span(is_wide=True)), {}
        flips = {"transpose_a": bool(index % 2), "transpose_b": bool(index % 3)}
        factors = [integers("quint8", *(size[::-1] if flip else size))
                   for size, flip in zip(((3, 5), (5, 2)), flips.values(), strict=True)]  # fmt: skip
        yield (
            "QuantizedMatMul",
            named("a b min_a max_a min_b max_b", *factors, *span(is_wide=True), *span(is_wide=True)),
            flips,
        )


def pictures() -> Iterator[Case]:
    """Cases of windows over pictures. Where windows of a convolution read pads, its range holds 0."""
    for index in range(12):
        padding, stride = ("SAME", "VALID")[index % 2], 1 + index // 2 % 4
        height, width, rows, columns = (int(size) for size in RNG.integers([4, 4, 1, 1], [9, 9, 4, 4]))
        step = {"strides": [1, stride, stride, 1], "padding": padding}
        x, w = integers("quint8", 2, height, width, 2), integers("quint8", rows, columns, 2, 3)
        names = "input filter min_input max_input min_filter max_filter"
        yield (
            "QuantizedConv2D",
            named(names, x, w, *span(holds_zero=padding == "SAME", is_wide=True), *span(is_wide=True)),
            step,
        )
        window = {"ksize": [1, min(rows, height), min(columns, width), 1], **step}
        for op in ("QuantizedMaxPool", "QuantizedAvgPool"):
            values = integers(("quint8", "qint8")[index // 2 % 2], 1, height, width, 3)
            yield op, named("input min_input max_input", values, *span()), window


def others() -> Iterator[Case]:
    """Cases of the ops that keep what the integers stand for."""
    for index in range(4):
        dtype = ("quint8", "qint32")[index % 2]
        x = integers(dtype, 2, 3)
        ends = span() if dtype == "quint8" else symmetric()
        for op in ("QuantizedRelu", "QuantizedRelu6"):
            yield op, named("features min_features max_features", x, *ends), {"out_type": dtype}
        yield "QuantizedReshape", named("tensor shape input_min input_max", x, np.int32([3, -1]), *ends), {}
        pairs = [span(), span()] if dtype == "quint8" else [symmetric(), symmetric()]
        lows, highs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        parts = [x, integers(dtype, 2, 2)]
        yield "QuantizedConcat", named("concat_dim values input_mins input_maxes", np.int32(1), parts, lows, highs), {}


def written(value: Any) -> list[Any]:
    """Type and elements of a tensor."""
    tensor = tf.convert_to_tensor(value)
    dtype = tensor.dtype.name
    return [dtype, (tf.bitcast(tensor, TYPES[dtype]) if dtype in TYPES else tensor).numpy().tolist()]


def main() -> None:
    """Run all cases."""
    rows = []
    for part in (other_ranges, conversions, sums_and_products, pictures, others):
        for op, inputs, attrs in part():
            results = getattr(tf.raw_ops, op)(**inputs, **attrs)
            flat = [item for value in inputs.values() for item in (value if isinstance(value, list) else [value])]
            outputs = results if isinstance(results, list | tuple) else [results]
            rows.append(json.dumps([op, attrs, [*map(written, flat)], [*map(written, outputs)]], separators=(",", ":")))
    text = "[\n" + ",\n".join(rows) + "\n]\n"
    Path(__file__).with_name("quantized.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
