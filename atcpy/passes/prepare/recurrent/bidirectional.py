"""Join two recurrent layers over one sequence, of which one runs backward, into one bidirectional layer.

LSTM(x, w, r), LSTM(x[::-1], w2, r2)  →  LSTM(x, [w, w2], [r, r2]) {direction=bidirectional}

Both directions then share the product with the inputs, and run at the same time.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Final

import numpy as np

from atcpy.ir import Graph, Node, PassRecord, Reject, Rewriter, Value
from atcpy.ops.recurrent import DEFAULT_ACTIVATIONS
from atcpy.options import OoLevel, PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.folding import Finisher
from atcpy.passes.layout_chain import MOVES
from atcpy.passes.phase import Phase
from atcpy.passes.slices import insert_flip

_WEIGHTS: Final = (1, 2, 3, 7)  # inputs that are constant: w, r, b and LSTM's p
_STATES: Final = (5, 6)
_LENGTHS: Final = 4
_LAST: Final = (-1, 2**31 - 1, 2**63 - 1)  # how a Slice from the last element is written
_BEFORE_FIRST: Final = -(2**31) + 1  # and where it ends, or lower
_MAX_DEPTH: Final = 4  # nodes between one sequence and two copies of what is made of it


@graph_pass(
    "BidirectionalFusionPass",
    Phase.RECURRENT,
    after=("MaskedRecurrentLoopFusionPass", "ZeroStateEliminationPass"),
    level=OoLevel.O2,
)
def join_directions(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Make one recurrent layer of two that take a sequence from both ends."""
    layers = [node for node in graph.nodes_of(*DEFAULT_ACTIVATIONS) if _goes_forward(node)]
    if len(layers) < 2:
        return
    finisher = Finisher(graph, record, options)
    positions = {node: position for position, node in enumerate(graph.nodes)}
    for backward in layers:
        x = _flipped(backward.operand(0)) if backward.graph is graph else None
        if x is None:
            continue
        twins = [node for node in layers if node.graph is graph and _is_twin(node, backward, x)]
        reasons = _reasons(twins[0], backward) if twins else [Reject("alone", backward.name)]
        pair = (*twins[:1], backward)
        if record.accept(pair, *reasons):
            rw = Rewriter(graph, min(pair, key=positions.__getitem__), record.name, pair)
            finisher.finish(rw, _joined(rw, twins[0], backward, x), pair)


def _goes_forward(node: Node) -> bool:
    special = ("activation_alpha", "activation_beta", "layout", "clip")
    is_plain = node.str_attr("direction", "forward") == "forward" and not any(node.attrs.get(name) for name in special)
    return is_plain and node.input(_LENGTHS) is None


def _flipped(value: Value) -> Value | None:
    """Return the sequence that a value reverses, or None if it reverses none."""
    node = value.producer
    if node.op_type != "Slice" or node.input_count != 5:
        return None
    parts = [value for value in node.operands[1:] if value.tensor is not None and value.array.size == 1]
    if len(parts) != 4:
        return None
    start, end, axis, step = (int(value.array.item()) for value in parts)
    return node.operand(0) if axis == 0 and step == -1 and start in _LAST and end <= _BEFORE_FIRST else None


def _is_twin(node: Node, other: Node, x: Value) -> bool:
    """Return whether a layer is the same op over x, but for its weights."""
    if node is other or node.op_type != other.op_type:
        return False
    present = [[layer.input(index) is not None for index in _WEIGHTS] for layer in (node, other)]
    attrs = [{**layer.attrs, "direction": "forward"} for layer in (node, other)]
    return present[0] == present[1] and attrs[0] == attrs[1] and _are_same(node.operand(0), x, 0)


def _are_same(a: Value, b: Value, depth: int) -> bool:
    """Return whether two values are equal because the same ops compute them of the same values."""
    if a is b:
        return True
    one, two = a.producer, b.producer
    if a.tensor is not None and b.tensor is not None:
        return a.tensor.equals(b.tensor)
    if depth > _MAX_DEPTH or one.op_type not in MOVES:
        return False
    if one.op_type != two.op_type or one.attrs != two.attrs or one.input_count != two.input_count:
        return False
    return all(_are_same(x, y, depth + 1) for x, y in zip(one.operands, two.operands, strict=True))


def _reasons(*layers: Node) -> list[Reject]:
    reasons = [Reject("states-given", node.name) for node in layers if any(node.input(index) for index in _STATES)]
    for node in layers:
        weights = [value for index in _WEIGHTS if (value := node.input(index)) is not None]
        reasons += [Reject("weights-not-constant", value.name) for value in weights if value.tensor is None]
    return reasons


def _joined(rw: Rewriter, forward: Node, backward: Node, x: Value) -> list[tuple[Value, Value]]:
    """Create the layer; return the results of both old layers, each with its replacement."""
    inputs: list[Value | None] = [x if rw.anchor is backward else forward.operand(0), *[None] * 7]
    for index in _WEIGHTS:
        first, second = forward.input(index), backward.input(index)
        if first is not None and second is not None:
            inputs[index] = rw.const(np.concatenate([first.array, second.array]), like=first)
    activations = forward.attrs.get("activations") or DEFAULT_ACTIVATIONS[forward.op_type]
    assert isinstance(activations, tuple)
    attrs = {**forward.attrs, "direction": "bidirectional", "activations": activations * 2}
    results = list(zip_longest(forward.outputs, backward.outputs))
    outputs = rw.ops(forward.op_type, *inputs, outputs=len(results), **attrs)
    pairs: list[tuple[Value, Value]] = []
    for index, values in enumerate(results):
        if not any(value is not None and value.use_count for value in values):
            continue
        first, second = rw.ops("Split", outputs[index], outputs=2, axis=int(index == 0), num_outputs=2)
        if index == 0:
            second = insert_flip(rw, second, 0)
        pairs += [(old, new) for old, new in zip(values, (first, second), strict=True) if old is not None]
    return pairs
