"""Integers that stand for numbers, to the bit as TensorFlow computes them: quantized.json, by make_quantized.py."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atcpy.errors import AtcError
from atcpy.options import ParseOptions
from atcpy.parsers.tensorflow import import_tensorflow
from tests.parsers.tensorflow.cases import MODES, Case, Const, Either, check
from tests.parsers.tensorflow.graphs import Array, TfBuilder, Type

DTYPES = {"quint8": "uint8", "qint8": "int8", "qint32": "int32"}


def array(dtype: str, elements: Any) -> Array:
    return np.array(elements, DTYPES.get(dtype, dtype))


def attr(value: Any) -> Any:
    return Type(value) if isinstance(value, str) and value in DTYPES else value


def operand(op: str, index: int, x: Array) -> Any:
    """Data; a constant that must be one; or a filter, a bias or the end of a range."""
    if x.dtype == np.int32 and op in ("QuantizedConcat", "QuantizedReshape") and index == (op == "QuantizedReshape"):
        return Const(x)
    return x if index == 0 or (x.ndim > 0 and op != "QuantizedConv2D") else Either(x)


@cache
def cases() -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for op, attrs, inputs, outputs in json.loads(Path(__file__).with_name("quantized.json").read_text("utf-8")):
        operands = [operand(op, index, array(*item)) for index, item in enumerate(inputs)]
        own = {name: attr(value) for name, value in attrs.items()}
        if op == "QuantizedConcat":
            own["N"] = len(inputs) // 3
        found.setdefault(op, []).append(Case(op, operands, [array(*item) for item in outputs], own, tolerance=0.0))
    return found


@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=[pytest.mark.slow] if mode == "computed" else []) for mode in MODES]
)
@pytest.mark.parametrize("op", sorted(cases()))
def test_tensorflow_computes_the_same(tmp_path: Path, op: str, mode: str) -> None:
    check(tmp_path, cases()[op], mode)


RANGE = [np.float32(0), np.float32(1)]


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"),
    [
        ("Requantize", [np.zeros(2, np.int32), *RANGE, np.float32(0.5), np.float32(1)], {"out_type": Type("quint8")},
         "requested_output_min is 0.5: 0 must lie in the range"),
        ("QuantizedRelu", [np.zeros(2, np.uint8), *RANGE], {"out_type": Type("qint32")}, "type int32 of uint8"),
        ("QuantizedMul", [np.zeros(2, np.uint8)] * 2 + RANGE * 2, {"Toutput": Type("quint8")},
         "(?s)results of type uint8.*take qint32, and requantize it"),
        ("QuantizedConcat", [np.int32(0), *[np.zeros(2, np.uint8)] * 2, *RANGE], {"N": 2},
         "5 inputs for 2 values and their ranges"),
        ("QuantizedConv2D", [np.zeros((1, 3, 3, 1), np.uint8), np.zeros((1, 1, 1, 1), np.uint8), *RANGE * 2],
         {"strides": [1, 1, 2, 1], "padding": "SAME"}, "one stride, no dilation"),
        ("QuantizedAvgPool", [np.zeros((1, 3, 3, 1), np.uint8), *RANGE],
         {"ksize": [1, 1, 1, 2], "strides": [1, 1, 1, 1], "padding": "SAME"}, "a window over the batch"),
    ],
)  # fmt: skip
def test_what_tensorflow_has_no_kernel_for_is_refused(
    tmp_path: Path, op: str, inputs: list[Array], attrs: dict[str, Any], message: str
) -> None:
    g = TfBuilder()
    g.add(op, g.input("x", str(inputs[0].dtype), inputs[0].shape), *map(g.const, inputs[1:]), name="y", **attrs)
    with pytest.raises(AtcError, match=message):
        g.converted(tmp_path, "y")


def test_zero_points_that_are_constants_are_inputs_of_the_product(tmp_path: Path) -> None:
    """Without sums of the factors, unless 0 lies outside of a range."""
    for low, products in ((-1.0, 1), (0.5, 2)):
        g = TfBuilder()
        ranges = [g.const(np.float32(end)) for end in (low, 2, -1, 1)]
        x, w = g.input("x", "uint8", (None, 3)), g.const(np.arange(6, dtype=np.uint8).reshape(3, 2))
        g.add("QuantizedMatMul", x, w, *ranges, name="y")
        g.converted(tmp_path, "y")
        parsed = import_tensorflow(tmp_path / "model.pb", ParseOptions(out_nodes=("y:0",)))
        assert sum(node.op_type == "MatMulInteger" for node in parsed.graph.nodes) == products
