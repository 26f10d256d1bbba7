"""Spell out ops that no engine runs, so that their parts can be: by the op's record, or by the function that the ONNX
standard defines it by.

LSTM(x, w, r)                →  Recurrence(x·wᵀ, rᵀ)
Attention(q, k, v)           →  MatMul, Softmax, MatMul …
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from atcpy.errors import CustomOpError, ModelInvalid
from atcpy.ir import DType, Graph, Node, PassRecord, Reject, Rewriter, Tensor, Value, erase_dead
from atcpy.ops import Trait, find_opdef
from atcpy.ops.core.infer import KnownValues, infer_node
from atcpy.ops.core.reference import function_body
from atcpy.ops.custom import custom_op_at
from atcpy.options import PrepareOptions, Stage
from atcpy.passes import folding
from atcpy.passes.base import graph_pass
from atcpy.passes.phase import Phase
from atcpy.passes.prepare.fold.constants import fold_constants

NAME = "ExpandPass"
MAX_ROUNDS = 8  # functions call functions; the standard's are at most three deep
# With these an engine would refuse the parts of an op as it refuses the op.
_STAYS = frozenset({"dtype", "shape-unknown", "empty", "control-flow"})
_KEPT_TRAITS = Trait.RANDOM | Trait.VIEW


@graph_pass(NAME, Phase.EXPAND, required=True, is_neutral=False)
def expand(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Spell out ops that no engine runs."""
    waiting = [node for node in graph.nodes if not node.has_subgraphs or _has_expansion(node)]
    for _ in range(MAX_ROUNDS):
        waiting = [created for node in waiting for created in _expand(graph, node, record)]
        if not waiting:
            return
        record_of_folding = graph.decisions.begin(folding.NAME, Stage.PREPARE.value)
        fold_constants(graph, record_of_folding, options)
        waiting = [node for node in waiting if node.graph is graph]


def _expand(graph: Graph, node: Node, record: PassRecord) -> Sequence[Node]:
    """The nodes that took the place of a node; none if it stays."""
    if node.is_structural or not _is_left_over(node):
        return ()
    opdef = find_opdef(node)
    rw = Rewriter(graph, node, NAME)
    results = None if opdef is None or opdef.expand is None else opdef.expand(node, rw)
    if results is None:
        results = _by_standard(node, rw)
    if results is None:
        return ()
    record.matched += 1
    custom = custom_op_at(node)
    if isinstance(results, Reject):
        record.reject(results)
        erase_dead(graph, rw.created)
        return ()
    try:
        known = KnownValues()
        for created in rw.created:
            infer_node(created, known)
    except ModelInvalid as error:  # the standard's function has constants of float32 beside operands of another type
        if custom is not None:
            raise CustomOpError("C0002", f"{custom.name}: what decompose makes does not fit", where=node) from error
        record.reject(Reject("mixed-types", node.name))
        erase_dead(graph, rw.created)
        return ()
    if custom is not None:
        custom.check_decomposed(node, [value for value in results if value is not None])
    for old, new in zip(node.outputs, results, strict=False):
        if old.use_count and new is not None:
            rw.replace(old, new)
    erase_dead(graph, [*rw.created, node])
    record.applied += 1
    return list(rw.created)


def _is_left_over(node: Node) -> bool:
    """True if no engine runs a node, for a reason that does not hold for its parts."""
    opdef = find_opdef(node)
    if opdef is None:
        return True
    if opdef.expand is None and opdef.has_any(_KEPT_TRAITS):
        return False
    if opdef.expand is not None and not opdef.engines:
        return True
    for supports in opdef.engines.values():
        reasons = {reject.reason for reject in supports(node)}
        if not reasons or reasons & _STAYS:
            return False
    return True


def _has_expansion(node: Node) -> bool:
    """Only an op's record knows what to do with bodies."""
    opdef = find_opdef(node)
    return opdef is not None and opdef.expand is not None


def _by_standard(node: Node, rw: Rewriter) -> Sequence[Value] | Reject | None:
    """The nodes of the function that defines an op; None if there is none, or it has control flow."""
    body = function_body(node)
    if body is None or any(attr.HasField("g") for part in body.node for attr in part.attribute):
        return None
    if not all(value.desc.is_static for value in node.operands):
        return Reject("shape-unknown", node.name)
    values: dict[str, Value | None] = {"": None}
    for name, value in zip(body.input, (*node.inputs, *[None] * len(body.input)), strict=False):
        values[name] = value
    for part in body.node:
        _insert(part, values, rw)
    return [value for name in body.output if (value := values.get(name)) is not None]


def _insert(part: onnx.NodeProto, values: dict[str, Value | None], rw: Rewriter) -> None:
    attrs = {attr.name: _attr_value(attr) for attr in part.attribute}
    if part.op_type == "Constant":
        ((kind, value),) = attrs.items()
        dtype = DType.FLOAT32 if "float" in kind else DType.INT64
        array, dtype = (value.array, value.dtype) if isinstance(value, Tensor) else (np.asarray(value), dtype)
        values[part.output[0]] = rw.const(array, dtype=dtype)
        return
    inputs = [values[name] for name in part.input]
    results = rw.ops(part.op_type, *inputs, outputs=len(part.output), **attrs)
    values.update(zip(part.output, results, strict=True))


def _attr_value(attr: onnx.AttributeProto) -> object:
    value = helper.get_attribute_value(attr)
    if isinstance(value, onnx.TensorProto):
        return Tensor.of(numpy_helper.to_array(value))
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, int | float):
        return value
    return tuple(item.decode() if isinstance(item, bytes) else item for item in value)
