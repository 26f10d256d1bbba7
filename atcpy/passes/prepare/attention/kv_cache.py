"""Let Attention put keys and values of earlier steps in front of the new ones.

Attention(q, Concat(past_k, k), Concat(past_v, v), mask)  →  Attention(q, k, v, mask, past_k, past_v)

Its further results are all keys and all values, which take the place of Concat's result for those who read it behind
the Attention: a decoder hands them to its next step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from atcpy.ir import Graph, Node, PassRecord, Reject, Rewriter, Value
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.folding import Finisher
from atcpy.passes.fusion import read_before
from atcpy.passes.phase import Phase

NAME = "AttentionCachePass"
_KEYS, _VALUES, _MASK = 1, 2, 3
_ROWS, _RANK = 2, 4


@graph_pass(
    NAME, Phase.RECOGNISE, after=("AttentionFusionPass",), before=("AttentionHeadsFusionPass",), makes=("Attention",)
)
def take_cache(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Let Attention put keys and values of earlier steps in front of the new ones."""
    finisher = Finisher(graph, record, options)
    positions = {node: position for position, node in enumerate(graph.nodes)}
    for node in graph.nodes_of("Attention"):
        if node.input_count > _MASK + 1:
            continue
        joins = [node.operand(index).producer for index in (_KEYS, _VALUES)]
        if any(join.op_type != "Concat" or join.input_count != len(joins) for join in joins):
            continue
        early = (read_before(join.output, node, positions) for join in dict.fromkeys(joins))
        if record.accept([node, *joins], *_requirements(node), *chain.from_iterable(early)):
            _replace(Rewriter(graph, node, NAME, [node, *joins]), finisher, joins)


def _requirements(node: Node) -> Iterator[Reject]:
    if any(value.use_count for value in node.outputs[1:]):
        yield Reject("attention-variant", node.name, "further results")
    if node.int_attr("is_causal", 0):
        yield Reject("other-formula", node.name, "counts queries from the first key")
    for value in (node.operand(_KEYS), node.operand(_VALUES)):
        shape = value.desc.shape
        if shape is None or len(shape) != _RANK:
            yield Reject("rank", value.name)
        elif value.producer.int_attr("axis", 0) % _RANK != _ROWS:
            yield Reject("other-axes", value.name)


def _replace(rw: Rewriter, finisher: Finisher, joins: Sequence[Node]) -> None:
    node = rw.anchor
    past, new = ([join.operand(side) for join in joins] for side in range(2))
    new_outputs = rw.ops("Attention", node.operand(0), *new, node.input(_MASK), *past, outputs=3, **node.attrs)
    old: list[Value] = [node.outputs[0], *(join.output for join in joins)]
    finisher.finish(rw, zip(old, new_outputs, strict=True), [node, *joins])
