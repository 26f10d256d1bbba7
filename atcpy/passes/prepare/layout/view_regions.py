"""Let what lies between views work on dims regrouped, where that leaves fewer views.

Reshape(LayerNormalization(Add(Reshape(a), Reshape(b))))  →  LayerNormalization(Add(a, b))

A region is all that hangs together of nodes that work on dims regrouped (`reshape_factors.py`). The views at its border
are counted, those that go and those that would come; if more go, the region works on what the views read. So each turn
leaves fewer views, and that comes to an end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from atcpy.ir import Graph, Node, PassRecord, Reject, Rewriter, Value
from atcpy.ir.shape import Shape
from atcpy.ops.core.infer import KnownValues, infer_node
from atcpy.ops.core.opdef import Permuted, data_inputs
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.layout_chain import VIEWS, view_step
from atcpy.passes.phase import Phase
from atcpy.passes.prepare.layout.regions import SHARED_BYTES, Turn, entering, hanging_together, regions_at
from atcpy.passes.prepare.layout.reshape_factors import Regroup, regrouped, regrouping

MAX_WAYS = 3  # of regrouping that are tried for a region


@graph_pass("ReshapeRegionPass", Phase.MERGE)
def regroup_regions(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Regroup the dims of what lies between views, where that leaves fewer of them."""
    for nodes in regions_at(graph, graph.nodes_of(*VIEWS), _rank, data_inputs):
        region = _Region(nodes)
        ways = region.ways()
        if not ways:
            continue
        record.matched += 1
        plans = next(filter(None, map(region.plans, ways)), [])
        if not plans:
            record.reject(Reject("as-many-views", region.nodes[0].name))
        elif record.may_apply():
            record.fire([node for plan in plans for node in plan.nodes])
            for plan in plans:
                plan.carry_out(graph, record.name)


@dataclass(slots=True)
class _Region:
    """Nodes in their order."""

    nodes: list[Node]

    def ways(self) -> list[Regroup]:
        """The ways to regroup after which a view at the border would go, the most frequent first."""
        counts: Counter[Regroup] = Counter()
        views = 0
        for value in entering(self.nodes, data_inputs):
            if _is_view(value.producer):
                views += 1
                counts.update(_way(value.desc.shape, value.producer.operand(0).desc.shape))
        for node in self.nodes:
            for value in node.outputs:
                for user in _views_below(value):
                    views += 1
                    counts.update(_way(value.desc.shape, user.output.desc.shape))
        # Where a value enters or leaves without a view one comes, so that it takes two of them to gain anything.
        return [way for way, _ in counts.most_common(MAX_WAYS)] if views > 1 else []

    def plans(self, way: Regroup) -> list[_Plan]:
        """The parts of the region that can work this way, and leave fewer views then."""
        shapes: dict[Value, Shape | None] = {}
        known: dict[Shape | None, Shape | None] = {}  # by what it is before
        fitting = {node for node in self.nodes if _fits(node, way, shapes, known)}
        if len(fitting) == len(self.nodes):
            whole = _Plan(way, self.nodes, shapes)
            return [whole] if whole.gain() > 0 else []
        order = {node: number for number, node in enumerate(self.nodes)}
        seen: set[Node] = set()
        plans = []
        for node in self.nodes:
            if node in fitting and node not in seen:
                part = hanging_together(node, fitting.__contains__, data_inputs, seen)
                plans.append(_Plan(way, sorted(part, key=order.__getitem__), shapes))
        return [plan for plan in plans if plan.gain() > 0]


