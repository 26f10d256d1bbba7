"""Move integers instead of floats: what only moves or picks elements changes places with the (de)quantisation.

move(DequantizeLinear(x))              →  DequantizeLinear(move(x))
QuantizeLinear(Concat(a, b, …))        →  Concat(QuantizeLinear(a), QuantizeLinear(b), …)

One scale for all elements, above zero: MaxPool picks the same element from either. All of this is exact.
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import Match, PassRecord, Reject, Rewriter, Value
from atcpy.ir.graph import Graph
from atcpy.ir.pattern import op, var
from atcpy.ops import Trait, op_types
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.folding import Finisher
from atcpy.passes.fusion import Fusion, only_read_by
from atcpy.passes.phase import Phase
from atcpy.passes.quantization_params import rejects_bytes, rejects_steps

_OTHERS = ("b", "c", "d", "e")  # the operands of a move that say how


class QuantizedMove(
    Fusion, switch="QuantizedMovePass", phase=Phase.QUANTISE, after=("QuantizedConcatPass",), is_neutral=False
):
    """Move the integers of a DequantizeLinear, not its floats."""

    pattern = op(
        (*op_types(Trait.SELECTION | Trait.RESHAPE), "MaxPool", "Resize"),
        op("DequantizeLinear", var("x"), var("scale"), var("zero", optional=True), name="dequantize"),
        *(var(name, optional=True) for name in _OTHERS),
        name="move",
    )

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        dequantize, move = m.node("dequantize"), m.node("move")
        yield from rejects_bytes(dequantize)
        yield from rejects_steps(dequantize)
        if move.op_type == "Resize" and move.str_attr("mode", "nearest") != "nearest":
            yield Reject("mode", move.name, move.str_attr("mode", "nearest"))
        if any(value.use_count for value in move.outputs[1:]):
            yield Reject("indices-used", move.name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        dequantize, move = m.node("dequantize"), m.node("move")
        moved = rw.op(move.op_type, m["x"], *move.inputs[1:], **move.attrs)
        return rw.op("DequantizeLinear", moved, m["scale"], m.get("zero"), **dequantize.attrs)


@graph_pass("QuantizedConcatPass", Phase.QUANTISE, is_neutral=False)
def quantize_before_concat(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Quantise what is joined before it is joined."""
    finisher = Finisher(graph, record, options)
    for node in graph.nodes_of("QuantizeLinear"):
        if node.operand(0).producer.op_type != "Concat":
            continue
        concat = node.operand(0).producer
        rejects = [*only_read_by(concat.output, node), *rejects_steps(node)]
        if not any(value.producer.op_type == "DequantizeLinear" for value in concat.operands):
            rejects.append(Reject("no-quantized-input", concat.name))
        if not record.accept([node, concat], *rejects):
            continue
        rw = Rewriter(graph, node, record.name, (node, concat))
        scale, zero = node.operand(1), node.input(2)
        parts = [rw.op("QuantizeLinear", value, scale, zero, **node.attrs) for value in concat.operands]
        joined = rw.op("Concat", *parts, **concat.attrs)
        finisher.finish(rw, [(node.output, joined)], [node, concat])
