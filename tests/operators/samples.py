"""Nodes of each op with their inputs: those of the standard's test cases, and a few for those that load slowly."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import helper

from atcpy.ir import Tensor
from atcpy.ir.tensor import Array
from tests.conformance.cases import SLOW_MODULES, Case, load_cases

Key = tuple[str, str]  # domain, op
PER_OP = 6
_IMAGE = np.zeros((1, 3, 8, 8), np.float32)


@dataclass(frozen=True, slots=True)
class Sample:
    """One node as `tests.harness.make_node` takes it."""

    op_type: str
    domain: str
    arrays: tuple[Array | None, ...]
    attrs: Mapping[str, Any]
    outputs: int


_POOLS = [
    *[
        Sample(op, "", (image,), {"kernel_shape": (2,) * (image.ndim - 2)}, 1)
        for op in ("AveragePool", "LpPool", "MaxPool")
        for image in (_IMAGE, _IMAGE[..., 0])
    ],
    Sample("GlobalLpPool", "", (_IMAGE,), {}, 1),  # has no case
]


@cache
def cases() -> tuple[Case, ...]:
    """The standard's test cases but for the slow ones."""
    return tuple(load_cases(without=SLOW_MODULES))


@cache
def samples() -> Mapping[Key, Sequence[Sample]]:
    """At most PER_OP nodes of each op: those of different attributes first."""
    found: dict[Key, list[Sample]] = defaultdict(list)
    for sample in _POOLS:
        found[(sample.domain, sample.op_type)].append(sample)
    for case in cases():
        if "/" not in case.name:
            for sample in _sample(case):
                found[(sample.domain, sample.op_type)].append(sample)
    return {key: _varied(own)[:PER_OP] for key, own in found.items()}


def _varied(own: Sequence[Sample]) -> list[Sample]:
    first = {(str(dict(sample.attrs)), len(sample.arrays)): sample for sample in reversed(own)}
    kept = list(reversed(first.values()))
    return [*kept, *(sample for sample in own if not any(sample is other for other in kept))]


def _sample(case: Case) -> Iterator[Sample]:
    model = case.model()
    if len(model.graph.node) != 1:
        return
    node = model.graph.node[0]
    schema = onnx.defs.get_schema(node.op_type, domain=node.domain)
    if any(entry.domain == node.domain and entry.version < schema.since_version for entry in model.opset_import):
        return
    if any(attr.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.TYPE_PROTO) for attr in node.attribute):
        return
    for inputs, _ in case.data_sets():
        given = dict(zip((port.name for port in model.graph.input), inputs, strict=True))
        arrays = tuple(given.get(name) for name in node.input)
        if all(array is None or isinstance(array, np.ndarray) for array in arrays):
            yield Sample(node.op_type, node.domain, arrays, _attrs(node), len(node.output))
        return


def _attrs(node: onnx.NodeProto) -> dict[str, Any]:
    values = {attr.name: helper.get_attribute_value(attr) for attr in node.attribute}
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return value.decode()
        case onnx.TensorProto():
            return Tensor.of(onnx.numpy_helper.to_array(value))
        case list() | tuple():
            return tuple(_plain(item) for item in value)
        case _:
            return value


@cache
def cases_by_op(passing: tuple[str, ...]) -> Mapping[Key, int]:
    """How many of the passing cases have a node of the op; of the slow ones, which are not loaded, by name."""
    names = frozenset(passing)
    counts: dict[Key, int] = defaultdict(int)
    for case in cases():
        if case.name in names:
            for key in {(node.domain, node.op_type) for node in case.model().graph.node}:
                counts[key] += 1
    for op in ("AveragePool", "LpPool", "MaxPool"):
        counts[("", op)] += sum(bool(re.match(rf"test_{op.lower()}_", name)) for name in names)
    return counts
