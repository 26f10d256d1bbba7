"""What Slices take of the dims of a value, and the Slice that takes what two take one after the other."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from atcpy.ir import Node, Rewriter, Value
from atcpy.ir.symbolic import is_symbolic, maximum
from atcpy.ops.core.reference import known_constant
from atcpy.ops.core.shape_values import integers
from atcpy.ops.move.slice import AXES, ENDS, STARTS, STEPS, Extent, extent

Cut = Mapping[int, Extent]  # by axis; the other dims are taken whole


def cut_of(node: Node) -> Cut | None:
    """What a Slice takes of the dims that it names; None if that depends on sizes or numbers of the run, or is no
    Slice.
    """
    if node.op_type != "Slice" or node.domain:
        return None
    shape = node.operand(0).desc.shape
    starts, ends, axes, steps = (_numbers(node, index) for index in (STARTS, ENDS, AXES, STEPS))
    if shape is None or starts is None or ends is None:
        return None
    if (axes is None and node.input(AXES) is not None) or (steps is None and node.input(STEPS) is not None):
        return None
    cut: dict[int, Extent] = {}
    for index, axis in enumerate(range(len(starts)) if axes is None else axes):
        size = shape[axis % len(shape)]
        step = steps[index] if steps else 1
        if not isinstance(size, int) or step == 0:
            return None
        cut[axis % len(shape)] = extent(node, size, starts[index], ends[index], step)
    return cut


def _numbers(node: Node, index: int) -> tuple[int, ...] | None:
    return integers(known_constant(node.input(index)))


def joined(first: Cut, second: Cut) -> Cut:
    """What two Slices take, the second of what the first left."""
    return {**first, **{axis: _within(first[axis], part) if axis in first else part for axis, part in second.items()}}


def _within(outer: Extent, inner: Extent) -> Extent:
    if is_symbolic(inner.count):  # where it begins does not matter if nothing is taken
        return Extent(outer.start + inner.start * outer.step, outer.step * inner.step, inner.count)
    start = outer.start + inner.start * outer.step if inner.count else 0
    return Extent(start, outer.step * inner.step if inner.count > 1 else 1, inner.count)


def insert_slice(rw: Rewriter, x: Value, cut: Cut) -> Value:
    """The Slice that takes this; steps are left out where each is 1."""
    axes = sorted(cut)
    parts = [cut[axis] for axis in axes]
    columns = {"starts": [part.start for part in parts], "ends": [_end(part) for part in parts], "axes": axes}
    if any(part.step != 1 for part in parts):
        columns["steps"] = [part.step for part in parts]
    operands = [rw.const(numbers, name=f"{rw.anchor.name}_{name}") for name, numbers in columns.items()]
    return rw.op("Slice", x, *operands)


def insert_flip(rw: Rewriter, x: Value, axis: int) -> Value:
    """The Slice that takes a dim of any size from its end to its start."""
    bounds = (-1, -(2**63) + 1, axis, -1)
    return rw.op("Slice", x, *[rw.const(np.array([number], np.int64)) for number in bounds])


def _end(part: Extent) -> int:
    """The bound behind the last index, as ONNX counts: what lies before the first index is far below zero."""
    if is_symbolic(part.count) and part.step > 0:
        return part.start + maximum(0, (part.count - 1) * part.step + 1)
    if not part.count:
        return part.start
    end = part.start + (part.count - 1) * part.step + (1 if part.step > 0 else -1)
    return end if end >= 0 else -(2**31)
