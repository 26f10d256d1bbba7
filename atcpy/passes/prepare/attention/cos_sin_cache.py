"""Cosines and sines of rotary embeddings: models have each angle twice in a row, RotaryEmbedding reads it once.

Cos(Concat(f, f))                       →  Cos(f)
Gather(table, positions)                →  Gather(half of the table, positions),   where its halves are equal
Cos(Reshape(Expand(Unsqueeze(f, −1))))  →  Cos(f),   where the two of a pair stand beside each other
"""

from __future__ import annotations

import numpy as np

from atcpy.ir import Node, Rewriter, Value
from atcpy.ir.tensor import Array
from atcpy.ops import Trait, has_trait
from atcpy.passes.slices import cut_of

_MAX_DEPTH = 12  # nodes behind the doubling


def is_doubled(value: Value, interleaved: bool) -> bool:
    """Return whether each element of the last axis occurs twice: in both halves, or in neighbouring positions."""
    return _source(value, interleaved) is not None


def halved(value: Value, interleaved: bool, rw: Rewriter) -> Value:
    """Return the value with each element once."""
    source = _source(value, interleaved)
    assert source is not None
    chain, result, once = source
    if once is not None:
        result = rw.const(once, like=result)
    elif interleaved:
        result = rw.op("Squeeze", result, rw.const([-1]))
    for node in reversed(chain):
        inputs = [result, *node.inputs[1:]]
        if node.op_type == "Mul" and node.operand(0).tensor is not None:
            inputs = [node.operand(0), result]
        result = rw.op(node.op_type, *inputs, **node.attrs)
    return result


def _source(value: Value, interleaved: bool) -> tuple[list[Node], Value, Array | None] | None:
    """Return the nodes behind the doubling, the last one first, and what is doubled: a value, or half of a constant."""
    chain: list[Node] = []
    for _ in range(_MAX_DEPTH):
        node = value.producer
        if value.tensor is not None:
            once = _once(value.array, interleaved)
            return None if once is None else (chain, value, once)
        joined = _joined_pairs(node) if interleaved else _joined_halves(node)
        if joined is not None:
            return chain, joined, None
        above = _above(node)
        if above is None:
            return None
        chain.append(node)
        value = above
    return None


def _once(array: Array, interleaved: bool) -> Array | None:
    if array.ndim == 0 or array.shape[-1] % 2:
        return None
    half = array.shape[-1] // 2
    first, second = (array[..., ::2], array[..., 1::2]) if interleaved else (array[..., :half], array[..., half:])
    return first if np.array_equal(first, second) else None


def _joined_halves(node: Node) -> Value | None:
    """Return the value that a Concat joins with itself along the last axis."""
    rank = len(node.output.desc.shape or ()) if node.outputs else 0
    twice = node.op_type == "Concat" and node.input_count == 2 and node.operand(0) is node.operand(1)
    return node.operand(0) if twice and rank and node.int_attr("axis", 0) % rank == rank - 1 else None


def _joined_pairs(node: Node) -> Value | None:
    """Return the value [..., n, 1] whose last axis is repeated and then merged into the one before."""
    repeat = node.operand(0).producer if node.op_type == "Reshape" else node
    if repeat is node or not repeat.operands:
        return None
    once = repeat.operand(0)
    shape, width = once.desc.shape or (), (0, *(once.desc.shape or (0,)))[-2]
    is_repeated = has_trait(repeat, Trait.BROADCAST) or repeat.op_type == "Tile"
    if not is_repeated and not (repeat.op_type == "Concat" and list(repeat.inputs) == [once, once]):
        return None
    if len(shape) < 2 or not isinstance(width, int) or repeat.output.desc.shape != (*shape[:-1], 2) or shape[-1] != 1:
        return None
    return once if node.output.desc.shape == (*shape[:-2], 2 * width) else None


def _above(node: Node) -> Value | None:
    """Return the operand of a node that keeps the last axis; None for other nodes."""
    first = node.input(0)
    rank = None if first is None or first.desc.shape is None else len(first.desc.shape)
    if first is None or not rank or node.domain or node.outputs[0].desc.shape is None:
        return None
    keeps_width = node.output.desc.shape is not None and node.output.desc.shape[-1:] == (first.desc.shape or ())[-1:]
    match node.op_type:
        case "Mul":
            constants = [value for value in node.operands if value.tensor is not None and value.desc.elements == 1]
            others = [value for value in node.operands if value not in constants]
            return others[0] if len(constants) == 1 and len(others) == 1 else None
        case "Gather":
            return first if node.int_attr("axis", 0) % rank != rank - 1 else None
        case "Transpose":
            return first if node.ints_attr("perm", range(rank)[::-1])[-1] == rank - 1 else None
        case "Slice":
            cut = cut_of(node)
            return first if cut is not None and rank - 1 not in cut else None
        case "Unsqueeze" | "Squeeze":
            axes = node.input(1)
            result = len(node.output.desc.shape or ())
            if axes is None or axes.tensor is None:
                return None
            last = max(rank, result) - 1
            moved = {int(axis) % (last + 1) for axis in axes.array.reshape(-1)}
            return first if keeps_width and last not in moved else None
        case _:
            keeps_place = node.op_type == "Identity" or (node.input_count == 1 and has_trait(node, Trait.ELEMENTWISE))
            return first if keeps_place else None
