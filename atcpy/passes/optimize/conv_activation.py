"""Fuse what follows a convolution into it: a residual addition, then an activation.

Conv(x, w, b) + r                    →  FusedConv(x, w, b, r)
act(Conv(x, w, b)), act(FusedConv)   →  FusedConv(x, w, b, r) {activation=act}

and ConvTranspose likewise.
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import Match, Reject, Rewriter, Value
from atcpy.ir.pattern import const
from atcpy.passes.fusion import Fusion
from atcpy.passes.optimize.epilogue import (
    activation_attrs,
    added,
    clip,
    cube,
    epilogue_requirements,
    fused,
    relu,
    smooth,
)
from atcpy.passes.phase import Phase

_FUSED = {"Conv": "FusedConv", "ConvTranspose": "FusedConvTranspose"}
_CONV = cube((*_FUSED, *_FUSED.values()), const("w"))


def _fused(m: Match, rw: Rewriter, residual: Value | None, attrs: dict[str, object]) -> Value:
    conv = m.node("cube")
    return fused(m, rw, _FUSED.get(conv.op_type, conv.op_type), m.get("b"), residual, conv.attrs | attrs)


class ConvAdd(Fusion, switch="ConvAddFusionPass", phase=Phase.EPILOGUE):
    """Fuse a residual addition into the Conv before it."""

    pattern = added(_CONV)

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        conv, add = m.node("cube"), m.node("add")
        yield from epilogue_requirements(m, add)
        if m.get("r") is not None:
            yield Reject("already-has-residual", conv.name)
        if m["other"].desc.shape != conv.output.desc.shape:
            yield Reject("broadcast", add.name)

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return _fused(m, rw, m["other"], {})


class _Activation:
    """What the three passes below share."""

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        yield from epilogue_requirements(m, m.node("act"))

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        return _fused(m, rw, m.get("r"), activation_attrs(m))


class ConvRelu(_Activation, Fusion, switch="ConvReluFusionPass", phase=Phase.EPILOGUE, after=("ConvAddFusionPass",)):
    """Fuse a Relu into the Conv before it."""

    pattern = relu(_CONV)


class ConvClip(
    _Activation, Fusion, switch="ConvClipByValueFusionPass", phase=Phase.EPILOGUE, after=("ConvReluFusionPass",)
):
    """Fuse a Clip with constant bounds, such as ReLU6, into the Conv before it."""

    pattern = clip(_CONV)


class ConvActivation(
    _Activation, Fusion, switch="ConvActivationFusionPass", phase=Phase.EPILOGUE, after=("ConvClipByValueFusionPass",)
):
    """Fuse a smooth or leaky activation into the Conv before it."""

    pattern = smooth(_CONV)
