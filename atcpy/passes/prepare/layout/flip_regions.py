"""Let what lies between Transposes work on the other order of dims, where that leaves fewer of them.

Transpose⁻¹(Relu(Add(Transpose(a), Transpose(b))))  →  Relu(Add(a, b))

A region is all that hangs together of nodes that work in any order of dims: elementwise, Concat, Pad, Softmax …
(`ops/core/permute.py`). Before it is turned, the Transposes at its border are counted: those that go, and those that
would come. It is turned if more go. So each turn leaves fewer Transposes, and that comes to an end. One before a
reduction that can do without is not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from atcpy.ir import Graph, Node, PassRecord, Reject, Rewriter, Value
from atcpy.ops.core.infer import KnownValues, infer_node
from atcpy.ops.core.opdef import Perm, Permuted, data_inputs
from atcpy.ops.core.permute import inverse, permuted
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.phase import Phase
from atcpy.passes.prepare.layout.regions import SHARED_BYTES, Turn, entering, regions_at
from atcpy.passes.prepare.layout.transpose_operands import reduces_without

MAX_ORDERS = 3  # that are tried for a region
WALKS = 2  # over the regions: one that is turned may be what another one waits for


@graph_pass("TransposeRegionPass", Phase.MOVE, after=("TransposeReshapeMergePass",), repeats=True)
def flip_regions(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Turn what lies between Transposes into the other order of dims, where that leaves fewer of them."""
    found = regions_at(graph, graph.nodes_of("Transpose"), _rank, data_inputs)
    waiting, turned = [_Region(len(nodes[0].output.desc.shape or ()), nodes) for nodes in found], True
    for _ in range(WALKS):
        if not turned:
            break
        before, waiting, turned = waiting, [], False
        for region in before:
            plans = ((order, region.plan(order)) for order in region.orders())
            perm, plan = next(((order, plan) for order, plan in plans if plan is not None), ((), None))
            if plan is None:
                waiting.append(region)
                continue
            record.matched += 1
            if record.may_apply():
                record.fire(region.nodes)
                region.flip(graph, record.name, perm, plan)
                turned = True
    for region in waiting:
        if region.orders():
            record.matched += 1
            record.reject(Reject("as-many-transposes", region.nodes[0].name))


@dataclass(slots=True)
class _Region:
    """Nodes in their order, each with the operands that carry its dims."""

    rank: int
    nodes: list[Node] = field(default_factory=list)

    def orders(self) -> list[Perm]:
        """The orders in which a Transpose at the border would go, the most frequent first."""
        counts: Counter[Perm] = Counter()
        for value in entering(self.nodes, data_inputs):
            if value.producer.op_type == "Transpose":
                counts[inverse(_perm(value.producer))] += 1
        for node in self.nodes:
            for value in node.outputs:
                for user in value.users:
                    if user.op_type == "Transpose":
                        counts[_perm(user)] += 1
        return [perm for perm, _ in counts.most_common(MAX_ORDERS)]

    def plan(self, perm: Perm) -> dict[Node, Permuted] | None:
        """How each node works in this order, if fewer Transposes are left."""
        members = set(self.nodes)
        gain = sum(_gain_entering(value, members, perm) for value in entering(self.nodes, data_inputs))
        gain += sum(_gain_leaving(value, members, perm) for node in self.nodes for value in node.outputs)
        if gain <= 0:
            return None
        plan: dict[Node, Permuted] = {}
        for node in self.nodes:
            change = permuted(node, perm)
            data = {node.input(place) for place in data_inputs(node)}
            if change is None or any(value.producer in members and value not in data for value in node.operands):
                return None
            plan[node] = change
        return plan

    def flip(self, graph: Graph, name: str, perm: Perm, plan: Mapping[Node, Permuted]) -> None:
        """Makes the nodes anew in the other order."""
        Turn(
            places=data_inputs,
            change=plan.__getitem__,
            enter=lambda rw, value: _turned(rw, value, perm, self.rank),
            back=lambda rw, new, old: _transposed(rw, new, inverse(perm)),
            going=lambda old, new: [u for u in old.users if u.op_type == "Transpose" and _perm(u) == perm],
        ).carry_out(graph, name, self.nodes)


def _rank(node: Node) -> int | None:
    """The number of dims of a node that works in any order of them."""
    if node.is_structural or node.op_type == "Transpose" or node.domain or not node.outputs:
        return None
    ranks = {None if value.desc.shape is None else len(value.desc.shape) for value in node.outputs}
    rank = ranks.pop()
    if ranks or rank is None or rank < 2 or permuted(node, tuple(range(rank))) is None:
        return None
    for place in data_inputs(node):
        value = node.input(place)
        if value is not None and not _fits(value, rank):
            return None
    return rank


def _fits(value: Value, rank: int) -> bool:
    """Can it be put into another order with the others? A value of fewer dims only if it is constant or one element."""
    shape = value.desc.shape
    if shape is None or len(shape) > rank:
        return False
    return len(shape) == rank or value.tensor is not None or all(dim == 1 for dim in shape)


def _perm(node: Node) -> Perm:
    shape = node.operand(0).desc.shape
    return node.ints_attr("perm", range(len(shape or ()))[::-1])


def _is_alike(value: Value) -> bool:
    """True if the order of dims does not matter: each has one element."""
    return all(dim == 1 for dim in value.desc.shape or ())


def _is_free(value: Value, perm: Perm) -> bool:
    """True if no element changes its place in memory: dims of one element move. Such a Transpose is a view."""
    shape = value.desc.shape
    if shape is None or len(shape) != len(perm):
        return False
    kept = [axis for axis in perm if shape[axis] != 1]
    return kept == sorted(kept)


def _gain_entering(value: Value, members: set[Node], perm: Perm) -> int:
    """Transposes that go (1), or come (−1), where a value enters."""
    if _is_free(value, perm) or _is_alike(value) or (value.tensor is not None and value.tensor.nbytes <= SHARED_BYTES):
        return 0
    alone = value.user_beyond(members) is None
    if value.tensor is not None:
        return 0 if alone else -1
    if value.producer.op_type != "Transpose":
        return -1
    if inverse(_perm(value.producer)) == perm:
        return int(alone)
    return 0 if alone else -1


def _gain_leaving(value: Value, members: set[Node], perm: Perm) -> int:
    """The same where a value leaves: all Transposes to this order go, and one comes for other readers."""
    if _is_free(value, perm):
        return 0
    outside = [user for user in value.users if user not in members]
    going = [user for user in outside if user.op_type == "Transpose" and _perm(user) == perm]
    counted = sum(not all(reduces_without(reader, perm) for reader in user.output.users) for user in going)
    back = inverse(perm)
    others = any(user.op_type != "Transpose" and not reduces_without(user, back) for user in outside)
    return counted - int(others)


def _turned(rw: Rewriter, value: Value, perm: Perm, rank: int) -> Value:
    """A value that enters, in the other order."""
    if _is_alike(value):
        return value
    if value.tensor is not None:
        array = value.array.reshape((1,) * (rank - value.array.ndim) + value.array.shape)
        return rw.const(np.ascontiguousarray(array.transpose(perm)), like=value)
    above = value.producer
    if above.op_type == "Transpose" and inverse(_perm(above)) == perm:
        return above.operand(0)
    return _transposed(rw, value, perm)


def _transposed(rw: Rewriter, value: Value, perm: Perm) -> Value:
    result = rw.op("Transpose", value, perm=perm)
    infer_node(result.producer, KnownValues())
    return result
