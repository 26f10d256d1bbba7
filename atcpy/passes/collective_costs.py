"""What a collective takes, and what nodes take that run beside it, to decide when it can end.

A collective by the α-β-γ model: α seconds to start a message, β to send a byte, γ to add one.

n bytes on p ranks
allreduce       ring       2(p-1)·α + 2(p-1)/p·n·β + (p-1)/p·n·γ
                doubling   ⌈log2 p⌉·(α + n·β + n·γ)
                halving    2·log2 q·α + 2(q-1)/q·n·β + (q-1)/q·n·γ, q = p, or the power of two below it
                           and 2·α + 2·n·β + n·γ, with which the others join and hear of it
reduce-scatter  ring       (p-1)·α + (p-1)/p·n·(β + γ)
allgather       ring       (p-1)·α + (p-1)/p·n·β, of the whole
broadcast       tree       ⌈log2 p⌉·(α + n·β)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from atcpy.ir import Node
from atcpy.ir.tensor import Array
from atcpy.ops import find_opdef
from atcpy.options import Network

_BYTES_PER_SECOND = 20e9


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A way to run a collective: `start` + n · `per_byte` seconds for n bytes."""

    name: str
    start: float
    per_byte: float

    def seconds(self, nbytes: int) -> float:
        """Seconds for so many bytes."""
        return self.start + nbytes * self.per_byte


def algorithms(op_type: str, network: Network) -> tuple[Algorithm, ...]:
    """The ways to run a collective."""
    ranks, alpha, beta, gamma = network.ranks, network.alpha, network.beta, network.gamma
    others, rounds, share = ranks - 1, (ranks - 1).bit_length(), (ranks - 1) / ranks
    match op_type:
        case "HcomAllReduce":
            paired = 1 << (ranks.bit_length() - 1)
            extra = paired < ranks
            halvings = paired.bit_length() - 1 + extra
            return (
                Algorithm("ring", 2 * others * alpha, share * (2 * beta + gamma)),
                Algorithm("doubling", rounds * alpha, rounds * (beta + gamma)),
                Algorithm("halving", 2 * halvings * alpha, ((paired - 1) / paired + extra) * (2 * beta + gamma)),
            )
        case "HcomReduceScatter":
            return (Algorithm("ring", others * alpha, share * (beta + gamma)),)
        case "HcomAllGather":
            return (Algorithm("ring", others * alpha, share * beta),)
        case _:
            return (Algorithm("tree", rounds * alpha, rounds * beta),)


def cheapest(op_type: str, nbytes: int, network: Network) -> Algorithm:
    """The way that takes the least for so many bytes; of equals, the first."""
    return min(algorithms(op_type, network), key=lambda way: way.seconds(nbytes))


def least_seconds(ways: Sequence[Algorithm], sizes: Array) -> Array:
    """Seconds for each of the sizes, in bytes, each by the cheapest of the ways."""
    return reduce(np.minimum, (way.start + sizes * way.per_byte for way in ways))


def compute_seconds(node: Node, network: Network) -> float:
    """What a node takes on a rank, by the bytes that it reads and writes and the numbers that it multiplies, as far as
    its shapes are known.
    """
    descs = [value.desc for value in (*node.operands, *node.outputs)]
    nbytes = sum(desc.nbytes for desc in descs if desc.is_static)
    opdef = find_opdef(node)
    if opdef is None or opdef.multiplications is None or not all(desc.is_static for desc in descs):
        return nbytes / _BYTES_PER_SECOND
    return nbytes / _BYTES_PER_SECOND + opdef.multiplications(node) / network.speed
