"""Let normalizations multiply and add what exporters write behind them.

Norm(x, 1) · g                                           →  Norm(x, g)
Norm(x, g) + b                                           →  Norm(x, g, b)
LayerNormalization(x, 1) · c, each channel of an image   →  InstanceNormalization(x, c, 0)
InstanceNormalization(x, g, b) · f + c                   →  InstanceNormalization(x, g·f, b·f + c)
Reshape(InstanceNormalization(Reshape(x), g, b))         →  GroupNormalization(x, g, b)

Norm is LayerNormalization, or RMSNormalization, which adds nothing; a Transpose may stand behind it. Over height and
width, which constants follow tells whether it is an InstanceNormalization. In groups of channels there may be a
LayerNormalization instead; InstanceNormalization and GroupNormalization take factors and terms alike.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import Op, Pattern, const, either, op, var
from atcpy.ir.shape import Shape
from atcpy.ir.tensor import Array
from atcpy.ops.core.permute import inverse
from atcpy.ops.core.shape_values import UNNAMED
from atcpy.passes.broadcast import along, is_one_a_channel, one_a_channel
from atcpy.passes.fusion import Fusion, only_read_within

_NORM = op(("LayerNormalization", "RMSNormalization"), var("x"), const("scale"), name="norm")
_LAYER = op("LayerNormalization", var("x"), const("scale"), name="norm")


def _maybe_transposed(norm: Pattern) -> Pattern:
    return either(norm, op("Transpose", norm, name="transpose"))


def _perm(m: Match) -> tuple[int, ...]:
    """Return the order of the axes behind the Transpose, if there is one."""
    rank = len(m["x"].desc.shape or ())
    return m.node("transpose").ints_attr("perm", range(rank)[::-1]) if "transpose" in m.nodes else tuple(range(rank))


def _vector(m: Match, name: str) -> Array | None:
    """Return a constant over the normalized axes; None if it differs along others."""
    norm, perm, shape = m.node("norm"), _perm(m), m["x"].desc.shape
    behind = None if shape is None else tuple(shape[axis] for axis in perm)
    return along(m[name], behind, inverse(perm)[norm.int_attr("axis", -1) :])


def _rejects_vector(m: Match, name: str) -> Iterator[Reject]:
    if _vector(m, name) is None:
        yield Reject("broadcast", m.node("norm").name, m[name].name)


def _constant(m: Match, rw: Rewriter, name: str) -> Value:
    vector = _vector(m, name)
    assert vector is not None
    return rw.const(vector, like=m[name])


def _with_constants(m: Match, rw: Rewriter, *vectors: Value) -> Value:
    """Create the normalization with other constants, and the Transpose behind it."""
    y = rw.op(m.node("norm").op_type, m["x"], *vectors, **m.node("norm").attrs)
    return rw.op("Transpose", y, perm=_perm(m)) if "transpose" in m.nodes else y


class NormScale(
    Fusion,
    switch="NormScaleFusionPass",
    after=("LayerNormFusionPass", "RMSNormFusionPass"),
    makes=("LayerNormalization",),
):
    """Let a normalization multiply by the constant that follows it."""

    pattern = op("Mul", _maybe_transposed(_NORM), const("factor"), commutative=True, name="mul")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from only_read_within(m, m.node("mul"))
        yield from _rejects_vector(m, "factor")
        if not np.all(m["scale"].array == 1):
            yield Reject("other-constant", m["scale"].name, "is not 1")

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return _with_constants(m, rw, _constant(m, rw, "factor"))


class NormBias(Fusion, switch="NormBiasFusionPass", after=("NormScaleFusionPass",), makes=("LayerNormalization",)):
    """Let a normalization add the constant that follows it."""

    pattern = op("Add", _maybe_transposed(_LAYER), const("bias"), commutative=True, name="add")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from only_read_within(m, m.node("add"))
        yield from _rejects_vector(m, "bias")

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return _with_constants(m, rw, m["scale"], _constant(m, rw, "bias"))


class InstanceNorm(
    Fusion,
    switch="InstanceNormFusionPass",
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
        return rw.op("InstanceNormalization", m["x"], rw.const(scale, like=m["factor"]), bias, epsilon=epsilon)


class InstanceNormAffine(
    Fusion, switch="InstanceNormAffineFusionPass", after=("InstanceNormFusionPass",), makes=("InstanceNormalization",)
):
    """Let InstanceNormalization and GroupNormalization multiply and add what follows them, channel by channel."""

    pattern = op(
        ("Mul", "Add"),
        op(("InstanceNormalization", "GroupNormalization"), var("x"), const("scale"), const("bias"), name="norm"),
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
        return rw.op(
            m.node("norm").op_type,
            m["x"],
            rw.const(scaled, like=m["scale"]),
            rw.const(moved, like=m["bias"]),
            **m.node("norm").attrs,
        )


def _of_groups(op_type: str) -> Op:
    grouped = op("Reshape", var("x"), const("groups"), name="grouped")
    return op(op_type, grouped, const("scale"), const("bias", optional=True), name="norm")


class GroupNorm(
    Fusion,
    switch="GroupNormFusionPass",
    after=("LayerNormFusionPass",),
    before=("InstanceNormAffineFusionPass",),
    makes=("GroupNormalization",),
):
    """Replace a normalization of groups of channels by GroupNormalization."""

    pattern = op("Reshape", either(_of_groups("InstanceNormalization"), _of_groups("LayerNormalization")), var("shape"))

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        norm, grouped, shape = m.node("norm"), m.node("grouped").output.desc.shape, m["x"].desc.shape
        yield from only_read_within(m, m.root)
        if m.root.output.desc.shape != shape or not _are_groups(shape, grouped):
            yield Reject("other-shape", m.node("grouped").name)
        elif norm.op_type == "LayerNormalization":
            if norm.int_attr("axis", -1) % len(grouped or ()) != 2:
                yield Reject("other-axes", norm.name)
            for name, required in (("scale", 1), ("bias", 0)):
                if m.get(name) is not None and not np.all(m[name].array == required):
                    yield Reject("other-constant", m[name].name, f"is not {required}")

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        shape, grouped = m["x"].desc.shape, m.node("grouped").output.desc.shape
        assert shape is not None and grouped is not None and isinstance(shape[1], int) and isinstance(grouped[1], int)
        one_a_group = (np.ones(grouped[1]), np.zeros(grouped[1]))
        if m.node("norm").op_type == "InstanceNormalization":
            one_a_group = m["scale"].array, m["bias"].array
        lenders = m["scale"], m.get("bias") or m["scale"]
        vectors = [
            rw.const(np.repeat(array, shape[1] // grouped[1]), like=lender)
            for array, lender in zip(one_a_group, lenders, strict=True)
        ]
        epsilon = m.node("norm").float_attr("epsilon", 1e-5)
        return rw.op("GroupNormalization", m["x"], *vectors, num_groups=grouped[1], epsilon=epsilon)


def _are_groups(shape: Shape | None, grouped: Shape | None) -> bool:
    """Return whether a view of these dims splits the channels into groups."""
    if shape is None or grouped is None or min(len(shape), len(grouped)) < 3 or UNNAMED in (*shape, *grouped[:2]):
        return False
    groups, channels = grouped[1], shape[1]
    return grouped[0] == shape[0] and isinstance(groups, int) and isinstance(channels, int) and not channels % groups
