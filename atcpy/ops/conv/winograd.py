"""Winograd's F(4x4, 3x3) in place of the definition: which convolutions it computes, and where it is faster."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from atcpy.ir.format import NC1HWC0
from atcpy.ir.symbolic import example, is_symbolic
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
    """Whether a launch is a convolution that `winograd2d` computes. The sizes of pictures may be open: where they turn
    out to be small, it computes by the definition, but for pairs of bfloat16.
    """
    if call.family != DIRECT or not _ONLY.items() <= call.params.items():
        return False
    return not (_is_open(call) and call.params["weights"] == _PAIRS) and not any(map(is_symbolic, _channels(call)))


def as_winograd(call: KernelCall) -> KernelCall:
    """Return the launch of `winograd2d` that computes what one of `conv2d` does."""
    params = {name: value for name, value in call.params.items() if name != "src_c0"}
    return replace(call, family=WINOGRAD, params=params | {"falls_back": int(_is_open(call))})


def gain(call: KernelCall) -> float:
    """Estimate how many times faster Winograd is, for one picture of the batch, of the example's size if that is open.
    `takes_winograd` holds.
    """
    (c, m), (oh, ow) = _channels(call), map(example, _picture(call))
    tiles = -(-oh // _TILE) * -(-ow // _TILE)
    c_blocks, m_blocks = -(-c // C0), -(-m // C0)
    products = _POSITIONS * tiles * c * m_blocks
    filters = _OF_FILTERS * c * m_blocks * -(-tiles // _CHUNK)
    borders = tiles * (_OF_INPUTS * c_blocks + _OF_RESULTS * m_blocks)
    direct = _TAPS * oh * ow * c * m_blocks / (2 if call.params["weights"] == _PAIRS else 1)
    return direct / (products + filters + borders)


def _is_open(call: KernelCall) -> bool:
    return any(map(is_symbolic, _picture(call)))


def _picture(call: KernelCall) -> tuple[int, int]:
    return _size(call, "oh"), _size(call, "ow")


def _channels(call: KernelCall) -> tuple[int, int]:
    return _size(call, "c"), _size(call, "m")


def _size(call: KernelCall, name: str) -> int:
    size = call.params[name]
    assert isinstance(size, int)
    return size
