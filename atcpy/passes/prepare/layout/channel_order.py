"""Put channels into another order by one node, or by none, where a Conv can do it.

Reshape(Transpose(Reshape(x, [N, g, C / g, H, W]), [0, 2, 1, 3, 4]))  →  Gather(x, order of channels)
Concat(b, a),  where a, b = Split(x)                                  →  Gather(x, order of channels)
Gather(Gather(x, i), j)                                              →  Gather(x, i[j])
Conv(Gather(x, order), w)                                            →  Conv(x, w in that order)
Gather(Conv(x, w, b), some channels)                                 →  Conv(x, those of w, those of b)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from atcpy.ir import Graph, Match, Node, PassRecord, Reject, Rewriter, Value
from atcpy.ir.pattern import const, op, var
from atcpy.ir.symbolic import is_symbolic
from atcpy.ir.tensor import Array
from atcpy.ops.core.shape_values import product
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.folding import Finisher
from atcpy.passes.fusion import Fusion, only_read_by
from atcpy.passes.layout_chain import Moves, chain_above, has_named_dims
from atcpy.passes.phase import Phase

LONGEST_ORDER = 1 << 12  # indices that are listed
MIN_CONTIGUOUS = 16  # elements that move together; below this a Transpose is cheaper


@graph_pass("ShuffleChannelFusionPass", Phase.MOVE, after=("TransposeReshapeMergePass",), makes=("Gather",))
def name_shuffle(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Replace Reshape, Transpose, Reshape that put the places of one dim into another order by Gather."""
    if not graph.has_any(("Transpose",)):
        return
    finisher = Finisher(graph, record, options)
    for node in graph.nodes_of("Reshape"):
        chain = list(chain_above(node, 3))
        if [link.op_type == "Transpose" for link in chain] != [False, True, False]:
            continue
        found = _reordered(chain)
        if found is None:
            continue
        others = [other for a, b in pairwise(chain[::-1]) if (other := a.output.user_beyond((b,)))]
        if record.accept(chain, *(Reject("second-consumer", node.name, other.name) for other in others[-1:])):
            axis, order = found
            rw = Rewriter(graph, node, record.name, chain[::-1])
            indices = rw.const(order, name=f"{node.name}_order")
            finisher.finish(rw, [(node.output, rw.op("Gather", chain[-1].operand(0), indices, axis=axis))], [node])


def _reordered(chain: list[Node]) -> tuple[int, Array] | None:
    """The dim whose indices a chain permutes, and that order."""
    shape, result = chain[-1].operand(0).desc.shape, chain[0].output.desc.shape
    if shape is None or shape != result or not has_named_dims(shape):
        return None
    moves = Moves(shape)
    found = moves.reordered() if all(moves.apply(node) for node in reversed(chain)) else None
    moved = product(shape[found[0] + 1 :]) if found is not None else 0
    return None if isinstance(moved, int) and moved < MIN_CONTIGUOUS else found


