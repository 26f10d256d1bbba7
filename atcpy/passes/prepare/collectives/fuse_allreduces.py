"""Allreduce aggregation: few collectives for many gradients.

AllReduce(a), AllReduce(b), …  →  Split(AllReduce(Concat(a, b, …)))

The sum is elementwise, so that of a concatenation is the concatenation of the sums. Each collective costs a start, each
of the results must wait for all: `gradient_segments.py` decides which meet. Memory planning puts the gradients where
the concatenation has them and lets readers find the results there, so that nothing is copied
(`passes/compile/in_place_concat.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from atcpy.ir import DType, Graph, Node, PassRecord, Reject, Rewriter, Value
from atcpy.ir.decisions import ALLREDUCE_FUSION, AllReducePlan, matched_nodes
from atcpy.ir.order import sort_nodes
from atcpy.ops.collectives import WORLD
from atcpy.ops.core.reference import MAX_DATA_ELEMENTS
from atcpy.options import AllReduceSplit, Network, PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.collective_costs import compute_seconds
from atcpy.passes.folding import Finisher
from atcpy.passes.phase import Phase
from atcpy.passes.prepare.collectives.gradient_segments import (
    ALLREDUCE,
    Member,
    cheapest_of,
    cut_for_dependencies,
    plan_segments,
    predict_seconds,
)

_FUSED = frozenset({"sum", "mean"})
_BLOCK = 64  # few enough for SplitNotaskPass to look at all who use one


@graph_pass(ALLREDUCE_FUSION, Phase.FINISH, is_neutral=False)
def fuse_allreduces(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Put allreduces together, by size, by index or by what they cost."""
    nodes = [node for node in graph.nodes_of(ALLREDUCE) if node.input_count == 1]
    if not nodes:
        return
    members, waits = _members(graph, nodes, options.allreduce.network), _waits(graph, nodes)
    segments = cut_for_dependencies(plan_segments(members, options.allreduce), waits)
    by_default = cut_for_dependencies(plan_segments(members, AllReduceSplit()), waits)
    issued: list[list[int]] = []
    finisher = Finisher(graph, record, options)
    for numbers in segments:
        segment = [nodes[number] for number in numbers]
        if len(segment) == 1:
            _note_alone(record, segment[0], members[numbers[0]])
            issued.append(numbers)
            continue
        if record.accept(segment):
            _join(graph, segment, record.name, finisher)
            issued.append(numbers)
        else:
            issued += [[number] for number in numbers]
    if len(issued) < len(nodes):
        sort_nodes(graph)
    graph.decisions.allreduce = _plan(members, issued, by_default, options.allreduce.network)


def _plan(
    members: Sequence[Member], issued: Sequence[list[int]], by_default: Sequence[list[int]], network: Network
) -> AllReducePlan:
    """What came of it, and how long it takes by the model of costs."""
    return AllReducePlan(
        allreduces=len(members),
        collectives=len(issued),
        ranks=network.ranks,
        seconds=predict_seconds(members, issued, network),
        seconds_alone=predict_seconds(members, ([number] for number in range(len(members))), network),
        seconds_default=predict_seconds(members, by_default, network),
        algorithms=dict(Counter(cheapest_of(members, segment, network)[0] for segment in issued)),
    )


def _members(graph: Graph, nodes: Sequence[Node], network: Network) -> list[Member]:
    ready = _ready_times(graph, nodes, network)
    members = []
    for node in nodes:
        desc, reduction = node.operand(0).desc, node.str_attr("reduction", "sum")
        scales = (node.float_attr("prescale", 1.0), node.float_attr("postscale", 1.0))
        members.append(
            Member(
                name=node.sources[0] if node.sources else node.name,
                group=node.str_attr("group", WORLD),
                kind=(node.str_attr("kind", node.op_type), desc.dtype, reduction, scales),
                nbytes=desc.nbytes if desc.is_static else 0,
                fusion=node.int_attr("fusion", 1),
                fusion_id=node.int_attr("fusion_id", -1),
                may_meet=reduction in _FUSED and desc.is_static,
                ready=ready[node],
                ranks=max(0, node.int_attr("rank_size", 0)),
            )
        )
    return members


