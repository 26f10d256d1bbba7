"""Let what lies between Transposes work on the other order of dims, where that leaves fewer of them.

Transpose⁻¹(Relu(Add(Transpose(a), Transpose(b))))  →  Relu(Add(a, b))

A region is all that hangs together of nodes that work in any order of dims: elementwise, Concat, Pad, Softmax …
(`ops/core/permute.py`). A Transpose before a reduction that can do without is not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from atcpy.ir import Graph, Node, PassRecord, Reject, Rewriter, Value
from atcpy.ir.symbolic import same
from atcpy.ir.tensor import Array
from atcpy.ops.core.infer import KnownValues, infer_node
from atcpy.ops.core.opdef import Perm, Permuted
from atcpy.ops.core.permute import inverse, permuted
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.phase import Phase
from atcpy.passes.prepare.layout.regions import Change, carry_out, data_of, entering, find_regions, gain
from atcpy.passes.prepare.layout.transpose_operands import reduces_without

MAX_ORDERS = 3  # that are tried for a region
WALKS = 2  # over the regions: one that changes may be what another one waits for


@graph_pass("TransposeRegionPass", Phase.MOVE, after=("TransposeReshapeMergePass",), repeats=True)
def flip_regions(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Turn what lies between Transposes into the other order of dims, where that leaves fewer of them."""
    waiting = find_regions(graph, graph.nodes_of("Transpose"), _rank)
    for _ in range(WALKS):
        regions, waiting = waiting, []
        for nodes in regions:
            change = next((change for change in map(_Permutation, _orders(nodes)) if _pays(nodes, change)), None)
            if change is None:
                waiting.append(nodes)
                continue
            if record.accept(nodes):
                carry_out(graph, record.name, nodes, change)
        if len(waiting) == len(regions):
            break
    for nodes in waiting:
        if _orders(nodes):
            record.accept(nodes, Reject("as-many-transposes", nodes[0].name))


def _orders(nodes: Sequence[Node]) -> list[Perm]:
    """The orders in which a Transpose at the border would go, the most frequent first."""
    counts: Counter[Perm] = Counter()
    for value in entering(nodes):
        if value.producer.op_type == "Transpose":
            counts[inverse(_perm(value.producer))] += 1
    users = (user for node in nodes for value in node.outputs for user in value.users)
    counts.update(_perm(user) for user in users if user.op_type == "Transpose")
    return [perm for perm, _ in counts.most_common(MAX_ORDERS)]


def _pays(nodes: Sequence[Node], change: _Permutation) -> bool:
    """Does the change leave fewer Transposes, and can all nodes work so?"""
    members = set(nodes)
    return gain(nodes, change) > 0 and all(
        change.of_node(node) is not None
        and not any(value.producer in members and value not in data_of(node) for value in node.operands)
        for node in nodes
    )


@dataclass(frozen=True, slots=True)
class _Permutation(Change):
    perm: Perm

    def of_node(self, node: Node) -> Permuted | None:
        return permuted(node, self.perm)

    def keeps(self, value: Value) -> bool:
        return all(same(dim, 1) for dim in value.desc.shape or ())

    def is_free(self, value: Value) -> bool:
        shape = value.desc.shape
        if shape is None or len(shape) != len(self.perm):
            return self.keeps(value)
        moved = [axis for axis in self.perm if not same(shape[axis], 1)]
        return moved == sorted(moved)

    def is_mover(self, node: Node) -> bool:
        return node.op_type == "Transpose"

    def leads_in(self, mover: Node) -> bool:
        return inverse(_perm(mover)) == self.perm

    def leads_out(self, mover: Node) -> bool:
        return _perm(mover) == self.perm

    def is_absorbed(self, node: Node, *, back: bool) -> bool:
        return reduces_without(node, inverse(self.perm) if back else self.perm)

    def constant(self, value: Value) -> Array:
        array = value.array.reshape((1,) * (len(self.perm) - value.array.ndim) + value.array.shape)
        return np.ascontiguousarray(array.transpose(self.perm))

    def insert_mover(self, rw: Rewriter, value: Value) -> Value:
        return _transposed(rw, value, self.perm)

    def insert_mover_back(self, rw: Rewriter, new: Value, old: Value) -> Value:
        return _transposed(rw, new, inverse(self.perm))


def _rank(node: Node) -> int | None:
    """The number of dims of a node that works in any order of them."""
    if node.is_structural or node.op_type == "Transpose" or node.domain or not node.outputs:
        return None
    ranks = {None if value.desc.shape is None else len(value.desc.shape) for value in node.outputs}
    rank = ranks.pop()
    if ranks or rank is None or rank < 2 or permuted(node, tuple(range(rank))) is None:
        return None
    return rank if all(_fits(value, rank) for value in data_of(node)) else None


def _fits(value: Value, rank: int) -> bool:
    """Can it be put into another order with the others? A value of fewer dims only if it is constant or one element."""
    shape = value.desc.shape
    if shape is None or len(shape) > rank:
        return False
    return len(shape) == rank or value.tensor is not None or all(dim == 1 for dim in shape)


def _perm(node: Node) -> Perm:
    shape = node.operand(0).desc.shape
    return node.ints_attr("perm", range(len(shape or ()))[::-1])


def _transposed(rw: Rewriter, value: Value, perm: Perm) -> Value:
    result = rw.op("Transpose", value, perm=perm)
    infer_node(result.producer, KnownValues())
    return result
