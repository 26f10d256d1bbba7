"""Ops that work on dims regrouped as well: what must change in a node then.

A view regroups dims: it joins a run of them to one, cuts one into several, adds or leaves out dims of size 1. A dim
that it leaves alone may be of another size in other values: so Split and Concat work on both sides of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from atcpy.ir import Node
from atcpy.ir.shape import Dim, Shape
from atcpy.ir.symbolic import is_symbolic, same
from atcpy.ops import Trait, find_opdef
from atcpy.ops.core.opdef import working_axis
from atcpy.ops.core.shape_values import product, quotient
from atcpy.passes.layout_chain import has_named_dims


@dataclass(frozen=True, slots=True)
class _Run:
    """Dims that become others together; None for both sides of one that is left alone."""

    before: tuple[Dim | None, ...]
    after: tuple[Dim | None, ...]


_ALONE = _Run((None,), (None,))


@dataclass(frozen=True, slots=True)
class Regrouping:
    """How a view regroups dims, which are `rank` before."""

    runs: tuple[_Run, ...]
    rank: int

    def shape(self, shape: Shape) -> Shape | None:
        """What becomes of a shape; None if its dims do not go together so. Fewer dims stand for ones before them."""
        if len(shape) > self.rank:
            return None
        rest = (1,) * (self.rank - len(shape)) + shape
        result: list[Dim] = []
        for run in self.runs:
            dims, rest = rest[: len(run.before)], rest[len(run.before) :]
            if run is _ALONE:
                result += dims
            elif dims == run.before:
                result += [dim for dim in run.after if dim is not None]
            elif all(dim == 1 for dim in dims):
                result += [1] * len(run.after)
            else:
                return None
        return tuple(result)

    def axis(self, axis: int) -> int | None:
        """Where a dim is afterwards that is left alone; None for another one."""
        before = after = 0
        for run in self.runs:
            if before == axis and run is _ALONE:
                return after
            before += len(run.before)
            after += len(run.after)
        return None


def regrouping(before: Shape | None, after: Shape | None) -> Regrouping | None:
    """How one shape becomes another with the same elements; None where that is not known."""
    if before is None or after is None or not (has_named_dims(before) and has_named_dims(after)):
        return None
    old, new = list(before[::-1]), list(after[::-1])
    runs = []
    while old or new:
        run = _next_run(old, new)
        if run is None:
            return None
        runs.append(run)
    return Regrouping(tuple(runs), len(before))


def _next_run(old: list[Dim], new: list[Dim]) -> _Run | None:
    """Takes from the ends what goes together."""
    if old and new and same(old[-1], new[-1]):
        old.pop()
        new.pop()
        return _ALONE
    if old and same(old[-1], 1):
        old.pop()
        return _Run((1,), ())
    if new and same(new[-1], 1):
        new.pop()
        return _Run((), (1,))
    if not old or not new:
        return None
    before, after = [old.pop()], [new.pop()]
    while not same(product(before), product(after)):
        if old and quotient(after, before) is not None:
            before.append(old.pop())
        elif new and quotient(before, after) is not None:
            after.append(new.pop())
        elif not _extend(before, after, old, new):
            return None
    return _Run(tuple(before), tuple(after))


def _extend(before: list[Dim], after: list[Dim], old: list[Dim], new: list[Dim]) -> bool:
    """Takes one more dim on the smaller side, where both are numbers."""
    left, right = product(before), product(after)
    if not isinstance(left, int) or not isinstance(right, int) or is_symbolic(left) or is_symbolic(right):
        return False
    side, rest = (before, old) if left < right else (after, new)
    if not rest:
        return False
    side.append(rest.pop())
    return True


def regrouped(node: Node, change: Regrouping) -> Mapping[str, int] | None:
    """The attributes that are new where the node works on dims regrouped; None if it does not."""
    rank, shape = change.rank, node.output.desc.shape
    if shape is None or len(shape) > rank:
        return None
    opdef = find_opdef(node)
    if opdef is None or opdef.axis is None:
        return {} if opdef is not None and opdef.has_any(Trait.ELEMENTWISE) else None
    first = working_axis(node, rank)
    if first is None:
        return None
    if not opdef.axis.to_last:
        axis = change.axis(first)
        return None if axis is None else {"axis": axis}
    if len(node.outputs) > 1:
        return None
    axes = [change.axis(axis) for axis in range(first, rank)]
    last = sum(len(run.after) for run in change.runs)
    begin = last - len(axes)
    return {"axis": begin} if axes == list(range(begin, last)) else None