def _ready_times(graph: Graph, nodes: Sequence[Node], network: Network) -> dict[Node, float]:
    """When each gradient is there, by what all that gradients need before it takes. What else the graph computes can
    wait.
    """
    members = set(nodes)
    needed = set(nodes)
    for node in reversed(list(graph.nodes)):
        if node in needed:
            needed.update(value.producer for value in node.operands)
    times: dict[Node, float] = {}
    clock = 0.0
    for node in graph.nodes:
        if node in members:
            times[node] = clock
        elif node in needed and not node.is_source:
            clock += compute_seconds(node, network)
    return times


def _waits(graph: Graph, nodes: Sequence[Node]) -> Mapping[int, frozenset[int]]:
    """The allreduces whose results go into each one without another one in between."""
    number = {node: position for position, node in enumerate(nodes)}
    reach: dict[Value, int] = {}  # a bit for each allreduce
    waits: dict[int, frozenset[int]] = {}
    for node in graph.nodes:
        bits = 0
        for value in node.operands:
            bits |= reach.get(value, 0)
        position = number.get(node)
        if position is not None:
            if bits:
                waits[position] = frozenset(bit for bit in range(bits.bit_length()) if bits >> bit & 1)
            bits = 1 << position
        if bits:
            for value in node.outputs:
                reach[value] = bits
    return waits


def _note_alone(record: PassRecord, node: Node, member: Member) -> None:
    if not node.operand(0).desc.is_static:
        reject = Reject("shape-unknown", node.name)
    elif not member.may_meet:
        reject = Reject("other-reduction", node.name)
    elif member.fusion == 0:
        reject = Reject("not-fused", node.name)
    else:
        reject = Reject("alone", node.name)
    record.accept([node], replace(reject, nodes=matched_nodes([node])))


def _join(graph: Graph, segment: Sequence[Node], name: str, finisher: Finisher) -> None:
    """One collective in the place of the last one. A gradient that several of them read is sent once."""
    last = segment[-1]
    rw = Rewriter(graph, last, name, segment)
    owners = {node.operand(0): node for node in reversed(segment)}
    gradients = list(dict.fromkeys(node.operand(0) for node in segment))
    flat = [_reshaped(rw, value, rw.const([-1], dtype=DType.INT64), owners[value]) for value in gradients]
    whole = rw.op("Concat", *flat, axis=0) if len(flat) > 1 else flat[0]
    reduced = rw.op("HcomAllReduce", whole, **last.attrs)
    parts = _split(rw, reduced, [value.desc.elements for value in gradients])
    shaped: dict[Value, Value] = {}
    for value, part in zip(gradients, parts, strict=True):
        shape = rw.const(value.desc.static_shape, name=f"{value.name}_shape", dtype=DType.INT64)
        shaped[value] = _reshaped(rw, part, shape, owners[value])
    finisher.finish(rw, [(node.output, shaped[node.operand(0)]) for node in segment], segment)


def _reshaped(rw: Rewriter, value: Value, shape: Value, owner: Node) -> Value:
    """A view that stands for one of the allreduces, not for all."""
    reshaped = rw.op("Reshape", value, shape)
    reshaped.producer.sources = owner.sources
    return reshaped


def _split(rw: Rewriter, whole: Value, sizes: Sequence[int]) -> list[Value]:
    """Parts of so many elements; very many are parts of larger ones, since the sizes of Split are a small constant."""
    if len(sizes) == 1:
        return [whole]
    if len(sizes) <= MAX_DATA_ELEMENTS:
        lengths = rw.const(sizes, name=f"{rw.anchor.name}_sizes", dtype=DType.INT64)
        return rw.ops("Split", whole, lengths, outputs=len(sizes), axis=0)
    blocks = [sizes[first : first + _BLOCK] for first in range(0, len(sizes), _BLOCK)]
    wholes = _split(rw, whole, [sum(block) for block in blocks])
    return [part for value, block in zip(wholes, blocks, strict=True) for part in _split(rw, value, block)]
