"""Ops that work on dims in another order as well: what must change in a node then.

With x' = Transpose(x, perm), node'(x') is Transpose(node(x), perm): axes are renamed, numbers that come one a dim are
put into the other order, and the rest is as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from atcpy.ir import Node, Value
from atcpy.ir.tensor import Array
from atcpy.ops import Trait, has_trait
from atcpy.ops.reduce.reduce import REDUCTIONS

Perm = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Permuted:
    """What is new in the node: some attributes, and some constant operands by their places."""

    attrs: Mapping[str, object] = field(default_factory=dict)
    constants: Mapping[int, Array] = field(default_factory=dict)


@cache
def inverse(perm: Perm) -> Perm:
    """The order that undoes another."""
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


def permuted(node: Node, perm: Perm) -> Permuted | None:
    """How the node works on permuted dims; None if it does not."""
    if node.op_type in _RULES:
        return _RULES[node.op_type](node, perm)
    return Permuted() if has_trait(node, Trait.ELEMENTWISE) else None


def data_places(node: Node) -> Sequence[int]:
    """The operands whose dims are those of the result."""
    if node.op_type in _ONE_PLACE:
        return (0,)
    return range(node.input_count)


def _axis(default: int) -> Callable[[Node, Perm], Permuted | None]:
    """The one axis is an attribute."""

    def rule(node: Node, perm: Perm) -> Permuted | None:
        axis = node.int_attr("axis", default) % len(perm)
        return Permuted({"axis": inverse(perm)[axis]}) if node.attrs.get("keepdims", 1) else None

    return rule


def _quantize(node: Node, perm: Perm) -> Permuted | None:
    """One scale for all, or one a place of an axis."""
    shape = node.operand(1).desc.shape
    if shape is None or len(shape) > 1 or node.int_attr("block_size", 0):
        return None
    return _axis(1)(node, perm) if shape and shape != (1,) else Permuted()


def _pad(node: Node, perm: Perm) -> Permuted | None:
    """Two numbers a dim, or the axes that they belong to."""
    if node.input(3) is not None:
        return _axes_at(3)(node, perm)
    pads = _numbers(node.input(1))
    rank = len(perm)
    if pads is None or len(pads) != 2 * rank:
        return None
    return Permuted({}, {1: np.array([pads[side + axis] for side in (0, rank) for axis in perm], np.int64)})


def _axes_at(place: int, counted_at: int | None = None) -> Callable[[Node, Perm], Permuted | None]:
    """An operand names the axes; without it, the first ones, as many as another operand has numbers."""

    def rule(node: Node, perm: Perm) -> Permuted | None:
        axes = _numbers(node.input(place))
        if axes is None and node.input(place) is None and counted_at is not None:
            numbers = _numbers(node.input(counted_at))
            axes = None if numbers is None else tuple(range(len(numbers)))
        if axes is None:
            return None
        to = inverse(perm)
        return Permuted({}, {place: np.array([to[axis % len(perm)] for axis in axes], np.int64)})

    return rule


def _reduce(node: Node, perm: Perm) -> Permuted | None:
    """The dims must stay."""
    if not node.int_attr("keepdims", 1):
        return None
    return Permuted() if node.input(1) is None else _axes_at(1)(node, perm)


def _tile(node: Node, perm: Perm) -> Permuted | None:
    """One number a dim."""
    repeats = _numbers(node.input(1))
    return None if repeats is None else Permuted({}, {1: np.array([repeats[axis] for axis in perm], np.int64)})


def _resize(node: Node, perm: Perm) -> Permuted | None:
    """One number a dim; the first two dims must stay as they are, for that is what runtimes can do."""
    x, y = node.operand(0).desc.shape, node.output.desc.shape
    if x is None or y is None or node.attrs.get("axes") or any(x[axis] != y[axis] for axis in perm[:2]):
        return None
    if node.str_attr("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        return None
    place = 3 if node.input(3) is not None else 2
    given = node.input(place)
    if given is None or given.tensor is None or given.desc.elements != len(perm):
        return None
    return Permuted({}, {place: given.array[list(perm)]})


def _numbers(value: Value | None) -> tuple[int, ...] | None:
    """The elements of a constant vector of integers."""
    if value is None or value.tensor is None:
        return None
    return tuple(int(item) for item in value.array.reshape(-1))


_RULES: dict[str, Callable[[Node, Perm], Permuted | None]] = {
    "Softmax": _axis(-1),
    "LogSoftmax": _axis(-1),
    "Hardmax": _axis(-1),
    "ArgMax": _axis(0),
    "ArgMin": _axis(0),
    "Concat": _axis(0),
    "Split": _axis(0),
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _quantize,
    "Pad": _pad,
    "Slice": _axes_at(3, 1),
    "Tile": _tile,
    "Resize": _resize,
    **dict.fromkeys(REDUCTIONS, _reduce),
}
_ONE_PLACE = (_RULES.keys() - {"Concat"}) | {"Clip", "CastLike"}
