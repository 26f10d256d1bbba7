"""Let normalizations multiply and add what exporters write behind them.

Norm(x, 1) · g                                           →  Norm(x, g)
Norm(x, g) + b                                           →  Norm(x, g, b)
LayerNormalization(x, 1) · c, each channel of an image   →  InstanceNormalization(x, c, 0)
InstanceNormalization(x, g, b) · f + c                   →  InstanceNormalization(x, g·f, b·f + c)
Reshape(InstanceNormalization(Reshape(x), 1, 0)) · g + b →  GroupNormalization(x, g, b)

Norm is LayerNormalization, or RMSNormalization, which adds nothing. Over height and width, which constants follow tells
whether it is an InstanceNormalization.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atcpy.ir import Match, Node, Reject, Rewriter, Value
from atcpy.ir.pattern import const, op, var
from atcpy.options import Stage
from atcpy.passes.fusion import Fusion, only_read_within
from atcpy.passes.spread import is_one_a_channel, one_a_channel, reaches_last_only, spread_over_last

_NORM = op(("LayerNormalization", "RMSNormalization"), var("x"), const("scale"), name="norm")
_LAYER = op("LayerNormalization", var("x"), const("scale"), name="norm")


def _dims(norm: Node) -> tuple[int, ...]:
    """The sizes of what is normalized; none if they are not known."""
    shape = norm.operand(0).desc.shape
    last = () if shape is None else shape[norm.int_attr("axis", -1) :]
    return tuple(dim for dim in last if isinstance(dim, int)) if all(isinstance(dim, int) for dim in last) else ()


def _spreads(m: Match, name: str) -> Iterator[Reject]:
    dims, rank = _dims(m.node("norm")), len(m["x"].desc.shape or ())
    if not dims or len(m[name].desc.static_shape) > rank or not reaches_last_only(m[name], dims):
        yield Reject("broadcast", m.node("norm").name, m[name].name)


class NormScale(
    Fusion,
    switch="NormScaleFusionPass",
    stage=Stage.PREPARE,
    after=("LayerNormFusionPass", "RMSNormFusionPass"),
    makes=("LayerNormalization",),
):
    """Let a normalization multiply by the constant that follows it."""

    pattern = op("Mul", _NORM, const("factor"), commutative=True, name="mul")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from only_read_within(m, m.node("mul"))
        yield from _spreads(m, "factor")
        if not np.all(m["scale"].array == 1):
            yield Reject("other-constant", m["scale"].name, "is not 1")

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        norm = m.node("norm")
        scale = rw.const(spread_over_last(m["factor"], _dims(norm)), like=m["factor"])
        return rw.insert(norm.op_type, m["x"], scale, **norm.attrs)


class NormBias(
    Fusion,
    switch="NormBiasFusionPass",
    stage=Stage.PREPARE,
    after=("NormScaleFusionPass",),
    makes=("LayerNormalization",),
):
    """Let a normalization add the constant that follows it."""

    pattern = op("Add", _LAYER, const("bias"), commutative=True, name="add")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from only_read_within(m, m.node("add"))
        yield from _spreads(m, "bias")

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        norm = m.node("norm")
        bias = rw.const(spread_over_last(m["bias"], _dims(norm)), like=m["bias"])
        return rw.insert("LayerNormalization", m["x"], m["scale"], bias, **norm.attrs)


class InstanceNorm(
    Fusion,
    switch="InstanceNormFusionPass",
    stage=Stage.PREPARE,
    after=("LayerNormFusionPass",),
    before=("NormScaleFusionPass",),
    makes=("InstanceNormalization",),
):
    """Replace a normalization of height and width that is scaled channel by channel by InstanceNormalization."""

    pattern = op("Mul", _LAYER, const("factor"), commutative=True, name="mul")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        shape, norm, mul = m["x"].desc.shape, m.node("norm"), m.node("mul")
        yield from only_read_within(m, mul)
        if shape is None or len(shape) < 4 or norm.int_attr("axis", -1) % len(shape) != 2:
            yield Reject("other-axes", norm.name)
        elif not is_one_a_channel(m["factor"], shape):
            yield Reject("not-per-channel", mul.name, m["factor"].name)
        if not np.all(m["scale"].array == 1):
            yield Reject("other-constant", m["scale"].name, "is not 1")

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        scale = one_a_channel(m["factor"], m["x"].desc.shape)
        bias = rw.const(np.zeros(scale.shape), like=m["factor"])
        epsilon = m.node("norm").float_attr("epsilon", 1e-5)
        return rw.insert("InstanceNormalization", m["x"], rw.const(scale, like=m["factor"]), bias, epsilon=epsilon)


class InstanceNormAffine(
    Fusion,
    switch="InstanceNormAffineFusionPass",
    stage=Stage.PREPARE,
    after=("InstanceNormFusionPass",),
    makes=("InstanceNormalization",),
):
    """Let InstanceNormalization multiply and add what follows it, channel by channel."""

    pattern = op(
        ("Mul", "Add"),
        op("InstanceNormalization", var("x"), const("scale"), const("bias"), name="norm"),
        const("c"),
        commutative=True,
        name="y",
    )

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from only_read_within(m, m.node("y"))
        if not is_one_a_channel(m["c"], m["x"].desc.shape):
            yield Reject("not-per-channel", m.node("y").name, m["c"].name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        c = one_a_channel(m["c"], m["x"].desc.shape)
        # float64: what is known is rounded once.
        scale, bias, wide = (array.astype(np.float64) for array in (m["scale"].array, m["bias"].array, c))
        scaled, moved = (scale * wide, bias * wide) if m.node("y").op_type == "Mul" else (scale, bias + wide)
        return rw.insert(
            "InstanceNormalization",
            m["x"],
            rw.const(scaled, like=m["scale"]),
            rw.const(moved, like=m["bias"]),
            **m.node("norm").attrs,
        )


class GroupNorm(
    Fusion,
    switch="GroupNormFusionPass",
    stage=Stage.PREPARE,
    after=("PrunePass",),
    before=("InstanceNormAffineFusionPass",),
    makes=("GroupNormalization",),
):
    """Replace an InstanceNormalization of groups of channels by GroupNormalization."""

    pattern = op(
        "Add",
        op(
            "Mul",
            op(
                "Reshape",
                op(
                    "InstanceNormalization",
                    op("Reshape", var("x"), const("groups"), name="grouped"),
                    const("one"),
                    const("zero"),
                    name="norm",
                ),
                var("shape"),
                name="back",
            ),
            const("scale"),
            commutative=True,
            name="mul",
        ),
        const("bias"),
        commutative=True,
        name="y",
    )

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from only_read_within(m, m.node("y"))
        shape, grouped = m["x"].desc.shape, m.node("grouped").output.desc.shape
        if (
            shape is None
            or grouped is None
            or len(shape) < 3
            or len(grouped) < 3
            or m.node("back").output.desc.shape != shape
        ):
            yield Reject("other-shape", m.node("grouped").name)
            return
        if (
            grouped[0] != shape[0]
            or not isinstance(grouped[1], int)
            or not isinstance(shape[1], int)
            or shape[1] % grouped[1]
        ):
            yield Reject("other-shape", m.node("grouped").name)
        for name in ("scale", "bias"):
            if not is_one_a_channel(m[name], shape):
                yield Reject("not-per-channel", m.node("y").name, m[name].name)
        for name, wanted in (("one", 1), ("zero", 0)):
            if not np.all(m[name].array == wanted):
                yield Reject("other-constant", m[name].name, f"is not {wanted}")

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        shape, grouped = m["x"].desc.shape, m.node("grouped").output.desc.shape
        assert grouped is not None
        scale, bias = (rw.const(one_a_channel(m[name], shape), like=m[name]) for name in ("scale", "bias"))
        epsilon = m.node("norm").float_attr("epsilon", 1e-5)
        return rw.insert("GroupNormalization", m["x"], scale, bias, num_groups=grouped[1], epsilon=epsilon)
