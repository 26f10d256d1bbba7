"""Name the normalizations that exporters spell out.

d / √(mean(d²) + ε)                             →  LayerNormalization(x, 1),   d = x − mean(x)
x / √(mean(x²) + ε)                             →  RMSNormalization(x, 1)
x·k + (b − mean(x)·k),  k = g / √(mean(d²) + ε) →  LayerNormalization(x, g, b)

Means are over the last dims. PyTorch, Paddle and MXNet divide by the root, TensorFlow and Keras multiply by its
reciprocal, and have the factor g in it; d² may be Pow or Mul, √ may be Pow. What is multiplied and added then:
norm_affine.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atcpy.ir import DType, Match, Reject, Rewriter, Value
from atcpy.ir.pattern import Op, Pattern, const, op, var
from atcpy.options import Stage
from atcpy.passes.fusion import Fusion, constant_is, only_read_within
from atcpy.passes.spread import reaches_last_only, spread_over_last

_X = var("x")
_MEAN = op("ReduceMean", _X, const("axes"), name="mean")
_APART = op("Sub", _X, _MEAN, name="apart")


def _root(of: Pattern) -> Op:
    """√(mean(of²) + ε); as Pow, its power tells whether it is the reciprocal."""
    square = op(("Pow", "Mul"), of, var("two"), name="square")
    variance = op("ReduceMean", square, const("axes of squares"), name="variance")
    moved = op("Add", variance, const("epsilon"), commutative=True, name="moved")
    return op(("Sqrt", "Pow"), moved, const("power", optional=True), name="root")


def _reciprocal(of: Pattern) -> Op:
    return op("Reciprocal", _root(of), name="reciprocal")


def _normalized(x: Pattern) -> tuple[Op, ...]:
    """x by its root, as a quotient or a product."""
    return (
        op("Div", x, _root(x), name="y"),
        op("Mul", x, _reciprocal(x), commutative=True, name="y"),
        op("Mul", x, _root(x), commutative=True, name="y"),
    )


_SCALE = op("Mul", _reciprocal(_APART), const("scale"), commutative=True, name="scaled")
_SHIFT = op("Sub", const("bias"), op("Mul", _MEAN, _SCALE, commutative=True, name="moment"), name="shift")
_SCALED = op("Mul", _APART, _SCALE, commutative=True, name="y")
_MOMENTS = op("Add", op("Mul", _X, _SCALE, commutative=True, name="product"), _SHIFT, commutative=True, name="y")


def _requirements(m: Match, of: Value) -> Iterator[Reject]:
    y, root, square = m.node("y"), m.node("root"), m.node("square")
    if m["x"].desc.dtype is not DType.FLOAT32:
        yield Reject("dtype", y.name, m["x"].desc.dtype.long)
    yield from only_read_within(m, y)
    if square.op_type == "Pow":
        yield from constant_is(m["two"], 2.0)
    elif m["two"] is not of:
        yield Reject("other-formula", square.name)
    divides = y.op_type == "Div" or "reciprocal" in m.nodes
    if root.op_type == "Pow" or not divides:
        power = m.get("power")
        if power is None:
            yield Reject("other-formula", y.name)
        else:
            yield from constant_is(power, 0.5 if divides else -0.5)
    epsilon = m["epsilon"]
    if epsilon.desc.elements != 1 or not epsilon.array.reshape(-1)[0] >= 0:
        yield Reject("other-constant", epsilon.name, "is not one number from 0 on")
    for name in {"mean", "variance"} & set(m.nodes):
        if _first_axis(m, name) is None or _first_axis(m, name) != _first_axis(m, "variance"):
            yield Reject("other-axes", m.node(name).name)


def _first_axis(m: Match, reduction: str) -> int | None:
    """From which axis on a mean is taken; None if it is not over the last dims, all of known size, which it keeps."""
    shape, node = m["x"].desc.shape, m.node(reduction)
    if shape is None or not node.int_attr("keepdims", 1):
        return None
    axes = sorted(int(axis) % len(shape) for axis in node.operand(1).array.reshape(-1))
    first = len(shape) - len(axes)
    known = all(isinstance(dim, int) for dim in shape[first:])
    return first if axes and axes == list(range(first, len(shape))) and known else None


def _attrs(m: Match) -> dict[str, object]:
    first, shape = _first_axis(m, "variance"), m["x"].desc.shape
    assert first is not None and shape is not None
    return {"axis": first - len(shape), "epsilon": float(m["epsilon"].array.reshape(-1)[0])}


def _last_dims(m: Match) -> tuple[int, ...]:
    first, shape = _first_axis(m, "variance"), m["x"].desc.shape
    return () if first is None or shape is None else tuple(dim for dim in shape[first:] if isinstance(dim, int))


class LayerNorm(
    Fusion,
    switch="LayerNormFusionPass",
    stage=Stage.PREPARE,
    after=("PrunePass",),
    makes=("LayerNormalization",),
):
    """Replace (x − mean) / √(variance + ε) by LayerNormalization."""

    pattern = (*_normalized(_APART), _SCALED, _MOMENTS)

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from _requirements(m, m.node("apart").output)
        for name in {"scale", "bias"} & set(m.values):
            if not reaches_last_only(m[name], _last_dims(m)):
                yield Reject("broadcast", m.node("y").name, m[name].name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        dims = _last_dims(m)
        vectors = [
            rw.const(spread_over_last(m[name], dims), like=m[name]) for name in ("scale", "bias") if name in m.values
        ]
        return rw.insert(
            "LayerNormalization", m["x"], *(vectors or [rw.const(np.ones(dims), like=m["epsilon"])]), **_attrs(m)
        )


class RMSNorm(
    Fusion, switch="RMSNormFusionPass", stage=Stage.PREPARE, after=("LayerNormFusionPass",), makes=("RMSNormalization",)
):
    """Replace x / √(mean(x²) + ε) by RMSNormalization."""

    pattern = _normalized(_X)

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from _requirements(m, m["x"])

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return rw.insert("RMSNormalization", m["x"], rw.const(np.ones(_last_dims(m)), like=m["epsilon"]), **_attrs(m))
