"""Do at once what two nodes of one op do one after the other.

(x + a) + b, (x · a) · b               →  x + (a + b), x · (a · b)
Tile(Tile(x, [2, 1]), [3, 2])          →  Tile(x, [6, 2])
Expand(Expand(x, …), shape)            →  Expand(x, shape)
ReduceMax(ReduceMax(x, rows), columns) →  ReduceMax(x, rows and columns)

Constants of floats are joined where that costs no more than a rounding: addends of one sign, since what one takes away
that the other brought is lost in between, and factors of which no product leaves the range of the type unless
the result is far out.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from atcpy.ir import DType, Match, Reject, Rewriter, Value
from atcpy.ir.pattern import Op, const, op, var
from atcpy.ir.tensor import Array
from atcpy.ops import Trait, op_types
from atcpy.passes.fusion import Fusion, only_read_by
from atcpy.passes.phase import Phase

LARGEST_FACTOR = 2.0**20
SHARED_BYTES = 64 * 1024  # a larger constant that others read, too, is not stored twice
_X = var("x")


def _with_constants(kind: str) -> Op:
    inner = op(kind, _X, const("a"), commutative=True, name="inner")
    return op(kind, inner, const("b"), commutative=True, name="outer")


class ConstantChain(Fusion, switch="ConstantChainFusionPass", phase=Phase.MERGE):
    """Join two sums, or two products, with constants."""

    pattern = (_with_constants("Add"), _with_constants("Mul"))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        inner, outer, a, b = m.node("inner"), m.node("outer"), m["a"], m["b"]
        yield from only_read_by(inner.output, outer)
        large = max(a, b, key=lambda value: value.desc.elements)
        other = large.user_beyond((inner, outer)) if large.desc.nbytes > SHARED_BYTES else None
        if other is not None:
            yield Reject("shared-weights", large.name, other.name)
        shape = np.broadcast_shapes(a.desc.static_shape, b.desc.static_shape)
        if prod(shape) > large.desc.elements:
            yield Reject("broadcast", outer.name, "the constants fill more dims together")
        elif a.desc.dtype in (DType.FLOAT32, DType.FLOAT64):
            if not (_are_addends if outer.op_type == "Add" else _are_factors)(a.array, b.array):
                yield Reject("rounding", outer.name)
        elif not a.desc.dtype.is_int:
            yield Reject("dtype", outer.name, a.desc.dtype.long)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        a, b = m["a"].array, m["b"].array
        with np.errstate(over="ignore"):  # of integers, which go round
            both = a + b if m.root.op_type == "Add" else a * b
        return rw.op(m.root.op_type, m["x"], rw.const(both, like=m["b"]))


def _are_addends(a: Array, b: Array) -> bool:
    """True if both are numbers of one sign everywhere."""
    return bool(np.isfinite(a).all() and np.isfinite(b).all() and (np.signbit(a) == np.signbit(b)).all())


def _are_factors(a: Array, b: Array) -> bool:
    """True if both are of moderate size everywhere."""
    sizes = np.concatenate([np.abs(a).reshape(-1), np.abs(b).reshape(-1)])
    return bool((sizes <= LARGEST_FACTOR).all() and (sizes >= 1 / LARGEST_FACTOR).all())


class TileTile(Fusion, switch="TileTileFusionPass", phase=Phase.MERGE):
    """Join two Tiles."""

    pattern = op("Tile", op("Tile", _X, const("a"), name="inner"), const("b"), name="outer")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from only_read_by(m.node("inner").output, m.node("outer"))

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.op("Tile", m["x"], rw.const(m["a"].array * m["b"].array, like=m["b"]))


class ExpandExpand(Fusion, switch="ExpandExpandFusionPass", phase=Phase.MERGE):
    """Join two Expands."""

    pattern = op("Expand", op("Expand", _X, var("a"), name="inner"), var("b"), name="outer")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from only_read_by(m.node("inner").output, m.node("outer"))
        if not m.node("outer").output.desc.is_static:
            yield Reject("shape-unknown", m.node("outer").name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        shape = m.node("outer").output.desc.static_shape
        return rw.op("Expand", m["x"], rw.const(list(shape), name=f"{m.root.name}_shape"))


class ReduceReduce(Fusion, switch="ReduceReduceFusionPass", phase=Phase.MERGE):
    """Join two reductions of one kind."""

    pattern = tuple(
        op(kind, op(kind, _X, const("a", optional=True), name="inner"), const("b", optional=True), name="outer")
        for kind in sorted(op_types(Trait.STEPWISE))
    )

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        inner, outer = m.node("inner"), m.node("outer")
        yield from only_read_by(inner.output, outer)
        if outer.op_type == "ReduceMean" and not m["x"].desc.dtype.is_float:
            yield Reject("dtype", outer.name, m["x"].desc.dtype.long)
        if _keeps(m, "inner") != _keeps(m, "outer"):
            yield Reject("other-shape", outer.name, "one of them leaves dims out")
        if m["x"].desc.shape is None:
            yield Reject("shape-unknown", inner.name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        rank = len(m["x"].desc.shape or ())
        first = _axes(m, "a", rank)
        rest = list(range(rank)) if _keeps(m, "inner") else [axis for axis in range(rank) if axis not in first]
        axes = sorted({*first, *(rest[axis] for axis in _axes(m, "b", len(rest)))})
        if not axes:
            return m["x"]
        operand = rw.const(np.array(axes, np.int64), name=f"{m.root.name}_axes")
        return rw.op(m.root.op_type, m["x"], operand, keepdims=_keeps(m, "inner"))


def _keeps(m: Match, name: str) -> int:
    return m.node(name).int_attr("keepdims", 1)


def _axes(m: Match, name: str, rank: int) -> list[int]:
    """The dims that are reduced."""
    axes = m.get(name)
    if axes is None or not axes.desc.elements:
        noop = m.node("inner" if name == "a" else "outer").int_attr("noop_with_empty_axes", 0)
        return [] if noop else list(range(rank))
    return [int(axis) % rank for axis in axes.array]
