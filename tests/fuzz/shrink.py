"""Minimise a failing case: keep one output, and feed intermediate values instead of computing them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx

from atcpy.ir import DType
from tests.fuzz.builder import Case, Value, make_model
from tests.fuzz.oracle import Oracle

Fails = Callable[[Case], bool]


def shrink(case: Case, fails: Fails) -> Case:
    """Return the smallest case found that still fails."""
    for output in case.model.graph.output:
        smaller = _part(case, [output.name], set())
        if len(smaller.model.graph.output) < len(case.model.graph.output) and _still(smaller, fails):
            case = smaller
            break
    progress = True
    while progress:
        progress = False
        outputs = {value.name for value in case.model.graph.output}
        for node in case.model.graph.node:
            if outputs.intersection(node.output):
                continue
            smaller = _part(case, sorted(outputs), set(node.output))
            if _still(smaller, fails):
                case, progress = smaller, True
                break
    return case


def _still(case: Case, fails: Fails) -> bool:
    try:
        return fails(case)
    except Exception:  # noqa: BLE001  another failure is not the one that is looked for
        return False


def _part(case: Case, outputs: Sequence[str], fed: set[str]) -> Case:
    """The subgraph that computes `outputs`, with the values `fed` as inputs, fed with the oracle's results."""
    graph = case.model.graph
    inferred = onnx.shape_inference.infer_shapes(case.model).graph
    types = {value.name: value for value in (*inferred.value_info, *inferred.output, *inferred.input)}
    needed, nodes = set(outputs), []
    for node in reversed(graph.node):
        if any(name in needed and name not in fed for name in node.output):
            nodes.append(node)
            needed |= set(node.input)
    oracle = Oracle(case)
    feeds = dict(case.feeds)
    for name in fed & needed:
        feeds[name] = oracle.values[name][0].astype(oracle.dtypes[name].numpy)
    feeds = {name: array for name, array in feeds.items() if name in needed}
    inputs = [_value(types[name]) for name in feeds]
    constants = [tensor for tensor in graph.initializer if tensor.name in needed]
    model = make_model(nodes[::-1], inputs, [_value(types[name]) for name in outputs], constants)
    return Case(model, feeds)


def _value(info: onnx.ValueInfoProto) -> Value:
    tensor = info.type.tensor_type
    return Value(info.name, DType.from_onnx(tensor.elem_type), tuple(dim.dim_value for dim in tensor.shape.dim))
