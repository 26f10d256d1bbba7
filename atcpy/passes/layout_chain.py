"""What a chain of Reshape and Transpose does to elements, and the shortest chain that does the same.

Each dim of the chain's input is cut into factors so fine that every dim of every value in the chain is a run of
factors. A view regroups them in their order, a Transpose moves whole dims. At the end:

    the factors stand as they stood                 nothing, or one view
    each dim of the result is one of the input      one Transpose
    each dim of the result is a run of the input    a view, then a Transpose
    each dim of the input is a run of the result    a Transpose, then a view
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from atcpy.ir import Node, Rewriter, Value
from atcpy.ir.shape import Dim, Shape
from atcpy.ir.symbolic import is_symbolic, same, same_shape
from atcpy.ir.tensor import Array
from atcpy.ops import Trait, op_types
from atcpy.ops.core.shape_values import UNNAMED, product

VIEWS = op_types(Trait.RESHAPE)
MOVES = VIEWS | {"Transpose"}


@dataclass(frozen=True, slots=True)
class Step:
    """One node of a chain: an op of MOVES, and what its operand or `perm` says."""

    op_type: str
    numbers: tuple[int, ...]

    def insert(self, rw: Rewriter, x: Value) -> Value:
        """Adds the node."""
        if self.op_type == "Transpose":
            return rw.op("Transpose", x, perm=self.numbers)
        return rw.op(self.op_type, x, rw.const(np.array(self.numbers, np.int64), name=f"{rw.anchor.name}_dims"))


@dataclass(eq=False, slots=True)
class _Factor:
    """Factors are told apart by identity: two of one size are not the same."""

    size: Dim


Dims = list[list[_Factor]]


class Moves:
    """Where the elements of a value of the given shape went. No dim may be 0 or unnamed."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._source: Dims = [[] if same(dim, 1) else [_Factor(dim)] for dim in shape]
        self._dims: Dims = [list(run) for run in self._source]

    def apply(self, node: Node) -> bool:
        """Follows a node of MOVES; False if its dims are not made of factors."""
        shape = node.output.desc.shape
        if shape is None or not has_named_dims(shape):
            return False
        if node.op_type == "Transpose":
            self._dims = [self._dims[axis] for axis in node.ints_attr("perm", range(len(shape))[::-1])]
            return True
        return self._view(shape)

    def _view(self, shape: Shape) -> bool:
        rest = [factor for run in self._dims for factor in run][::-1]
        dims: Dims = []
        for size in shape:
            run: list[_Factor] = []
            while not same(have := product(factor.size for factor in run), size):
                if not rest:
                    return False
                factor = rest.pop()
                if isinstance(have, int) and isinstance(size, int) and isinstance(factor.size, int):
                    if any(map(is_symbolic, (have, size, factor.size))):
                        run.append(factor)
                        continue
                    left = size // have
                    if factor.size > left > 1 and size % have == 0 and factor.size % left == 0:
                        factor, inner = self._cut(factor, left, factor.size // left)
                        rest.append(inner)
                run.append(factor)
            dims.append(run)
        if rest:
            return False
        self._dims = dims
        return True

    def _cut(self, factor: _Factor, outer: int, inner: int) -> tuple[_Factor, _Factor]:
        parts = _Factor(outer), _Factor(inner)
        for run in (*self._source, *self._dims):
            if factor in run:
                index = run.index(factor)
                run[index : index + 1] = parts
        return parts

    def shortest(self, shape: Shape) -> list[Step] | None:
        """The steps from the input to the result, which has this shape; None if it takes more than two."""
        source, result = list(_flat(self._source)), list(_flat(self._dims))
        if source == result:
            return [] if same_shape(shape, self._shape) else _as_list(view_step(self._shape, shape))
        perm = self._permutation(self._dims)
        if perm is not None:
            return [Step("Transpose", perm)]
        return self._view_first(shape, source) or self._transpose_first(shape, result)

    def reordered(self) -> tuple[int, Array] | None:
        """The one dim whose indices are in another order now, and that order; None where there is more to it."""
        if len(self._dims) != len(self._source):
            return None
        changed = [axis for axis, run in enumerate(self._source) if run != self._dims[axis]]
        sizes = [factor.size for run in changed[:1] for factor in self._source[run] if isinstance(factor.size, int)]
        if len(changed) != 1 or len(sizes) < len(self._source[changed[0]]):
            return None
        before, after = self._source[changed[0]], self._dims[changed[0]]
        if set(before) != set(after):
            return None
        indices = np.arange(int(np.prod(sizes))).reshape(sizes).transpose([before.index(factor) for factor in after])
        return changed[0], indices.reshape(-1)

    def _permutation(self, dims: Dims) -> tuple[int, ...] | None:
        """The dim of the input that each of `dims` is; those of size 1 in their order."""
        if len(dims) != len(self._source):
            return None
        ones = iter(axis for axis, run in enumerate(self._source) if not run)
        axis_of = {run[0]: axis for axis, run in enumerate(self._source) if run}
        perm: list[int] = []
        for run in dims:
            axis = axis_of.get(run[0]) if run else next(ones, None)
            if axis is None or (run and run != self._source[axis]):
                return None
            perm.append(axis)
        return tuple(perm)

    def _view_first(self, shape: Shape, source: list[_Factor]) -> list[Step] | None:
        """Regroup the input into the dims of the result, then move those."""
        number = {factor: index for index, factor in enumerate(source)}
        moved = [run for run in self._dims if run]
        if not all(_is_run([number[factor] for factor in run]) for run in moved):
            return None
        order = sorted(range(len(moved)), key=lambda axis: number[moved[axis][0]])
        groups = iter([moved[axis] for axis in order])
        middle: list[list[_Factor]] = [[] if not run else next(groups) for run in self._dims]
        step = view_step(self._shape, tuple(product(factor.size for factor in run) for run in middle))
        if step is None:
            return None
        axis_of = {run[0]: axis for axis, run in enumerate(middle) if run}
        return [step, Step("Transpose", tuple(axis_of[run[0]] if run else axis for axis, run in enumerate(self._dims)))]

    def _transpose_first(self, shape: Shape, result: list[_Factor]) -> list[Step] | None:
        """Move the dims of the input, then regroup them."""
        number = {factor: index for index, factor in enumerate(result)}
        if not all(_is_run([number[factor] for factor in run]) for run in self._source if run):
            return None
        moved = sorted((axis for axis, run in enumerate(self._source) if run), key=lambda a: number[self._source[a][0]])
        axes = iter(moved)
        perm = tuple(axis if not run else next(axes) for axis, run in enumerate(self._source))
        step = view_step(tuple(self._shape[axis] for axis in perm), shape)
        return None if step is None else [Step("Transpose", perm), step]


def has_named_dims(shape: Shape | None) -> bool:
    """True if every dim is a number above 0 or a size with a name."""
    return shape is not None and all(dim not in {0, UNNAMED} for dim in shape)


def view_step(before: Shape, after: Shape) -> Step | None:
    """The view that makes one shape of another with the same elements; None if no constant says so.

    Where one more dim than those that stay has an open size, it is asked for as −1, which a value without elements
    cannot tell: an empty batch is then refused, as the exporters' own −1 is.
    """
    target = [_target(before, axis, dim) for axis, dim in enumerate(after)]
    if target.count(-1) <= 1 and has_named_dims(after):
        return Step("Reshape", tuple(target))
    added, removed = _added_ones(before, after), _added_ones(after, before)
    if added is not None:
        return Step("Unsqueeze", added)
    return None if removed is None else Step("Squeeze", removed)


def _target(before: Shape, axis: int, dim: Dim) -> int:
    if isinstance(dim, int) and not is_symbolic(dim):
        return dim
    return 0 if axis < len(before) and same(before[axis], dim) else -1


def _added_ones(short: Shape, long: Shape) -> tuple[int, ...] | None:
    """The indices of dims of size 1 that make the longer shape of the shorter one."""
    rest = list(short)[::-1]
    added = []
    for axis, dim in enumerate(long):
        if rest and same(rest[-1], dim):
            rest.pop()
        elif same(dim, 1):
            added.append(axis)
        else:
            return None
    return None if rest or UNNAMED in long else tuple(added)


def _flat(dims: Dims) -> Iterator[_Factor]:
    return (factor for run in dims for factor in run)


def _is_run(indices: Sequence[int]) -> bool:
    return list(indices) == list(range(indices[0], indices[0] + len(indices)))


def _as_list(step: Step | None) -> list[Step] | None:
    return None if step is None else [step]


def chain_above(node: Node, longest: int) -> Iterable[Node]:
    """A node of MOVES and those that its input went through, the last first."""
    chain = [node]
    while len(chain) < longest:
        above = chain[-1].operand(0).producer
        if above.op_type not in MOVES or above.domain or above.graph is not node.graph:
            break
        chain.append(above)
    return chain
