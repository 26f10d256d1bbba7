"""Winograd's F(4x4, 3x3) in place of the definition of a convolution."""

from __future__ import annotations

from dataclasses import replace

from atcpy.ops.core.opdef import KernelCall


def as_winograd(call: KernelCall) -> KernelCall:
    """Return the launch of `winograd2d` that computes what one of `conv2d` does."""
    params = {name: value for name, value in call.params.items() if name != "src_c0"}
    return replace(call, family="winograd2d", params=params)
