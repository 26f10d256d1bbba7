"""The definition of each op on arrays: the ONNX reference, corrected where it deviates from the standard."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from atcpy.ir.tensor import Array
from tests.fuzz.builder import OPSET

Run = Callable[[Mapping[str, Array]], Array]


def by_reference(node: onnx.NodeProto, output: int = 0) -> Run:
    """One output of a node as the ONNX reference computes it."""
    names = [name for name in node.input if name]
    graph = helper.make_graph(
        [node],
        "node",
        [helper.make_value_info(name, onnx.TypeProto()) for name in dict.fromkeys(names)],
        [helper.make_value_info(name, onnx.TypeProto()) for name in node.output],
    )
    evaluator = ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)]))

    def run(feeds: Mapping[str, Array]) -> Array:
        return np.asarray(evaluator.run(None, dict(feeds))[output])

    return run


def _attr(node: onnx.NodeProto, name: str, default: object) -> Any:
    return next((helper.get_attribute_value(attr) for attr in node.attribute if attr.name == name), default)


def _pow(node: onnx.NodeProto) -> Run:
    """The reference converts some pairs of integer dtypes through float64."""
    reference = by_reference(node)

    def run(feeds: Mapping[str, Array]) -> Array:
        a, b = (feeds[name] for name in node.input)
        if a.dtype.kind == "f" or b.dtype.kind == "f":
            return reference(feeds)
        wrap = 1 << 8 * a.itemsize
        powers = np.frompyfunc(lambda x, e: pow(int(x), int(e), wrap), 2, 1)(a, b)
        return np.asarray(powers).astype(np.uint64).astype(a.dtype)

    return run


def _sum(node: onnx.NodeProto) -> Run:
    """The reference starts its sum at 0, which loses the sign of −0."""
    divisor = len(node.input) if node.op_type == "Mean" else 1
    return lambda feeds: reduce(np.add, [feeds[name] for name in node.input]) / divisor


def _prelu(node: onnx.NodeProto) -> Run:
    """The reference multiplies 0 by the slope, which gives NaN for an infinite slope."""

    def run(feeds: Mapping[str, Array]) -> Array:
        x, slope = (feeds[name] for name in node.input)
        return np.where(x < 0, x * slope, x)

    return run


def _softsign(node: onnx.NodeProto) -> Run:
    """The reference fails on scalars."""
    return lambda feeds: feeds[node.input[0]] / (1 + np.abs(feeds[node.input[0]]))


def _erf(node: onnx.NodeProto) -> Run:
    """The reference rounds an intermediate to float32."""
    return lambda feeds: np.asarray(np.vectorize(math.erf, otypes=[np.float64])(feeds[node.input[0]]))


def _hard_swish(node: onnx.NodeProto) -> Run:
    """The reference rounds 1/6 to float32."""
    return lambda feeds: feeds[node.input[0]] * np.clip(feeds[node.input[0]] / 6 + 0.5, 0, 1)


def _shrink(node: onnx.NodeProto) -> Run:
    """The reference adds the bias to integers as floats."""
    reference = by_reference(node)
    bias, lambd = _attr(node, "bias", 0.0), _attr(node, "lambd", 0.5)

    def run(feeds: Mapping[str, Array]) -> Array:
        x = feeds[node.input[0]]
        if x.dtype.kind == "f" or bias != int(bias):
            return reference(feeds)
        whole = np.array(int(bias)).astype(x.dtype)
        return np.where(x < -lambd, x + whole, np.where(x > lambd, x - whole, 0)).astype(x.dtype)

    return run


def _gelu(node: onnx.NodeProto) -> Run:
    """The reference's constants are float32."""

    def run(feeds: Mapping[str, Array]) -> Array:
        x = feeds[node.input[0]]
        if _attr(node, "approximate", b"none") == b"tanh":
            return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        return x / 2 * (1 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2)))

    return run


def _mean(node: onnx.NodeProto) -> Run:
    """The reference divides integers as floats."""
    reference = by_reference(node)
    total = onnx.NodeProto()
    total.CopyFrom(node)
    total.op_type = "ReduceSum"
    of_sum = by_reference(total)

    def run(feeds: Mapping[str, Array]) -> Array:
        x = feeds[node.input[0]]
        if x.dtype.kind == "f":
            return reference(feeds)
        sums = of_sum(feeds).astype(x.dtype)
        count = max(x.size // max(sums.size, 1), 1)
        exact = [abs(int(item)) // count * (1 if item >= 0 else -1) for item in sums.reshape(-1)]
        return np.array(exact, x.dtype).reshape(sums.shape)

    return run


def _log_sum_exp(node: onnx.NodeProto) -> Run:
    """The reference subtracts ∞ from ∞."""

    def run(feeds: Mapping[str, Array]) -> Array:
        x, *axes = (feeds[name] for name in node.input)
        over = tuple(int(axis) for axis in axes[0]) if axes and axes[0].size else None  # then over all
        return np.asarray(np.logaddexp.reduce(x, axis=over, keepdims=bool(_attr(node, "keepdims", 1))))

    return run


def _max_pool(node: onnx.NodeProto) -> Run:
    """The reference fails if pads are wider than the input. Only 3×3 windows with pads of 1."""

    def run(feeds: Mapping[str, Array]) -> Array:
        padded = np.pad(feeds[node.input[0]], [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-np.inf)
        return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3)).max((-2, -1)))

    return run


def _flatten(node: onnx.NodeProto) -> Run:
    """The reference leaves a size to numpy, which cannot tell it where there are no elements."""
    axis = _attr(node, "axis", 1)

    def run(feeds: Mapping[str, Array]) -> Array:
        x = feeds[node.input[0]]
        return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))

    return run


# Ops whose reference implementation deviates from the standard.
OWN: Mapping[str, Callable[[onnx.NodeProto], Run]] = {
    "Flatten": _flatten,
    "MaxPool": _max_pool,
    "Pow": _pow,
    "PRelu": _prelu,
    "Sum": _sum,
    "Mean": _sum,
    "Softsign": _softsign,
    "Gelu": _gelu,
    "Erf": _erf,
    "HardSwish": _hard_swish,
    "Shrink": _shrink,
    "ReduceMean": _mean,
    "ReduceLogSumExp": _log_sum_exp,
}
