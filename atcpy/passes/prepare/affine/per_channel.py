"""y = k · x + c, channel by channel: what BatchNormalization and arithmetic with constants do to a tensor, and how the
constant weights of a Conv, ConvTranspose, Gemm or MatMul take it in.

W · (k · x + c) + b = (W · k) · x + (W · c + b)        k · (W · x + b) + c = (k · W) · x + (k · b + c)

All is computed in float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from atcpy.ir import Match, Node, Reject, Value
from atcpy.ir.pattern import Op, Pattern, const, op
from atcpy.ir.tensor import Array
from atcpy.ops.half import HALF_DTYPES
from atcpy.passes.broadcast import spread_over_last
from atcpy.passes.folding import SMALL_BYTES
from atcpy.passes.fusion import only_read_by

CONVS, MATRICES = ("Conv", "ConvTranspose"), ("Gemm", "MatMul")
# Passes for whose formulas factors and terms must stay where they are: ½ · x · (…) before a MatMul is a Gelu's.
FORMULAS = (
    "CeluFusionPass",
    "GeluFusionPass",
    "GroupNormFusionPass",
    "HardSwishFusionPass",
    "HardSwishRelu6FusionPass",
    "LeakyReluFusionPass",
    "MishFusionPass",
    "NormBiasFusionPass",
    "SeluFusionPass",
    "SwishFusionPass",
    "TanhGeluFusionPass",
)
_STATISTICS = ("gamma", "beta", "mean", "var")


def normalized(x: Pattern, name: str = "affine") -> tuple[Op, ...]:
    """x behind a BatchNormalization."""
    constants = (const(f"{name}.{part}") for part in _STATISTICS)
    return (op("BatchNormalization", x, *constants, name=name),)


def multiplied(x: Pattern, name: str = "affine") -> tuple[Op, ...]:
    """x times a constant."""
    return (
        op("Mul", x, const(f"{name}.factor"), commutative=True, name=name),
        op("Div", x, const(f"{name}.divisor"), name=name),
    )


def added(x: Pattern, name: str = "affine") -> tuple[Op, ...]:
    """x and a constant, added or subtracted."""
    return (
        op("Add", x, const(f"{name}.term"), commutative=True, name=name),
        op("Sub", x, const(f"{name}.less"), name=name),
        op("Sub", const(f"{name}.from"), x, name=name),
    )


def cube(types: tuple[str, ...], x: Pattern) -> Op:
    """A product with constant weights."""
    return op(types, x, const("w"), const("b", optional=True), name="cube")


@dataclass(frozen=True, slots=True)
class Affine:
    """k and c of each channel, in float64."""

    k: Array
    c: Array

    def after(self, first: Affine) -> Affine:
        """What it is behind another one."""
        return Affine(self.k * first.k, self.k * first.c + self.c)

    @property
    def is_scale(self) -> bool:
        """True if nothing is added."""
        return not self.c.any()


def affine_of(m: Match, channels: int, behind: int, rank: int, name: str = "affine") -> Affine | None:
    """What the node `name` does to the channels of a tensor of `rank` dims, of which so many stand behind that of the
    channels; None if it is not one number a channel.
    """
    numbers: dict[str, Array] = {}
    for key, value in m.values.items():
        node, _, part = key.rpartition(".")
        if node == name and value is not None:
            dims = (channels,) if part in _STATISTICS else (channels, *[1] * behind)
            if len(value.desc.static_shape) > rank:
                return None
            try:
                numbers[part] = spread_over_last(value, dims).reshape(-1).astype(np.float64)
            except ValueError:
                return None
    with np.errstate(all="ignore"):
        return _affine(m.node(name), numbers)


def _affine(node: Node, numbers: Mapping[str, Array]) -> Affine:
    if node.op_type == "BatchNormalization":
        gamma, beta, mean, var_ = (numbers[part] for part in _STATISTICS)
        k = gamma / np.sqrt(var_ + node.float_attr("epsilon", 1e-5))
        return Affine(k, beta - mean * k)
    ((part, vector),) = numbers.items()
    one, zero = np.ones_like(vector), np.zeros_like(vector)
    match part:
        case "factor":
            return Affine(vector, zero)
        case "divisor":
            return Affine(1 / vector, zero)
        case "term":
            return Affine(one, vector)
        case "less":
            return Affine(one, -vector)
        case _:
            return Affine(-one, vector)


def lender(m: Match) -> Value:
    """The constant whose name a new bias takes over: the old bias, or one of the node `affine`."""
    own = [value for key, value in m.values.items() if key.startswith("affine.") and value is not None]
    return m.get("b") or m.get("affine.beta") or own[0]


def joint_requirements(m: Match, first: Node, second: Node) -> Iterator[Reject]:
    """Reasons against making one of the product and the node `affine`, whichever of them is the first."""
    yield from only_read_by(first.output, second)
    affine = m.node("affine")
    if affine.int_attr("training_mode", 0):
        yield Reject("training-mode", affine.name)


def weight_requirements(m: Match, affine: Affine | None) -> Iterator[Reject]:
    """Reasons against taking the node `affine` into the weights and the bias of the product."""
    if affine is None:
        yield Reject("not-per-channel", m.node("affine").name)
    elif not (np.isfinite(affine.k).all() and np.isfinite(affine.c).all()):
        yield Reject("other-constant", m.node("affine").name, "is not finite")
    else:
        yield from factor_requirements(m, bool((affine.k != 1).any()))


def factor_requirements(m: Match, is_scaled: bool) -> Iterator[Reject]:
    """Reasons against other weights and another bias for a product."""
    node, w = m.node("cube"), m["w"]
    if not w.desc.dtype.is_float:
        yield Reject("dtype", node.name, w.desc.dtype.long)
    elif is_scaled and w.desc.dtype in HALF_DTYPES:
        yield Reject("weights-rounded", m.root.name, w.desc.dtype.long)
    elif is_scaled and w.use_count > 1 and w.desc.nbytes > SMALL_BYTES:
        yield Reject("shared-weights", w.name, f"{w.desc.nbytes} bytes")


def weights_of(node: Node) -> Array:
    """The weights of a product as group × output channel × input channel × tap, in float64; a new array."""
    w = node.operand(1).array
    if node.op_type in MATRICES:
        outputs_first = w if node.int_attr("transB", 0) else w.swapaxes(0, 1)
        return outputs_first[None, ..., None].astype(np.float64)
    group = node.int_attr("group", 1)
    grouped = w.reshape(group, w.shape[0] // group, w.shape[1], -1)
    return (grouped if node.op_type == "Conv" else grouped.swapaxes(1, 2)).astype(np.float64)


def as_weights(node: Node, w: Array) -> Array:
    """Group × output channel × input channel × tap as the node's weights lie."""
    if node.op_type in MATRICES:
        return w[0, ..., 0] if node.int_attr("transB", 0) else w[0, ..., 0].swapaxes(0, 1)
    ordered = w if node.op_type == "Conv" else w.swapaxes(1, 2)
    return ordered.reshape(node.operand(1).desc.static_shape)


def channels_of(node: Node) -> tuple[int, int]:
    """How many channels a product with constant weights reads and makes."""
    shape = node.operand(1).desc.static_shape
    if node.op_type in MATRICES:
        return (shape[1], shape[0]) if node.int_attr("transB", 0) else (shape[0], shape[1])
    group = node.int_attr("group", 1)
    return (shape[1] * group, shape[0]) if node.op_type == "Conv" else (shape[0], shape[1] * group)


def scale_outputs(w: Array, k: Array) -> Array:
    """k · W"""
    return w * k.reshape(w.shape[0], w.shape[1], 1, 1)


def scale_inputs(w: Array, k: Array) -> Array:
    """W · k"""
    return w * k.reshape(w.shape[0], 1, w.shape[2], 1)


def response(w: Array, c: Array) -> Array:
    """W · c: what each output channel makes of an input that is c everywhere."""
    return np.ravel(scale_inputs(w, c).sum(axis=(2, 3)))
