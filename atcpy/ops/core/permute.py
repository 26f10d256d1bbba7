"""Nodes that work on permuted dims as well: axes are renamed, and numbers of which there is one a dim are put into the
new order.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from atcpy.ir import Node
from atcpy.ops.core.opdef import Perm, Permute, Permuted, Trait, find_opdef, working_axis
from atcpy.ops.core.reference import known_constant
from atcpy.ops.core.shape_values import integers


@cache
def inverse(perm: Perm) -> Perm:
    """Return the permutation that undoes another."""
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


def permuted(node: Node, perm: Perm) -> Permuted | None:
    """Return what is new in a node that works on permuted dims; None if it cannot."""
    opdef = find_opdef(node)
    if opdef is None:
        return None
    if opdef.permute is not None:
        return opdef.permute(node, perm)
    if opdef.axis is not None and not opdef.axis.to_last:
        return permute_axis(node, perm)
    return Permuted() if opdef.has_any(Trait.ELEMENTWISE) else None


def permute_axis(node: Node, perm: Perm) -> Permuted | None:
    """The rule of a node that works along the dim of its attribute `axis`."""
    axis = working_axis(node, len(perm))
    return None if axis is None else Permuted({"axis": inverse(perm)[axis]})


def permute_axes_input(index: int, counted_at: int | None = None) -> Permute:
    """The rule of an op whose input `index` names axes; without it, they are the first ones, as many as the input
    `counted_at` has elements.
    """

    def rule(node: Node, perm: Perm) -> Permuted | None:
        source = node.input(index)
        axes = integers(known_constant(source))
        if source is None and counted_at is not None:
            source = node.input(counted_at)
            numbers = integers(known_constant(source))
            axes = None if numbers is None else tuple(range(len(numbers)))
        if axes is None or source is None:
            return None
        to = inverse(perm)
        return Permuted({}, {index: np.array([to[axis % len(perm)] for axis in axes], source.desc.dtype.numpy)})

    return rule
