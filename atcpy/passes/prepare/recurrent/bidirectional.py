"""Two recurrent layers over one sequence, of which one takes it from its end, are one layer of both directions.

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
from atcpy.passes.phase import Phase
from atcpy.passes.slices import insert_flip

_WEIGHTS: Final = {"LSTM": (1, 2, 3, 7), "GRU": (1, 2, 3), "RNN": (1, 2, 3)}  # places of what is constant
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
    layers = [node for node in graph.nodes_of(*_WEIGHTS) if _goes_forward(node)]
    if len(layers) < 2:
        return
    finisher = Finisher(graph, record, options)
    places = {node: place for place, node in enumerate(graph.nodes)}
    for backward in layers:
        x = _flipped(backward.operand(0)) if backward.graph is graph else None
        if x is None:
            continue
        record.matched += 1
        twins = [node for node in layers if node.graph is graph and _is_twin(node, backward, x)]
        reasons = _reasons(twins[0], backward) if twins else [Reject("alone", backward.name)]
        record.reject(*reasons)
        if not reasons and record.may_apply():
            pair = (twins[0], backward)
            record.fire(pair)
            rw = Rewriter(graph, min(pair, key=places.__getitem__), record.name, pair)
            finisher.finish(rw, _joined(rw, *pair, x), pair)


def _goes_forward(node: Node) -> bool:
    special = ("activation_alpha", "activation_beta", "layout", "clip")
    is_plain = node.str_attr("direction", "forward") == "forward" and not any(node.attrs.get(name) for name in special)
    return is_plain and node.input(_LENGTHS) is None


def _flipped(value: Value) -> Value | None:
    """The sequence that a value has from its end to its start."""
    node = value.producer
    if node.op_type != "Slice" or node.input_count != 5:
        return None
    parts = [value for value in node.operands[1:] if value.tensor is not None and value.array.size == 1]
    if len(parts) != 4:
        return None
    start, end, axis, step = (int(value.array.item()) for value in parts)
    return node.operand(0) if axis == 0 and step == -1 and start in _LAST and end <= _BEFORE_FIRST else None


def _is_twin(node: Node, other: Node, x: Value) -> bool:
    """Is it the same op over x, but for its weights?"""
    if node is other or node.op_type != other.op_type:
        return False
    present = [[layer.input(place) is not None for place in _WEIGHTS[node.op_type]] for layer in (node, other)]
    attrs = [{**layer.attrs, "direction": "forward"} for layer in (node, other)]
    return present[0] == present[1] and attrs[0] == attrs[1] and _are_same(node.operand(0), x, 0)


def _are_same(a: Value, b: Value, depth: int) -> bool:
    """Are two values equal, being made alike of the same?"""
    if a is b:
        return True
    one, two = a.producer, b.producer
    if a.tensor is not None and b.tensor is not None:
        return a.tensor.equals(b.tensor)
    if depth > _MAX_DEPTH or one.op_type not in ("Transpose", "Squeeze", "Unsqueeze", "Reshape"):
        return False
    if one.op_type != two.op_type or one.attrs != two.attrs or one.input_count != two.input_count:
        return False
    return all(_are_same(x, y, depth + 1) for x, y in zip(one.operands, two.operands, strict=True))


def _reasons(*layers: Node) -> list[Reject]:
    reasons = [Reject("states-given", node.name) for node in layers if any(node.input(place) for place in _STATES)]
    for node in layers:
        weights = [value for place in _WEIGHTS[node.op_type] if (value := node.input(place)) is not None]
        reasons += [Reject("weights-not-constant", value.name) for value in weights if value.tensor is None]
    return reasons


def _joined(rw: Rewriter, forward: Node, backward: Node, x: Value) -> list[tuple[Value, Value]]:
    """The results of both layers, and what takes their places."""
    inputs: list[Value | None] = [x if rw.anchor is backward else forward.operand(0), *[None] * 7]
    for place in _WEIGHTS[forward.op_type]:
        first, second = forward.input(place), backward.input(place)
        if first is not None and second is not None:
            inputs[place] = rw.const(np.concatenate([first.array, second.array]), like=first)
    activations = forward.attrs.get("activations") or DEFAULT_ACTIVATIONS[forward.op_type]
    assert isinstance(activations, tuple)
    attrs = {**forward.attrs, "direction": "bidirectional", "activations": activations * 2}
    results = list(zip_longest(forward.outputs, backward.outputs))
    made = rw.ops(forward.op_type, *inputs, outputs=len(results), **attrs)
    pairs: list[tuple[Value, Value]] = []
    for place, values in enumerate(results):
        if not any(value is not None and value.use_count for value in values):
            continue
        first, second = rw.ops("Split", made[place], outputs=2, axis=int(place == 0), num_outputs=2)
        if place == 0:
            second = insert_flip(rw, second, 0)
        pairs += [(old, new) for old, new in zip(values, (first, second), strict=True) if old is not None]
    return pairs
