"""Compute queries, keys and values by one product instead of three.

x·Wq + bq, x·Wk + bk, x·Wv + bv  →  Split(x·[Wq Wk Wv] + [bq bk bv])

Three products of one value by constant matrices that nobody else reads, each with a constant added or none, whose
results are then taken apart into heads: that tells them from other siblings, for which the Split would not pay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from atcpy.ir import DType, Graph, Node, PassRecord, Reject, Rewriter, Value
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.folding import Finisher
from atcpy.passes.phase import Phase

NAME = "QKVMergePass"
_PARTS = 3
_HEADS_RANK = 4


@dataclass(frozen=True, slots=True)
class _Part:
    """A product with constant weights, and the addition of a constant behind it."""

    product: Node
    weights: Value
    add: Node | None
    bias: Value | None

    @property
    def last(self) -> Node:
        """Return the node that computes the result."""
        return self.product if self.add is None else self.add


@graph_pass(NAME, Phase.RECOGNISE, before=("AttentionFusionPass",))
def merge_qkv(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Compute queries, keys and values by one product instead of three."""
    finisher = Finisher(graph, record, options)
    seen: set[Value] = set()
    for node in graph.nodes_of("MatMul"):
        if node.operand(0) in seen:
            continue
        seen.add(node.operand(0))
        parts = [part for user in dict.fromkeys(node.operand(0).users) if (part := _part(user, node.operand(0)))]
        if len(parts) != _PARTS:
            continue
        nodes = [node for part in parts for node in (part.product, part.add) if node is not None]
        if record.accept(nodes, *_requirements(parts)):
            rw = Rewriter(graph, node, NAME, nodes)  # the first of all who read x
            results = _merged(parts, rw)
            finisher.finish(rw, [(part.last.output, new) for part, new in zip(parts, results, strict=True)], nodes)


def _part(product: Node, x: Value) -> _Part | None:
    """Return the part of a product of x by a matrix, whose result is split into heads; None for other nodes."""
    if product.op_type != "MatMul" or product.domain or product.operand(0) is not x:
        return None
    weights = product.operand(1)
    if weights.tensor is None or len(weights.desc.static_shape) != 2 or product.output.use_count != 1:
        return None
    add, bias = next(product.output.users), None
    if add.op_type != "Add":
        return _Part(product, weights, None, None) if _makes_heads(add) else None
    (bias,) = (value for value in add.operands if value is not product.output)
    makes_heads = add.output.use_count == 1 and _makes_heads(next(add.output.users))
    return _Part(product, weights, add, bias) if bias.tensor is not None and makes_heads else None


def _makes_heads(node: Node) -> bool:
    shape = node.outputs[0].desc.shape if node.outputs else None
    return node.op_type == "Reshape" and shape is not None and len(shape) == _HEADS_RANK


def _requirements(parts: list[_Part]) -> Iterator[Reject]:
    first = parts[0]
    for part in parts:
        if part.weights.use_count > 1:
            yield Reject("second-consumer", part.weights.name, part.product.name)
        if (part.bias is None) is not (first.bias is None):
            yield Reject("other-formula", part.product.name, "not all add something")
        if part.bias is not None and part.bias.desc.static_shape != part.weights.desc.static_shape[1:]:
            yield Reject("broadcast", part.last.name, part.bias.name)


def _merged(parts: list[_Part], rw: Rewriter) -> list[Value]:
    first = parts[0]
    whole = np.concatenate([part.weights.array for part in parts], axis=1)
    result = rw.op("MatMul", first.product.operand(0), rw.const(whole, like=first.weights))
    biases = [part.bias for part in parts if part.bias is not None]
    if biases:
        result = rw.op("Add", result, rw.const(np.concatenate([b.array for b in biases]), like=biases[0]))
    sizes = rw.const([part.weights.desc.static_shape[1] for part in parts], dtype=DType.INT64)
    return rw.ops("Split", result, sizes, outputs=_PARTS, axis=-1)
