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
from atcpy.parsers.tensorflow.op import Op, maps


@maps("RandomUniform")
def random_uniform(op: Op) -> Value:
    """Nothing where a dropout reads it that drops nothing; else refused, as all that is random"""
    dtype = op.dtype_attr("dtype")
    made = op.add("Expand", op.const(0, dtype), op.shape_input(0))
    op.bodies.random[made] = (0.0, 1.0)
    return made


# What asks for the shape of a number alone, or hands it to graphs of its own.
_APART = frozenset({"Shape", "Size", "Rank", "ZerosLike", "OnesLike"}) | BRANCHES | LOOPS


def is_random(op: Op) -> bool:
    """Does it compute with a random number?"""
    drawn = op.bodies.random
    return bool(drawn) and op.node.op not in _APART and any(value in drawn for value in op.inputs)


def of_random(op: Op) -> Value:
    """What a node makes of a random number below an end that it never reaches."""
    drawn, place = op.bodies.random, [value in op.bodies.random for value in op.inputs].index(True)
    low, high = drawn[op.inputs[place]]
    if op.node.op == "Identity":
        return op.inputs[place]
    if op.node.op == "Floor" and high <= math.floor(low) + 1:
        return op.like(math.floor(low), op.inputs[place])
    other = find_constant(op.input(1 - place), op.known) if len(op.inputs) == 2 else None
    if other is not None and other.size == 1:
        number = float(other.reshape(-1)[0])
        if op.node.op == "GreaterEqual" and place == 0 and (number <= low or number >= high):
            return op.const(number <= low, DType.BOOL)
        steps = {"Add": (low + number, high + number), "Mul": (low * number, high * number)}
        ends = steps.get(op.node.op.removesuffix("V2"))
        if ends is not None and ends[0] <= ends[1]:
            made = op.add("Identity", op.inputs[place])
            drawn[made] = ends
            return made
    raise refusal(op)


def refusal(op: Op) -> Unsupported:
    """The error for what depends on chance."""
    return op.refuse("random numbers", "export the model for inference, where nothing is dropped out")
