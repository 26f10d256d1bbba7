"""Store activations as bfloat16 where the model has that type, and kernels on both sides take it (adr/0027).

y: f32 = Conv(x), which is bfloat16 in the model  →  y: bf16 = Conv(x)

InsertCastPass made such values float32. Kernels compute in float32 and round what they store, as the model does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from atcpy.ir import NC1HWC0, DType, Graph, Node, PassRecord, Reject
from atcpy.ops import find_opdef
from atcpy.ops.core.half import ROUNDS_BF16
from atcpy.ops.core.opdef import Bf16Operands
from atcpy.options import OptimizeOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.phase import Phase

NAME = "NarrowActivationsPass"


@graph_pass(NAME, Phase.NARROW, is_neutral=False)
def narrow_activations(graph: Graph, record: PassRecord, options: OptimizeOptions) -> None:
    """Store activations as bfloat16 where the model does."""
    operands = {
        node: opdef.bf16(node)
        for node in graph.nodes
        if (opdef := find_opdef(node)) is not None and opdef.bf16 is not None
    }
    for node, own in operands.items():
        value = node.outputs[0]
        if not own.output or not node.attrs.get(ROUNDS_BF16) or value.desc.format != NC1HWC0:
            continue
        if record.accept((node,), *_readers_of_float32(node, operands)):
            value.desc = replace(value.desc, dtype=DType.BFLOAT16)
            node.passes = (*node.passes, NAME)


def _readers_of_float32(node: Node, operands: Mapping[Node, Bf16Operands]) -> Iterator[Reject]:
    for use in node.outputs[0].uses:
        if use.node not in operands or use.input_index not in operands[use.node].inputs:
            yield Reject("read-as-float", node.name, use.node.name)
