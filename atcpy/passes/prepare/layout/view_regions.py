"""Let what lies between views work on dims regrouped, where that leaves fewer views.

Reshape(LayerNormalization(Add(Reshape(a), Reshape(b))))  →  LayerNormalization(Add(a, b))

A region is all that hangs together of nodes that work on dims regrouped (`reshape_factors.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from atcpy.ir import Graph, Node, PassRecord, Reject, Rewriter, Use, Value
from atcpy.ir.shape import Shape
from atcpy.ir.tensor import Array
from atcpy.ops.core.infer import KnownValues, infer_node
from atcpy.ops.core.opdef import Permuted
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.layout_chain import VIEWS, view_step
from atcpy.passes.phase import Phase
from atcpy.passes.prepare.layout.regions import Change, carry_out, data_of, entering, find_region, find_regions, gain
from atcpy.passes.prepare.layout.reshape_factors import Regrouping, regrouped, regrouping

MAX_WAYS = 3  # of regrouping that are tried for a region


@graph_pass("ReshapeRegionPass", Phase.MERGE)
def regroup_regions(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Regroup the dims of what lies between views, where that leaves fewer of them."""
    for nodes in find_regions(graph, graph.nodes_of(*VIEWS), _rank):
        ways = _ways(nodes)
        if not ways:
            continue
        plans = next(filter(None, (_plans(nodes, way) for way in ways)), [])
        rejects = [] if plans else [Reject("as-many-views", nodes[0].name)]
        if record.accept([node for part, _ in plans for node in part], *rejects):
            for part, change in plans:
                carry_out(graph, record.name, part, change)


def _ways(nodes: Sequence[Node]) -> list[Regrouping]:
    """The ways to regroup after which a view at the border would go, the most frequent first."""
    shapes = [
        (value.desc.shape, value.producer.operand(0).desc.shape)
        for value in entering(nodes)
        if _is_view(value.producer)
    ]
    values = [value for node in nodes for value in node.outputs]
    shapes += [
        (value.desc.shape, user.output.desc.shape)
        for value in values
        for user, index in value.uses
        if index == 0 and _is_view(user)
    ]
    ways = Counter(way for before, after in shapes if (way := regrouping(before, after)) is not None)
    # Where a value enters or leaves without a view one comes, so that it takes two of them to gain anything.
    return [way for way, _ in ways.most_common(MAX_WAYS)] if len(shapes) > 1 else []


def _plans(nodes: Sequence[Node], way: Regrouping) -> list[tuple[Sequence[Node], _RegroupingChange]]:
    """The parts of a region that can work this way, and leave fewer views then."""
    change = _RegroupingChange(way, {})
    known: dict[Shape | None, Shape | None] = {}  # by what it is before
    fitting = {node for node in nodes if _fits(node, way, change.shapes, known)}
    parts: list[Sequence[Node]] = [nodes]
    if len(fitting) < len(nodes):
        order = {node: number for number, node in enumerate(nodes)}
        seen: set[Node] = set()
        parts = [
            sorted(find_region(node, fitting.__contains__, seen), key=order.__getitem__)
            for node in nodes
            if node in fitting and node not in seen
        ]
    return [(part, change) for part in parts if gain(part, change) > 0 and _can_be_undone(part, change)]


def _can_be_undone(nodes: Sequence[Node], change: _RegroupingChange) -> bool:
    """Whether a view gives readers outside what they read: of two open dims in one, none does."""
    members = set(nodes)
    left = [
        value for node in nodes for value in node.outputs if any(_reads_old(use, members, change) for use in value.uses)
    ]
    return all(view_step(change.shapes[value], value.desc.shape or ()) is not None for value in left)


def _reads_old(use: Use, members: set[Node], change: _RegroupingChange) -> bool:
    """Whether a reader is outside, and no view that goes."""
    goes = use.input_index == 0 and change.is_mover(use.node) and change.leads_out(use.node)
    return use.node not in members and not goes


@dataclass(frozen=True, slots=True)
class _RegroupingChange(Change):
    """A way to regroup dims, and the shapes that it gives to values."""

    way: Regrouping
    shapes: dict[Value, Shape]

    def of_node(self, node: Node) -> Permuted | None:
        attrs = regrouped(node, self.way)
        return None if attrs is None else Permuted(attrs)

    def keeps(self, value: Value) -> bool:
        return value.desc.shape == self.shapes[value]

    def is_mover(self, node: Node) -> bool:
        return _is_view(node)

    def leads_in(self, mover: Node) -> bool:
        return mover.operand(0).desc.shape == self.shapes[mover.output]

    def leads_out(self, mover: Node) -> bool:
        return mover.output.desc.shape == self.shapes[mover.operand(0)]

    def constant(self, value: Value) -> Array:
        return value.array.reshape([dim for dim in self.shapes[value] if isinstance(dim, int)])

    def insert_mover(self, rw: Rewriter, value: Value) -> Value:
        return _viewed(rw, value, self.shapes[value])

    def insert_mover_back(self, rw: Rewriter, new: Value, old: Value) -> Value:
        return _viewed(rw, new, old.desc.shape or ())


def _fits(node: Node, way: Regrouping, shapes: dict[Value, Shape], known: dict[Shape | None, Shape | None]) -> bool:
    """Can a node work this way? Notes the shapes of its values."""
    if regrouped(node, way) is None:
        return False
    for value in (*data_of(node), *node.outputs):
        shape = value.desc.shape
        if shape not in known:
            known[shape] = _regrouped_shape(shape, way)
        changed = known[shape]
        if changed is None:
            return False
        shapes[value] = changed
    return True


def _rank(node: Node) -> int | None:
    """The number of dims of a node that may work on dims regrouped."""
    if node.domain or not node.outputs or node.output.desc.shape is None or node.op_type in VIEWS:
        return None
    rank = len(node.output.desc.shape)
    return rank if rank > 0 and regrouped(node, _unchanged(rank)) is not None else None


@cache
def _unchanged(rank: int) -> Regrouping:
    way = regrouping((2,) * rank, (2,) * rank)
    assert way is not None
    return way


def _is_view(node: Node) -> bool:
    return node.op_type in VIEWS and not node.domain


def _regrouped_shape(old: Shape | None, way: Regrouping) -> Shape | None:
    """What becomes of a shape: nothing where it has fewer dims than others and broadcasts as it is."""
    new = None if old is None else way.shape(old)
    if old is None or new is None or view_step(old, new) is None:
        return None
    stays = len(old) < way.rank and len(old) <= len(new) and (1,) * (len(new) - len(old)) + old == new
    return old if stays else new


def _viewed(rw: Rewriter, value: Value, shape: Shape) -> Value:
    step = view_step(value.desc.shape or (), shape)
    assert step is not None
    result = step.insert(rw, value)
    infer_node(result.producer, KnownValues())
    return result
