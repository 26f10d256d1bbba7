"""Winograd's F(4x4, 3x3) in place of the definition: which convolutions it computes, and where it is faster."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from atcpy.ir.format import NC1HWC0
from atcpy.ir.symbolic import is_symbolic
from atcpy.ops.core.opdef import KernelCall

C0 = NC1HWC0.c0
DIRECT, WINOGRAD = "conv2d", "winograd2d"
SMALLEST_GAIN = 1.2  # estimated; less is not worth the rounding error
_TILE, _POSITIONS, _TAPS = 4, 36, 9
# What the transforms take, in multiply-adds of a block. A package does not depend on the CPU: the estimates lie between
# what AVX-512 and AVX2 gain (ADR 0022).
_OF_FILTERS = 200  # of an input channel and a block of output channels
_OF_INPUTS = 470  # of a tile and a block of input channels
_OF_RESULTS = 250  # of a tile and a block of output channels
_CHUNK = 49  # tiles for which filters are transformed once; the kernel takes as many as fit into the cache
_ONLY: Final = {"kh": 3, "kw": 3, "sh": 1, "sw": 1, "dh": 1, "dw": 1, "group": 1, "src_c0": C0}
_PAIRS: Final = "bf16_vnni2"  # of which the definition multiplies two in the time of one in float32


def takes_winograd(call: KernelCall) -> bool:
    """Whether a launch is a convolution that `winograd2d` computes, and of known sizes but for the batch."""
    if call.family != DIRECT or not _ONLY.items() <= call.params.items():
        return False
    return None not in _sizes(call)


def as_winograd(call: KernelCall) -> KernelCall:
    """Return the launch of `winograd2d` that computes what one of `conv2d` does."""
    params = {name: value for name, value in call.params.items() if name != "src_c0"}
    return replace(call, family=WINOGRAD, params=params)


def gain(call: KernelCall) -> float:
    """Estimate how many times faster Winograd is, for one picture of the batch. `takes_winograd` holds."""
    c, m, oh, ow = (size or 0 for size in _sizes(call))
    tiles = -(-oh // _TILE) * -(-ow // _TILE)
    c_blocks, m_blocks = -(-c // C0), -(-m // C0)
    products = _POSITIONS * tiles * c * m_blocks
    filters = _OF_FILTERS * c * m_blocks * -(-tiles // _CHUNK)
    borders = tiles * (_OF_INPUTS * c_blocks + _OF_RESULTS * m_blocks)
    direct = _TAPS * oh * ow * c * m_blocks / (2 if call.params["weights"] == _PAIRS else 1)
    return direct / (products + filters + borders)


def _sizes(call: KernelCall) -> list[int | None]:
    """What the cost depends on; None for what is not a number yet."""
    sizes = (call.params[name] for name in ("c", "m", "oh", "ow"))
    return [size if isinstance(size, int) and not is_symbolic(size) else None for size in sizes]
