"""Common subexpressions: nodes with equal op, attributes and inputs; constants with equal bits."""

from __future__ import annotations

from collections.abc import Hashable

from atcpy.ir import Graph, Node, PassRecord, Tensor, erase_dead
from atcpy.ir.barrier import is_barrier
from atcpy.ops import Trait, has_trait
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.phase import Phase


@graph_pass("CommonSubexpressionEliminationPass", Phase.COMPACT, repeats=True)
def merge_equal(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Compute equal things once."""
    first: dict[Hashable, Node] = {}
    sources: dict[Node, dict[str, None]] = {}
    for node in graph.nodes:
        twin = _twin(node, first)
        if twin is None:
            continue
        if not record.may_apply():
            break
        record.matched += 1
        record.fire([node])
        for mine, theirs in zip(node.outputs, twin.outputs, strict=True):
            graph.replace_uses(mine, theirs)
        if node.op_type != "Const":
            sources.setdefault(twin, dict.fromkeys(twin.sources)).update(dict.fromkeys(node.sources))
        erase_dead(graph, [node])
    for twin, names in sources.items():
        twin.sources = tuple(names)


def _twin(node: Node, first: dict[Hashable, Node]) -> Node | None:
    """An equal node that came before. `first` holds the first node of each kind: by op and inputs, which tells nearly
    all apart, and by attributes as well where those agree.
    """
    if node.op_type == "Const":
        if is_barrier(node):
            return None
        value = node.attrs["value"]
        assert isinstance(value, Tensor)
        other = first.setdefault(value.digest, node)
        return other if other is not node and _same_bits(value, other.attrs["value"]) else None
    alike = (node.op_type, node.domain, *node.inputs)
    other = first.setdefault(alike, node)
    if other is node or not _may_merge(node):
        return None
    if _may_merge(other):
        first.setdefault((alike, *_details(other)), other)
    other = first.setdefault((alike, *_details(node)), node)
    return None if other is node else other


def _may_merge(node: Node) -> bool:
    return not (has_trait(node, Trait.RANDOM) or node.is_structural or is_barrier(node) or node.has_subgraphs)


def _details(node: Node) -> tuple[Hashable, ...]:
    return (len(node.outputs), *((name, _attr_key(attr)) for name, attr in sorted(node.attrs.items())))


def _attr_key(attr: object) -> Hashable:
    if isinstance(attr, Tensor):
        return attr.digest
    if isinstance(attr, tuple):
        return tuple(_attr_key(item) for item in attr)
    return (type(attr).__name__, repr(attr))


def _same_bits(mine: Tensor, theirs: object) -> bool:
    """Digests may collide in a model that was made to; bits decide."""
    return isinstance(theirs, Tensor) and mine.equals(theirs)
