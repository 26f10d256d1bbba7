"""The reference in float64, which decides where a package and its oracle differ.

Two float32 computations of one model drift apart where the model magnifies rounding, and an oracle has errors of its
own: ONNX Runtime's Sigmoid is exact to 1e-7 of one, not of its result. So a difference beyond the tolerance is judged
against float64: an output passes if its error there is within the tolerance, or at most ORACLE_ERRORS times that of the
oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

from atcpy.errors import CustomOpError, ModelInvalid
from atcpy.ir import DType, Graph, Node, Tensor, Value
from atcpy.ir.tensor import Array
from atcpy.ops import Trait, find_opdef, has_trait
from atcpy.ops.core.reference import EVALUATION_ERRORS, evaluate_by_onnx
from atcpy.ops.custom import CustomOps
from atcpy.options import ParseOptions
from atcpy.parsers.onnx import import_onnx
from atcpy.verify.compare import OutputReport

ORACLE_ERRORS = 4.0


def evaluate_in_float64(
    model: Path | onnx.ModelProto, feeds: Mapping[str, Array], custom: CustomOps | None = None
) -> dict[str, Array] | None:
    """Compute the outputs, by name, with every float32 widened to float64. Returns None where that is not possible:
    control flow, random ops, ops that the ONNX reference does not compute in float64, sizes that are computed in floats
    and are others in float64.
    """
    graph = import_onnx(model, ParseOptions(), custom).graph
    _widen(graph)
    memory: dict[Value, Array] = {}
    try:
        for node in graph.nodes:
            if node.has_subgraphs or has_trait(node, Trait.RANDOM):
                return None
            if node.op_type == "Data":
                memory[node.output] = _wide(_input(node, feeds))
            elif node.op_type == "NetOutput":
                return {value.name: memory[value] for value in node.operands}
            else:
                _evaluate(node, memory)
    except (CustomOpError, ModelInvalid, *EVALUATION_ERRORS):
        return None
    return None


def _input(node: Node, feeds: Mapping[str, Array]) -> Array:
    default = node.attrs.get("default")
    if node.output.name not in feeds and isinstance(default, Tensor):
        return default.array
    return np.asarray(feeds[node.output.name])


def recheck(
    outputs: Sequence[OutputReport],
    pairs: Sequence[tuple[str, Array, Array]],
    compute_exact: Callable[[], Mapping[str, Array] | None],
    run_optimised: Callable[[Sequence[str]], Sequence[Array]] | None = None,
    *,
    final: Collection[str] = (),
) -> tuple[OutputReport, ...]:
    """Return the reports with those float32 outputs passed that are as accurate as the oracle. `pairs` are the name,
    the actual and the expected array of each output. `run_optimised` computes outputs as the oracle's users see them,
    whose errors count as the oracle's, too. Outputs in `final` stay as they are.
    """
    doubtful = {
        output.name
        for output in outputs
        if not output.passed and output.code == "V0001" and output.is_float32 and output.name not in final
    }
    exact = compute_exact() if doubtful else None
    if exact is None:
        return tuple(outputs)
    names = [name for name, _, _ in pairs if name in exact]
    optimised = dict(zip(names, run_optimised(names), strict=True)) if run_optimised is not None else {}
    checked = []
    for output, (name, actual, expected) in zip(outputs, pairs, strict=True):
        if name in doubtful and name in exact:
            references = [expected, optimised.get(name, expected)]
            if is_as_accurate(actual, references, exact[name], output.atol):
                output = replace(output, passed=True, arbitrated=True)
        checked.append(output)
    return tuple(checked)


def is_as_accurate(actual: Array, references: Sequence[Array], exact: Array, atol: float) -> bool:
    """Whether the error of `actual` is within `atol`, or within what the errors of the references allow."""
    if exact.shape != actual.shape or not np.isfinite(exact).all():
        return False
    error, *others = (float(np.abs(array.astype(np.float64) - exact).max(initial=0)) for array in (actual, *references))
    return error <= max(atol, ORACLE_ERRORS * max(others))


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