@graph_pass(
    "SplitConcatGatherFusionPass", Phase.MOVE, after=("ConcatSplitEliminationPass",), makes=("Gather",), repeats=True
)
def order_parts(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Replace a Concat of the parts of one Split, in another order, by Gather."""
    finisher = Finisher(graph, record, options)
    for node in graph.nodes_of("Concat"):
        split = node.operand(0).producer
        order = _order_of_parts(node, split)
        if order is None:
            continue
        others = [other for value in split.outputs if (other := value.user_beyond((node,)))]
        if record.accept([node, split], *(Reject("second-consumer", split.name, other.name) for other in others[:1])):
            rw = Rewriter(graph, node, record.name, [split, node])
            indices = rw.const(order, name=f"{node.name}_order")
            axis = node.int_attr("axis", 0)
            finisher.finish(rw, [(node.output, rw.op("Gather", split.operand(0), indices, axis=axis))], [node])


def _order_of_parts(node: Node, split: Node) -> Array | None:
    """The indices along the split dim, in the order in which Concat joins them."""
    shape = split.operand(0).desc.shape if split.op_type == "Split" and not split.domain else None
    if shape is None or any(value.producer is not split for value in node.operands):
        return None
    axis = node.int_attr("axis", 0) % len(shape)
    sizes = [value.desc.shape[axis] for value in split.outputs if value.desc.shape is not None]
    moved = product(shape[axis + 1 :])
    if split.int_attr("axis", 0) % len(shape) != axis or (isinstance(moved, int) and moved < MIN_CONTIGUOUS):
        return None
    numbers = [size for size in sizes if isinstance(size, int) and not is_symbolic(size)]
    if len(numbers) < len(split.outputs) or sum(numbers) > LONGEST_ORDER:
        return None
    begins = np.cumsum([0, *numbers])
    return np.concatenate([np.arange(begins[part.index], begins[part.index + 1]) for part in node.operands])


class GatherGather(
    Fusion,
    switch="GatherGatherFusionPass",
    phase=Phase.MOVE,
    after=("ShuffleChannelFusionPass", "SplitConcatGatherFusionPass"),
):
    """Join two Gathers of one dim."""

    pattern = op("Gather", op("Gather", var("x"), const("i"), name="inner"), const("j"), name="outer")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        inner, outer = m.node("inner"), m.node("outer")
        yield from only_read_by(inner.output, outer)
        rank = len(m["x"].desc.shape or (0,))
        if m["x"].desc.shape is None or len(m["i"].desc.shape or ()) != 1:
            yield Reject("other-axes", inner.name)
        elif inner.int_attr("axis", 0) % rank != outer.int_attr("axis", 0) % rank:
            yield Reject("other-axes", outer.name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.op("Gather", m["x"], rw.const(m["i"].array[m["j"].array], like=m["i"]), **m.root.attrs)


class GatherConv(Fusion, switch="GatherConvFusionPass", phase=Phase.ABSORB, after=("PadConv2dFusionPass",)):
    """Fold an order of channels into the weights of the Conv that reads them."""

    pattern = op("Conv", op("Gather", var("x"), const("order"), name="gather"), const("w"), var("b", optional=True))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        gather, conv = m.node("gather"), m.node("conv")
        yield from only_read_by(gather.output, conv)
        yield from _takes_channels(gather, m["order"])
        yield from _weights_are_free(m)
        channels = m["w"].desc.static_shape[1]
        if channels != m["order"].desc.elements or sorted(_channel_indices(m)) != list(range(m["order"].desc.elements)):
            yield Reject("not-a-partition", gather.name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        conv = m.node("conv")
        weights = np.ascontiguousarray(m["w"].array[:, np.argsort(_channel_indices(m))])
        bias = [] if m.get("b") is None else [m["b"]]
        return rw.op("Conv", m["x"], rw.const(weights, like=m["w"]), *bias, **conv.attrs)


def _channel_indices(m: Match) -> list[int]:
    """The channels that are taken, counted from the front; −1 for one that is not known."""
    channels = (m["x"].desc.shape or (0, 0))[1]
    return [int(index) % channels if isinstance(channels, int) and channels else -1 for index in m["order"].array.flat]


class ConvGather(Fusion, switch="ConvGatherFusionPass", phase=Phase.ABSORB, after=("ConvBiasAddFusionPass",)):
    """Let a Conv make its channels in the order, or only those, that are taken of them."""

    pattern = op(
        "Gather",
        op("Conv", var("x"), const("w"), const("b", optional=True), name="conv"),
        const("order"),
        name="gather",
    )

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        gather, conv = m.node("gather"), m.node("conv")
        yield from only_read_by(conv.output, gather)
        yield from _takes_channels(gather, m["order"])
        yield from _weights_are_free(m)
        if m["order"].desc.elements > m["w"].desc.static_shape[0]:
            yield Reject("recomputation", gather.name, "takes channels twice")

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        order = m["order"].array
        arrays = [value for value in (m["w"], m.get("b")) if value is not None]
        operands = [rw.const(np.ascontiguousarray(value.array[order]), like=value) for value in arrays]
        return rw.op("Conv", m["x"], *operands, **m.node("conv").attrs)


def _takes_channels(gather: Node, order: Value) -> Iterator[Reject]:
    """A reason unless a list says which channels are taken."""
    shape = gather.operand(0).desc.shape
    if shape is None or len(order.desc.shape or ()) != 1 or gather.int_attr("axis", 0) % len(shape) != 1:
        yield Reject("other-axes", gather.name)


def _weights_are_free(m: Match) -> Iterator[Reject]:
    conv = m.node("conv")
    if conv.int_attr("group", 1) != 1:
        yield Reject("channel-axis", conv.name, "works on groups of channels")
    other = m["w"].user_beyond((conv,))
    if other is not None:
        yield Reject("shared-weights", m["w"].name, other.name)