@dataclass(slots=True)
class _Plan:
    """A way, the nodes that take it, and the shapes that it gives to their values."""

    way: Regroup
    nodes: list[Node]
    shapes: Mapping[Value, Shape | None]

    def gain(self) -> int:
        """How many views go, less those that come."""
        members = set(self.nodes)
        gain = sum(_gain_entering(value, members, self._shape(value)) for value in self._outside())
        return gain + sum(_gain_leaving(v, members, self._shape(v)) for node in self.nodes for v in node.outputs)

    def carry_out(self, graph: Graph, name: str) -> None:
        """Makes the nodes anew on dims regrouped."""
        Turn(
            places=data_inputs,
            change=lambda node: Permuted(regrouped(node, self.way) or {}),
            enter=lambda rw, value: _entered(rw, value, self._shape(value)),
            back=lambda rw, new, old: _viewed(rw, new, old.desc.shape or ()),
            going=lambda old, new: [u for u in _views_below(old) if u.output.desc.shape == new.desc.shape],
        ).carry_out(graph, name, self.nodes)

    def _outside(self) -> Iterator[Value]:
        return entering(self.nodes, data_inputs)

    def _shape(self, value: Value) -> Shape:
        shape = self.shapes[value]
        assert shape is not None
        return shape


def _fits(node: Node, way: Regroup, shapes: dict[Value, Shape | None], known: dict[Shape | None, Shape | None]) -> bool:
    """Can a node work this way? Notes the shapes of its values."""
    if regrouped(node, way) is None:
        return False
    values = [value for place in data_inputs(node) if (value := node.input(place)) is not None]
    for value in (*values, *node.outputs):
        shape = value.desc.shape
        if shape not in known:
            known[shape] = _regrouped_shape(shape, way)
        if known[shape] is None:
            return False
        shapes[value] = known[shape]
    return True


def _rank(node: Node) -> int | None:
    """The number of dims of a node that may work on dims regrouped."""
    if node.domain or not node.outputs or node.output.desc.shape is None or node.op_type in VIEWS:
        return None
    rank = len(node.output.desc.shape)
    return rank if rank > 0 and regrouped(node, _unchanged(rank)) is not None else None


@cache
def _unchanged(rank: int) -> Regroup:
    way = regrouping((2,) * rank, (2,) * rank)
    assert way is not None
    return way


def _is_view(node: Node) -> bool:
    return node.op_type in VIEWS and not node.domain


def _views_below(value: Value) -> list[Node]:
    """The views of a value; not those that read in it how they view another."""
    return [use.node for use in value.uses if use.place == 0 and _is_view(use.node)]


def _way(before: Shape | None, after: Shape | None) -> Iterator[Regroup]:
    way = regrouping(before, after)
    if way is not None:
        yield way


def _regrouped_shape(old: Shape | None, way: Regroup) -> Shape | None:
    """What becomes of a shape: nothing where it has fewer dims than others and broadcasts as it is."""
    new = None if old is None else way.shape(old)
    if old is None or new is None or view_step(old, new) is None:
        return None
    stays = len(old) < way.rank and len(old) <= len(new) and (1,) * (len(new) - len(old)) + old == new
    return old if stays else new


def _gain_entering(value: Value, members: set[Node], shape: Shape) -> int:
    """Views that go (1), or come (−1), where a value enters."""
    if value.desc.shape == shape:
        return 0
    alone = value.user_beyond(members) is None
    if value.tensor is not None:
        return 0 if alone or value.tensor.nbytes <= SHARED_BYTES else -1
    if not alone:
        return 0 if _is_view(value.producer) and value.producer.operand(0).desc.shape == shape else -1
    if not _is_view(value.producer):
        return -1
    return int(value.producer.operand(0).desc.shape == shape)


def _gain_leaving(value: Value, members: set[Node], shape: Shape) -> int:
    """The same where a value leaves: all views of the new shape go, and one comes for readers that are no views."""
    views = _views_below(value)
    going = sum(user.output.desc.shape == shape for user in views)
    return going - int(any(user not in members and user not in views for user in value.users))


def _entered(rw: Rewriter, value: Value, shape: Shape) -> Value:
    """A value that enters, regrouped."""
    if value.desc.shape == shape:
        return value
    if value.tensor is not None:
        return rw.const(value.array.reshape([dim for dim in shape if isinstance(dim, int)]), like=value)
    above = value.producer
    if _is_view(above) and above.operand(0).desc.shape == shape:
        return above.operand(0)
    return _viewed(rw, value, shape)


def _viewed(rw: Rewriter, value: Value, shape: Shape) -> Value:
    step = view_step(value.desc.shape or (), shape)
    assert step is not None
    result = step.insert(rw, value)
    infer_node(result.producer, KnownValues())
    return result
