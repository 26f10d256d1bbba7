"""Common subexpressions: nodes with equal op, attributes and inputs; constants with equal bits."""

from __future__ import annotations

from collections.abc import Hashable

from atcpy.ir import Graph, Node, PassRecord, Tensor, erase_dead
from atcpy.ir.origin import is_barrier
from atcpy.ops import find_opdef
from atcpy.options import PrepareOptions, Stage
from atcpy.passes.base import graph_pass

KEPT = frozenset({"Data", "NetOutput", "PlaceHolder", "End"})


@graph_pass(
    "CommonSubexpressionEliminationPass",
    Stage.PREPARE,
    after=("IdentityPass", "DequantizedConstantFoldingPass"),
    repeats=True,
)
def merge_equal(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Compute equal things once."""
    first: dict[Hashable, Node] = {}
    sources: dict[Node, dict[str, None]] = {}
    for node in graph.nodes:
        if node.op_type in KEPT or is_barrier(node) or any(True for _ in node.subgraphs):
            continue
        opdef = find_opdef(node)
        if opdef is not None and opdef.is_random:
            continue
        twin = first.setdefault(_key(node), node)
        if twin is node or not _same_constant(twin, node):
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


def _key(node: Node) -> Hashable:
    attrs = tuple((name, _attr_key(attr)) for name, attr in sorted(node.attrs.items()))
    return (node.op_type, node.domain, node.inputs, len(node.outputs), attrs)


def _attr_key(attr: object) -> Hashable:
    if isinstance(attr, Tensor):
        return (attr.dtype, attr.shape, attr.digest)
    if isinstance(attr, tuple):
        return tuple(_attr_key(item) for item in attr)
    return (type(attr).__name__, repr(attr))


def _same_constant(a: Node, b: Node) -> bool:
    """Digests may collide in a model that was made to; bits decide."""
    mine, theirs = a.attrs.get("value"), b.attrs.get("value")
    if isinstance(mine, Tensor) and isinstance(theirs, Tensor):
        return mine.equals(theirs)
    return True
