"""Winograd's F(4x4, 3x3) and F(2x2, 3x3) in place of the definition, also at stride 2: where they compute it, and are
faster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from atcpy.ir.format import NC1HWC0
from atcpy.ir.symbolic import example, is_symbolic
from atcpy.ops.core.opdef import KernelCall

C0 = NC1HWC0.c0
DIRECT, WINOGRAD = "conv2d", "winograd2d"
LARGE, SMALL = 4, 2  # tiles, by their results in a row
SMALLEST_GAIN = 1.2  # estimated; less is not worth the rounding error
STRIDED_GAIN = 1.08  # of stride 2, whose sums round hardly more often than those of the definition
MANY_PICTURES = 64  # of a batch of open size
SMALL_GAIN = 1.1  # of small tiles over large ones: less is not worth that their factors are rounded
_KERNEL = 3


@dataclass(frozen=True, slots=True)
class _Form:
    """Products of a tile, and what its transforms take, in multiply-adds of a block. A package does not depend on the
    CPU: the estimates lie between what AVX-512 and AVX2 gain (ADR 0022).
    """

    products: int  # for an input channel and a block of output channels
    of_filters: int  # of an input channel and a block of output channels
    of_inputs: int  # of a tile and a block of input channels
    of_results: int  # of a tile and a block of output channels


_FORMS: Final = {  # by tile and stride
    (LARGE, 1): _Form(36, 200, 470, 250),
    (SMALL, 1): _Form(16, 40, 110, 80),
    (SMALL, 2): _Form(25, 60, 150, 60),
}
_CHUNK = 49  # tiles for which filters are transformed once; the kernel takes as many as fit into the cache
_ONLY: Final = {"kh": 3, "kw": 3, "dh": 1, "dw": 1, "group": 1, "src_c0": C0}
_PAIRS: Final = "bf16_vnni2"  # of which two are multiplied in the time of one in float32


def tiles_of(call: KernelCall) -> tuple[int, ...]:
    """The tiles with which `winograd2d` computes a launch, if that is a convolution for it; empty if not.

    The sizes of pictures and the batch may be open: where they turn out to be small, it computes by the definition, but
    for pairs of bfloat16. Small tiles at stride 1 multiply such pairs, of which the second is never one beyond the last
    channel, and at stride 2 float32.
    """
    if call.family != DIRECT or not _ONLY.items() <= call.params.items() or any(map(is_symbolic, _channels(call))):
        return ()
    if (stride := stride_of(call)) != call.params["sw"] or stride not in (1, 2):
        return ()
    if stride == 2:
        return () if call.params["weights"] == _PAIRS else (SMALL,)
    if call.params["weights"] != _PAIRS:
        return (LARGE,)
    if any(map(is_symbolic, _picture(call))):
        return ()
    return (LARGE,) if _size(call, "c") % 2 else (LARGE, SMALL)


def as_winograd(call: KernelCall, tile: int = LARGE) -> KernelCall:
    """Return the launch of `winograd2d` that computes what one of `conv2d` does."""
    params = {name: value for name, value in call.params.items() if name != "src_c0"}
    return replace(call, family=WINOGRAD, params=params | {"tile": tile, "falls_back": int(_falls_back(call))})


def stride_of(call: KernelCall) -> int:
    """From row to row."""
    return _size(call, "sh")


def gain(call: KernelCall, tile: int = LARGE) -> float:
    """Estimate how many times faster Winograd is with one of `tiles_of`: for pictures of the example's size if that is
    open, and for many pictures if the size of the batch is, or one where the kernel cannot fall back on the definition.
    """
    (c, m), (oh, ow) = _channels(call), map(example, _picture(call))
    n = _size(call, "n")
    if is_symbolic(n):
        n = MANY_PICTURES if _falls_back(call) else 1
    tiles = n * -(-oh // tile) * -(-ow // tile)
    c_blocks, m_blocks = -(-c // C0), -(-m // C0)
    rate = 2 if call.params["weights"] == _PAIRS else 1
    form = _FORMS[tile, stride_of(call)]
    products = form.products * tiles * c * m_blocks / (rate if tile == SMALL else 1)
    filters = form.of_filters * c * m_blocks * -(-tiles // _CHUNK)
    borders = tiles * (form.of_inputs * c_blocks + form.of_results * m_blocks)
    direct = _KERNEL**2 * n * oh * ow * c * m_blocks / rate
    return direct / (products + filters + borders)


def _falls_back(call: KernelCall) -> bool:
    return call.params["weights"] != _PAIRS and any(map(is_symbolic, (_size(call, "n"), *_picture(call))))


def _picture(call: KernelCall) -> tuple[int, int]:
    return _size(call, "oh"), _size(call, "ow")


def _channels(call: KernelCall) -> tuple[int, int]:
    return _size(call, "c"), _size(call, "m")


def _size(call: KernelCall, name: str) -> int:
    size = call.params[name]
    assert isinstance(size, int)
    return size
