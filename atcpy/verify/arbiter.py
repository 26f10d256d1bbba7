"""Who is right when a package and its oracle differ: the model once more, in float64.

Two float32 computations of one model drift apart where the model magnifies rounding, and an oracle
has errors of its own: ONNX Runtime's Sigmoid is exact to 1e-7 of one, not of its result. So a
difference beyond the tolerance is judged against float64: a package passes that is as near to it as
the tolerance asks, or no farther from it than ORACLE_ERRORS times the oracle, as the model is written
or as its users run it, optimised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx

from atcpy.errors import CustomOpError
from atcpy.ir import DType, Graph, Node, Tensor, Value
from atcpy.ir.tensor import Array
from atcpy.ops import Trait, find_opdef, has_trait
from atcpy.ops.core.reference import EVALUATION_ERRORS, evaluate_by_onnx
from atcpy.ops.custom import CustomOps
from atcpy.options import ParseOptions
from atcpy.parsers.onnx import import_onnx

ORACLE_ERRORS = 4.0


def evaluate_in_float64(
    model: Path | onnx.ModelProto, feeds: Mapping[str, Array], custom: CustomOps | None = None
) -> dict[str, Array] | None:
    """The outputs by name with every float32 widened to float64; None where that cannot be computed:
    control flow, random ops, ops that the ONNX reference has not in float64.
    """
    graph = import_onnx(model, ParseOptions(), custom).graph
    _widen(graph)
    memory: dict[Value, Array] = {}
    try:
        for node in graph.nodes:
            if node.has_subgraphs or has_trait(node, Trait.RANDOM):
                return None
            if node.op_type == "Data":
                memory[node.output] = _wide(np.asarray(feeds[node.output.name]))
            elif node.op_type == "NetOutput":
                return {value.name: memory[value] for value in node.operands}
            else:
                _evaluate(node, memory)
    except (CustomOpError, *EVALUATION_ERRORS):
        return None
    return None


def is_as_right(ours: Array, oracles: Sequence[Array], exact: Array, atol: float) -> bool:
    """True if our error against the exact result is within `atol`, or within what the oracles' own errors allow."""
    if exact.shape != ours.shape or not np.isfinite(exact).all():
        return False
    error, *theirs = (float(np.abs(array.astype(np.float64) - exact).max(initial=0)) for array in (ours, *oracles))
    return error <= max(atol, ORACLE_ERRORS * max(theirs))


def _evaluate(node: Node, memory: dict[Value, Array]) -> None:
    opdef = find_opdef(node)
    evaluate = evaluate_by_onnx if opdef is None or opdef.evaluate is None else opdef.evaluate
    arrays = [None if value is None else memory[value] for value in node.inputs]
    results: Sequence[Array]
    if node.op_type == "Const":
        results = [node.output.array]
    else:
        with np.errstate(all="ignore"):
            results = evaluate(node, arrays)
    for value, result in zip(node.outputs, results, strict=False):
        memory[value] = _wide(np.asarray(result))


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def _widen(graph: Graph) -> None:
    """Makes float64 of every float32 that a node carries or names."""
    for node in graph.nodes:
        for value in node.outputs:
            value.desc = type(value.desc)(DType.UNDEFINED, None)
        for name, attr in node.attrs.items():
            if isinstance(attr, Tensor) and attr.dtype is DType.FLOAT32:
                node.attrs[name] = Tensor.of(attr.array.astype(np.float64))
            elif name in {"to", "dtype"} and attr == DType.FLOAT32.onnx:
                node.attrs[name] = DType.FLOAT64.onnx
