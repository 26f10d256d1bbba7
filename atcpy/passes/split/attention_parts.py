"""Let Attention read queries, keys and values where one product computed them.

Attention(Split(x), mask, past)  →  FusedAttention(x, mask, past)
"""

from __future__ import annotations

from atcpy.ir import Graph, Node, PassRecord, Reject
from atcpy.ops.attention.attention import supports_attention
from atcpy.options import SplitOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.folding import Finisher
from atcpy.passes.phase import Phase

NAME = "AttentionSplitFusionPass"
_PARTS = 3
_OTHERS = (3, 4, 5)  # the mask, keys and values of earlier steps


@graph_pass(NAME, Phase.OPERANDS)
def fuse_split(graph: Graph, record: PassRecord, options: SplitOptions) -> None:
    """Let Attention read queries, keys and values where one product computed them."""
    finisher = Finisher(graph, record, options)
    for node in graph.nodes_of("Attention"):
        if node.operand(0).producer.op_type != "Split":
            continue
        split = node.operand(0).producer
        fits = _takes_all(node, split) and not any(True for _ in supports_attention(node))
        rw = finisher.match(node, split, rejects=[] if fits else [Reject("other-formula", node.name)])
        if rw is not None:
            heads = [node.int_attr("q_num_heads", 1), *[node.int_attr("kv_num_heads", 1)] * 2]
            widths = [
                value.desc.static_shape[-1] // count for value, count in zip(node.operands[:_PARTS], heads, strict=True)
            ]
            others = [node.input(index) for index in _OTHERS]
            attrs = {**node.attrs, "head_size": widths[0], "v_head_size": widths[-1]}
            results = rw.ops("FusedAttention", split.operand(0), *others, outputs=len(node.outputs), **attrs)
            finisher.finish(rw, list(zip(node.outputs, results, strict=True)), [node])


def _takes_all(node: Node, split: Node) -> bool:
    """True if the parts of rows are the three operands in their order, and nobody else reads one."""
    shape = split.operand(0).desc.static_shape
    in_rows = len(shape) == _PARTS and split.int_attr("axis", 0) % len(shape) == len(shape) - 1
    own = [value.use_count == 1 for value in split.outputs]
    return in_rows and own == [True] * _PARTS and node.operands[:_PARTS] == list(split.outputs)
