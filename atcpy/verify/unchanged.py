"""Does a result compute what its source computes, node by node? Then there is nothing in it to run.

Told by the models alone, not by what the passes say that they did.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from atcpy.exporters.onnx import Constant, Rewritten
from atcpy.parsers.onnx.order import captured_names

_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


def is_unchanged(source: onnx.ModelProto, constants: Mapping[str, Constant], rewritten: Rewritten) -> bool:
    """Is every node of the result one of the source's, whose `constants` these are, and so is all that it reads?"""
    result = rewritten.model
    if _meanings(source) != _meanings(result):
        return False
    known = {info.name for info in source.graph.input}.intersection(info.name for info in result.graph.input)
    for constant in rewritten.constants:
        own = constants.get(constant.proto.name)
        if own is None or own.proto != constant.proto or not _same_bytes(own.data, constant.data):
            return False
        known.add(constant.proto.name)
    nodes = {proto.output[0]: proto for proto in source.graph.node if proto.output}
    known.add("")  # what is left out
    for proto in result.graph.node:
        if not proto.output or proto != nodes.get(proto.output[0]):
            return False
        reads = {*proto.input}
        if any(attr.type in _GRAPHS for attr in proto.attribute):
            reads |= captured_names(proto)
        if not known >= reads:
            return False
        known.update(proto.output)
    return all(info.name in known for info in source.graph.output)


def _same_bytes(mine: memoryview | None, theirs: memoryview | None) -> bool:
    return mine is theirs or mine == theirs


def _meanings(model: onnx.ModelProto) -> tuple[object, ...]:
    """What the ops of a model mean."""
    versions = {("" if entry.domain == "ai.onnx" else entry.domain, entry.version) for entry in model.opset_import}
    return versions, [function.SerializeToString(deterministic=True) for function in model.functions]
