"""Fuse what follows a Conv into it: a residual addition, then an activation.

Conv(x, w, b) + r                    →  FusedConv(x, w, b, r)
act(Conv(x, w, b)), act(FusedConv)   →  FusedConv(x, w, b, r) {activation=act}
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import Engine, Match, Node, Reject, Rewriter, Value
from atcpy.ir.pattern import const, op, var
from atcpy.options import Stage
from atcpy.passes.fusion import Fusion, only_read_by

CONVS = ("Conv", "FusedConv")
_CONV = op(CONVS, var("x"), const("w"), const("b", optional=True), var("r", optional=True), name="conv")


def _conv_requirements(m: Match, root: Node) -> Iterator[Reject]:
    conv = m.node("conv")
    yield from only_read_by(conv.output, root)
    if conv.attrs.get("activation"):
        yield Reject("already-activated", conv.name)
    if conv.engine is not Engine.AICORE or root.engine is not Engine.AICORE:
        yield Reject("other-engine", root.name)


def _fused(m: Match, rw: Rewriter, residual: Value | None, **attrs: object) -> Value:
    conv = m.node("conv")
    inputs = [m["x"], m["w"], m.get("b"), residual]
    fused = rw.insert("FusedConv", *(inputs if residual is not None else inputs[:3]), **(conv.attrs | attrs))
    fused.producer.engine = conv.engine
    return fused


class ConvAdd(Fusion, switch="ConvAddFusionPass", stage=Stage.OPTIMIZE):
    """Fuse a residual addition into the Conv before it."""

    pattern = op("Add", _CONV, var("other"), commutative=True, name="add")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        conv, add = m.node("conv"), m.node("add")
        yield from _conv_requirements(m, add)
        if m.get("r") is not None:
            yield Reject("already-has-residual", conv.name)
        if m["other"].desc.shape != conv.output.desc.shape:
            yield Reject("broadcast", add.name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return _fused(m, rw, m["other"])


class ConvRelu(Fusion, switch="ConvReluFusionPass", stage=Stage.OPTIMIZE, after=("ConvAddFusionPass",)):
    """Fuse a Relu into the Conv before it."""

    pattern = op("Relu", _CONV, name="act")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from _conv_requirements(m, m.node("act"))

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return _fused(m, rw, m.get("r"), activation="Relu")


class ConvClip(Fusion, switch="ConvClipByValueFusionPass", stage=Stage.OPTIMIZE, after=("ConvReluFusionPass",)):
    """Fuse a Clip with constant bounds, such as ReLU6, into the Conv before it."""

    pattern = op("Clip", _CONV, const("min", optional=True), const("max", optional=True), name="act")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from _conv_requirements(m, m.node("act"))

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        low, high = m.get("min"), m.get("max")
        alpha = float("-inf") if low is None else float(low.array.reshape(()))
        beta = float("inf") if high is None else float(high.array.reshape(()))
        return _fused(m, rw, m.get("r"), activation="Clip", alpha=alpha, beta=beta)


# Activations whose alpha and beta are attributes; the defaults are ONNX's.
_WITH_ATTRS: dict[str, tuple[float, float]] = {
    "LeakyRelu": (0.01, 0.0),
    "Sigmoid": (0.0, 0.0),
    "HardSigmoid": (0.2, 0.5),
    "HardSwish": (0.0, 0.0),
    "Swish": (1.0, 0.0),
    "Tanh": (0.0, 0.0),
}


class ConvActivation(
    Fusion, switch="ConvActivationFusionPass", stage=Stage.OPTIMIZE, after=("ConvClipByValueFusionPass",)
):
    """Fuse a smooth or leaky activation into the Conv before it."""

    pattern = op(tuple(_WITH_ATTRS), _CONV, name="act")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from _conv_requirements(m, m.node("act"))

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        act = m.node("act")
        alpha, beta = _WITH_ATTRS[act.op_type]
        return _fused(
            m,
            rw,
            m.get("r"),
            activation=act.op_type,
            alpha=act.float_attr("alpha", alpha),
            beta=act.float_attr("beta", beta),
        )
