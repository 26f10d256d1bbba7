"""Name the normalizations that exporters spell out.

d / √(v + ε)            →  LayerNormalization(x, 1),   d = x − mean(x),   v = mean(d²) or mean(x²) − mean(x)²
x / √(mean(x²) + ε)     →  RMSNormalization(x, 1)
x·k + (b − mean(x)·k)   →  LayerNormalization(x, g, b),   k = g / √(v + ε)

Means over other dims than the last have a Transpose around them; where g and b are one a channel and the means are over
all dims behind the channels, it is an InstanceNormalization. PyTorch, Paddle and MXNet divide by the root, TensorFlow,
Keras and JAX multiply by its reciprocal, which has the factor g in it; a square may be Pow or Mul, √ may be Pow, and a
v that rounding made negative may become 0. What is multiplied and added then: affine/norm_scale_bias.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from atcpy.ir import DType, Match, Reject, Rewriter, Value
from atcpy.ir.pattern import Op, Pattern, const, either, op, var
from atcpy.ir.tensor import Array
from atcpy.ops.core.permute import inverse
from atcpy.passes.broadcast import along, is_one_a_channel, one_a_channel
from atcpy.passes.fusion import Fusion, constant_is, only_read_within

_X = var("x")
_MEAN = op("ReduceMean", _X, const("axes"), name="mean")
_APART = op("Sub", _X, _MEAN, name="apart")
_CONSTANTS = {"numerator", "scale", "bias"}


def _square(of: Pattern, name: str) -> Op:
    return op(("Pow", "Mul"), of, var(f"two of {name}"), name=name)


def _mean_of_squares(of: Pattern) -> Op:
    return op("ReduceMean", _square(of, "square"), const("axes of squares"), name="variance")


_DIFFERENCE = op("Sub", _mean_of_squares(_X), _square(_MEAN, "square of mean"), name="difference")
_FROM_ZERO = op("Max", _DIFFERENCE, const("zero"), commutative=True, name="from zero")
_VARIANCE = either(_mean_of_squares(_APART), _DIFFERENCE, op("Relu", _DIFFERENCE, name="from zero"), _FROM_ZERO)


def _normalized(x: Pattern, variance: Pattern) -> tuple[Op, ...]:
    """Return the patterns of x / √(variance + ε). A root that is Pow may be the reciprocal: its exponent says so."""
    moved = op("Add", variance, const("epsilon"), commutative=True, name="moved")
    root = op(("Sqrt", "Pow"), moved, const("power", optional=True), name="root")
    inverse_root = either(
        op("Reciprocal", root, name="reciprocal"), op("Div", const("numerator"), root, name="reciprocal"), root
    )
    scale = either(inverse_root, op("Mul", inverse_root, const("scale"), commutative=True, name="scaled"))
    quotient, product = op("Div", x, root, name="y"), op("Mul", x, scale, commutative=True, name="y")
    return (quotient, product) if x is not _APART else (quotient, product, *_by_moments(scale))


def _by_moments(scale: Pattern) -> tuple[Op, ...]:
    """Return the patterns of x · k + (b − mean · k), in every order."""
    term = op("Mul", _X, scale, commutative=True, name="term")
    moment = op("Mul", _MEAN, scale, commutative=True, name="moment")
    negated = either(
        op("Neg", moment, name="negated"),
        op("Mul", op("Neg", _MEAN, name="negated"), scale, commutative=True, name="moment"),
    )
    bias = const("bias")
    shift = either(
        negated, op("Sub", bias, moment, name="shift"), op("Add", negated, bias, commutative=True, name="shift")
    )
    return op("Add", term, shift, commutative=True, name="y"), op("Sub", term, moment, name="y")


def _requirements(m: Match, of: Value) -> Iterator[Reject]:
    y, root = m.node("y"), m.node("root")
    if m["x"].desc.dtype is not DType.FLOAT32:
        yield Reject("dtype", y.name, m["x"].desc.dtype.long)
    yield from only_read_within(m, y)
    squares = {"square": of, "square of mean": m.node("mean").output if "mean" in m.nodes else of}
    for name in squares.keys() & m.nodes.keys():
        two = m[f"two of {name}"]
        if m.node(name).op_type == "Pow" and two.tensor is not None:
            yield from constant_is(two, 2.0)
        elif m.node(name).op_type == "Pow" or two is not squares[name]:
            yield Reject("other-formula", m.node(name).name)
    divides = y.op_type == "Div" or "reciprocal" in m.nodes
    if root.op_type == "Pow" or not divides:
        power = m.get("power")
        if power is None:
            yield Reject("other-formula", y.name)
        else:
            yield from constant_is(power, 0.5 if divides else -0.5)
    if "zero" in m.values:
        yield from constant_is(m["zero"], 0.0)
    epsilon = m["epsilon"]
    if epsilon.desc.elements != 1 or not epsilon.array.reshape(-1)[0] >= 0:
        yield Reject("other-constant", epsilon.name, "is not one number from 0 on")
    for name in {"mean", "variance"} & set(m.nodes):
        if not _axes(m, name) or _axes(m, name) != _axes(m, "variance"):
            yield Reject("other-axes", m.node(name).name)
    if _along_axes(m) is None and _along_channels(m) is None:
        yield Reject("broadcast", y.name)


def _axes(m: Match, reduction: str) -> list[int]:
    """Return the axes of a mean, sorted; none unless it keeps them and their sizes are known."""
    shape, node = m["x"].desc.shape, m.node(reduction)
    if shape is None or not node.int_attr("keepdims", 1):
        return []
    axes = sorted({int(axis) % len(shape) for axis in node.operand(1).array.reshape(-1)})
    return axes if all(isinstance(shape[axis], int) for axis in axes) else []


def _along_axes(m: Match) -> list[Array] | None:
    """Return the factor and the term over the axes of the means; None if a constant differs along others."""
    axes, shape = _axes(m, "variance"), m["x"].desc.shape
    if shape is None:
        return None
    ones = np.ones([size for axis in axes if isinstance(size := shape[axis], int)])
    return _vectors({name: along(m[name], shape, axes) for name in _CONSTANTS & m.values.keys()}, ones)


def _along_channels(m: Match) -> list[Array] | None:
    """Return factor and term of each channel, if the means are over all axes behind the channels."""
    shape, names = m["x"].desc.shape, _CONSTANTS & m.values.keys()
    if shape is None or "mean" not in m.nodes or _axes(m, "variance") != list(range(2, len(shape))):
        return None
    if not names or not all(is_one_a_channel(m[name], shape) for name in names):
        return None
    channels = {name: one_a_channel(m[name], shape) for name in names}
    scale, *bias = _vectors(channels, np.ones(len(next(iter(channels.values()))))) or []
    return [scale, *(bias or [np.zeros_like(scale)])]


def _vectors(vectors: Mapping[str, Array | None], ones: Array) -> list[Array] | None:
    known = {name: array for name, array in vectors.items() if array is not None}
    if len(known) < len(vectors):
        return None
    scale = known.get("numerator", ones) * known.get("scale", ones)
    return [scale, known["bias"]] if "bias" in known else [scale]


def _insert(m: Match, rw: Rewriter, op_type: str) -> Value:
    """Create the normalization, between Transposes if its axes are not the last ones."""
    axes, rank = _axes(m, "variance"), len(m["x"].desc.shape or ())
    epsilon = float(m["epsilon"].array.reshape(-1)[0])
    vectors = _along_axes(m)
    lenders = (m.get("scale") or m["epsilon"], m.get("bias") or m["epsilon"])
    if vectors is None:
        a_channel = [
            rw.const(array, like=lender) for array, lender in zip(_along_channels(m) or [], lenders, strict=True)
        ]
        return rw.op("InstanceNormalization", m["x"], *a_channel, epsilon=epsilon)
    perm = (*(axis for axis in range(rank) if axis not in axes), *axes)
    is_last = perm == tuple(range(rank))
    x = m["x"] if is_last else rw.op("Transpose", m["x"], perm=perm)
    constants = [rw.const(array, like=lender) for array, lender in zip(vectors, lenders, strict=False)]
    y = rw.op(op_type, x, *constants, axis=-len(axes), epsilon=epsilon)
    return y if is_last else rw.op("Transpose", y, perm=inverse(perm))


class LayerNorm(Fusion, switch="LayerNormFusionPass", makes=("LayerNormalization",)):
    """Replace (x − mean) / √(variance + ε) by LayerNormalization."""

    pattern = _normalized(_APART, _VARIANCE)

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from _requirements(m, m["x"] if "difference" in m.nodes else m.node("apart").output)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return _insert(m, rw, "LayerNormalization")


class RMSNorm(Fusion, switch="RMSNormFusionPass", after=("LayerNormFusionPass",), makes=("RMSNormalization",)):
    """Replace x / √(mean(x²) + ε) by RMSNormalization."""

    pattern = _normalized(_X, _mean_of_squares(_X))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from _requirements(m, m["x"])

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return _insert(m, rw, "RMSNormalization")
