"""Random numbers, as far as they matter to nobody: in a dropout that drops nothing.

    x / keep · (floor(keep + random) or random ≥ rate),   keep = 1 or rate = 0

A number that is drawn is noted with the range that it is in; what is made of it is known where its range says so.
"""

from __future__ import annotations

import math

from atcpy.errors import Unsupported
from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.evaluation import find_constant
from atcpy.parsers.tensorflow.graph import BRANCHES, LOOPS
from atcpy.parsers.tensorflow.op import OpBuilder, maps


@maps("RandomUniform")
def random_uniform(b: OpBuilder) -> Value:
    """Nothing where a dropout reads it that drops nothing; else refused, as all that is random"""
    dtype = b.dtype_attr("dtype")
    drawn = b.op("Expand", b.const(0, dtype), b.int64_input(0))
    b.bodies.random[drawn] = (0.0, 1.0)
    return drawn


# What asks for the shape of a number alone, or hands it to graphs of its own.
_APART = frozenset({"Shape", "Size", "Rank", "ZerosLike", "OnesLike"}) | BRANCHES | LOOPS


def is_random(b: OpBuilder) -> bool:
    """Whether a node computes with a random number."""
    drawn = b.bodies.random
    return bool(drawn) and b.node.op not in _APART and any(value in drawn for value in b.inputs)


def of_random(b: OpBuilder) -> Value:
    """Compute a node from the range [low, high) of the random number that it reads."""
    drawn, index = b.bodies.random, [value in b.bodies.random for value in b.inputs].index(True)
    value = b.inputs[index]
    low, high = drawn[value]
    if b.node.op == "Identity":
        return value
    if b.node.op == "Floor" and high <= math.floor(low) + 1:
        return b.like(math.floor(low), value)
    other = find_constant(b.input(1 - index), b.known) if len(b.inputs) == 2 else None
    if other is not None and other.size == 1:
        number = float(other.reshape(-1)[0])
        if b.node.op == "GreaterEqual" and index == 0 and (number <= low or number >= high):
            return b.const(number <= low, DType.BOOL)
        steps = {"Add": (low + number, high + number), "Mul": (low * number, high * number)}
        ends = steps.get(b.node.op.removesuffix("V2"))
        if ends is not None and ends[0] <= ends[1]:
            shifted = b.op("Identity", value)
            drawn[shifted] = ends
            return shifted
    raise refusal(b)


def refusal(b: OpBuilder) -> Unsupported:
    """The error for what depends on chance."""
    return b.unsupported("random numbers", "export the model for inference, where nothing is dropped out")
