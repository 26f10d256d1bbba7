"""Nodes that hand an input through: Identity, Dropout at inference, no-op Cast, Transpose, x·1, Not(Not(x)) …

A neutral element is one to the bit: x + 0 makes +0 of −0, so that only −0 is neutral for the sum of floats. An operand
that would make the result larger or of another type is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

from atcpy.ir import Graph, Node, PassRecord, Reject, Value, erase_dead
from atcpy.ir.shape import element_count
from atcpy.ir.tensor import Array
from atcpy.ops import Trait, op_types
from atcpy.options import PrepareOptions
from atcpy.passes.base import graph_pass
from atcpy.passes.phase import Phase

MAX_NEUTRAL = 1 << 16  # elements of a constant that are looked at

# Ops that give their input where shape and type stay.
SAME_SHAPE = frozenset({"Identity", "Cast", "CastLike", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile"})
OF_ONE = frozenset({"Concat", "Sum", "Max", "Min", "Mean"})  # without other operands
OF_EQUALS = frozenset({"Max", "Min", "And", "Or"})  # with two equal ones
INVOLUTIONS = op_types(Trait.INVOLUTION)
PROJECTIONS = op_types(Trait.IDEMPOTENT)
OVER_ONE = frozenset({"ReduceMax", "ReduceMin"})

_Test = Callable[[Array], bool]


@cache
def _all(number: float) -> _Test:
    def test(array: Array) -> bool:
        # The first element tells nearly always.
        return not array.size or (array.item(0) == number and bool((array == number).all()))

    return test


def _no_addend(array: Array) -> bool:
    return _all(0)(array) and (array.dtype.kind in "iu" or bool(np.signbit(array).all()))


def _no_subtrahend(array: Array) -> bool:
    return _all(0)(array) and (array.dtype.kind in "iu" or not np.signbit(array).any())


# The places of an operand that may be neutral, and what it must be.
NEUTRAL: Mapping[str, tuple[tuple[int, ...], _Test]] = {
    "Add": ((0, 1), _no_addend),
    "Sub": ((1,), _no_subtrahend),
    "Mul": ((0, 1), _all(1)),
    "Div": ((1,), _all(1)),
    "Pow": ((1,), _all(1)),
    "And": ((0, 1), _all(1)),
    "Or": ((0, 1), _all(0)),
    "Xor": ((0, 1), _all(0)),
    "BitwiseOr": ((0, 1), _all(0)),
    "BitwiseXor": ((0, 1), _all(0)),
    "BitShift": ((1,), _all(0)),
    "Max": ((0, 1), _all(-np.inf)),
    "Min": ((0, 1), _all(np.inf)),
}
_CANDIDATES = frozenset(
    {"Where", "Dropout", "Transpose", "Pad", "Slice", "Split", "Clip", "Resize"}
    | NEUTRAL.keys()
    | SAME_SHAPE
    | OF_ONE
    | OF_EQUALS
    | INVOLUTIONS
    | PROJECTIONS
    | OVER_ONE
)


def handed_through(node: Node) -> Value | None:
    """The value that output 0 always equals in type, shape and elements; None if there is none."""
    if node.op_type not in _CANDIDATES or node.domain or any(value.use_count for value in node.outputs[1:]):
        return None
    value = _candidate(node)
    if value is None:
        return None
    if node.op_type == "Identity":
        return value  # of what, behind an op that nobody knows, it cannot be told, nor need it
    x, y = value.desc, node.output.desc
    return value if x.dtype is y.dtype and x.shape is not None and x.shape == y.shape else None


def _candidate(node: Node) -> Value | None:
    """An input that output 0 equals if their types and shapes are one."""
    first = node.input(0)
    if first is None:
        return None
    if node.op_type in NEUTRAL:
        return _beside_neutral(node) or (_beside_equal(node) if node.op_type in OF_EQUALS else None)
    if node.op_type in INVOLUTIONS:
        above = first.producer
        return above.input(0) if above.op_type == node.op_type and not above.domain else None
    if node.op_type == "Where":
        return _chosen(node)
    return first if _is_identity(node, first) else None


def _is_identity(node: Node, x: Value) -> bool:
    if node.op_type in SAME_SHAPE or (node.op_type in OF_ONE and node.input_count == 1):
        return True
    if node.op_type in PROJECTIONS:
        return x.producer.op_type == node.op_type and not x.producer.domain
    shape = x.desc.shape
    match node.op_type:
        case "Dropout":
            training = node.input(2)
            return training is None or (training.tensor is not None and not training.array.any())
        case "Transpose":
            axes = range(len(shape or ()))
            return node.ints_attr("perm", axes[::-1]) == tuple(axes)
        case "Pad":
            return _holds(node.input(1), _all(0))
        case "Slice":
            return node.input(4) is None or _holds(node.input(4), _all(1))
        case "Split":
            return len(node.outputs) == 1
        case "Clip":
            return node.input(1) is None and node.input(2) is None
        case "Resize":
            cropped = node.str_attr("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
            return not cropped and (node.input(3) is not None or _holds(node.input(2), _all(1)))
        case _:
            return node.op_type in OVER_ONE


def _beside_neutral(node: Node) -> Value | None:
    places, test = NEUTRAL[node.op_type]
    for place in places if node.input_count == 2 else ():
        if _holds(node.input(place), test):
            return node.operand(1 - place)
    return None


def _beside_equal(node: Node) -> Value | None:
    """The operand, if all are one value."""
    return node.operand(0) if all(value is node.operand(0) for value in node.operands) else None


def _chosen(node: Node) -> Value | None:
    condition, yes, no = (node.operand(place) for place in range(3))
    if yes is no or _holds(condition, _all(1)):
        return yes
    return no if _holds(condition, _all(0)) else None


def _holds(value: Value | None, test: _Test) -> bool:
    """Is it a constant, not too large to look at, that passes the test?"""
    tensor = None if value is None else value.tensor
    if tensor is None or element_count(tensor.shape) > MAX_NEUTRAL:
        return False
    array = tensor.array
    return array.dtype.kind in "biuf" and test(array)


@graph_pass("IdentityPass", Phase.CLEAN_UP, repeats=True)
def remove_identity(graph: Graph, record: PassRecord, options: PrepareOptions) -> None:
    """Remove nodes that change nothing."""
    for node in graph.nodes:
        value = handed_through(node)
        if value is not None:
            if not record.may_apply():
                break
            record.matched += 1
            record.fire([node])
            graph.replace_uses(node.output, value)
            erase_dead(graph, [node], "identity")
        elif node.op_type == "Add" and any(_holds(addend, _all(0)) for addend in node.operands):
            record.matched += 1
            record.reject(Reject("negative-zero", node.name))
