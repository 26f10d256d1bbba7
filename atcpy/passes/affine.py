"""y = k · x + c, channel by channel: what BatchNormalization and arithmetic with constants do to a tensor.

    BatchNormalization:  k = gamma / √(var + ε),  c = beta − mean · k

All is computed in float64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from atcpy.ir import Match, Node, Reject, Value
from atcpy.ir.pattern import Op, Pattern, const, op
from atcpy.ir.tensor import Array
from atcpy.passes.broadcast import spread_over_last
from atcpy.passes.fusion import only_read_by

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


def cube(types: Iterable[str], x: Pattern) -> Op:
    """A product with constant weights."""
    return op(tuple(types), x, const("w"), const("b", optional=True), name="cube")


@dataclass(frozen=True, slots=True)
class Affine:
    """k and c of each channel, in float64."""

    k: Array
    c: Array

    def after(self, first: Affine) -> Affine:
        """The composition of both: self(first(x))."""
        return Affine(self.k * first.k, self.k * first.c + self.c)

    def behind(self, bias: Value | None) -> Array:
        """k · bias + c: the bias of a product that takes it in behind its own bias."""
        return self.c if bias is None else self.k * bias.array.astype(np.float64) + self.c

    @property
    def is_scale(self) -> bool:
        """True if nothing is added."""
        return not self.c.any()


def affine_of(m: Match, channels: int, behind: int, rank: int, name: str = "affine") -> Affine | None:
    """The map that the node `name` applies to each channel of a tensor of `rank` dims, the last `behind` of which
    follow the channels' dim; None unless each of its constants is one number a channel.
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


def joint_requirements(m: Match, first: Node, second: Node) -> Iterator[Reject]:
    """Reasons against making one of the product and the node `affine`, whichever of them is the first."""
    yield from only_read_by(first.output, second)
    affine = m.node("affine")
    if affine.int_attr("training_mode", 0):
        yield Reject("training-mode", affine.name)


def affine_requirements(node: Node, affine: Affine | None) -> Iterator[Reject]:
    """Reasons against computing with the numbers of a node."""
    if affine is None:
        yield Reject("not-per-channel", node.name)
    elif not (np.isfinite(affine.k).all() and np.isfinite(affine.c).all()):
        yield Reject("other-constant", node.name, "is not finite")
