"""Whether a rewritten model still has the nodes of its source: then its outputs need no comparison.

Decided from the two models alone, not from the records of the passes.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from atcpy.parsers.onnx.order import captured_names
from atcpy.rewrite.export import Constant, RewrittenModel

_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


def is_unchanged(source: onnx.ModelProto, constants: Mapping[str, Constant], rewritten: RewrittenModel) -> bool:
    """Whether the nodes of the result are nodes of the source, in its order, that read equal values. `constants` are
    those of the source.
    """
    result = rewritten.model
    if _meanings(source) != _meanings(result):
        return False
    known = {info.name for info in source.graph.input}.intersection(info.name for info in result.graph.input)
    for constant in rewritten.constants:
        own = constants.get(constant.proto.name)
        if own is None or not (own.proto is constant.proto or own.proto == constant.proto):
            return False
        if not (own.data is constant.data or own.data == constant.data):
            return False
        known.add(constant.proto.name)
    known.add("")  # what is left out
    rest = iter(source.graph.node)
    for proto in result.graph.node:
        for twin in rest:  # dead nodes are left out
            if twin == proto:
                break
        else:
            return False
        if not known.issuperset(proto.input):
            return False
        for attr in proto.attribute:
            if attr.type in _GRAPHS and not known.issuperset(captured_names(proto)):
                return False
        known.update(proto.output)
    return all(info.name in known for info in source.graph.output)


def _meanings(model: onnx.ModelProto) -> tuple[object, ...]:
    """What the ops of a model mean."""
    versions = {("" if entry.domain == "ai.onnx" else entry.domain, entry.version) for entry in model.opset_import}
    return versions, [function.SerializeToString(deterministic=True) for function in model.functions]
