"""Winograd's F(4x4, 3x3) on 8-bit integers in place of the definition: where it is exact, and how much faster it is.

    qgemm(x, w, …)  →  qwinograd2d(x, w, …)

`qwinograd2d` computes sums modulo 2^26, so that they are exact where they can only have so many values: those of a
column lie within 255 · Σ |w - w_zero| of each other, whatever x and its zero point are. Weights and their zero points
must be constants for that to be known.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from atcpy.ir import NC1HWC0, Value
from atcpy.ir.symbolic import example, is_symbolic
from atcpy.ops.conv.winograd import MANY_PICTURES
from atcpy.ops.core.opdef import KernelCall

DIRECT: Final = "qgemm"
WINOGRAD: Final = "qwinograd2d"
LEAST_GAIN: Final = 1.02  # estimated; results are the same either way
MAX_CHANNELS: Final = 1 << 12  # that the kernel takes
_BYTE: Final = 255  # the largest difference of two values of x
_SUMS: Final = 1 << 26  # values that a sum can have
_TILE: Final = 4  # results of a tile in a row or column
_C0: Final = NC1HWC0.c0
_ONLY: Final = {
    "kh": 3, "kw": 3, "sh": 1, "sw": 1, "dh": 1, "dw": 1, "group": 1, "src_c0": _C0, "k_c0": _C0, "dst_c0": _C0,
    "w_packed": 1,
}  # fmt: skip
_W, _W_ZERO = 2, 3  # sources of the launch
# Products of the definition, of four bytes in each lane of a vector, that take as long as:
_OF_PRODUCTS: Final = 36 / 2  # those of a tile, for a channel and a block of output channels
_OF_FILTERS: Final = 150  # transforming the filters of a channel and a block of output channels
_OF_INPUTS: Final = 180  # transforming a tile of a block of input channels
_OF_RESULTS: Final = 280  # transforming and rounding a tile of a block of output channels
_CHUNK: Final = 49  # tiles for which filters are transformed once, if they are too many to be kept
_KEPT: Final = 128 * 128  # so many filters are kept at most


def computes(call: KernelCall) -> bool:
    """Whether `qwinograd2d` computes a launch: a convolution of 3x3 by weights of which it is exact."""
    if call.family != DIRECT or call.params["result"] == "f32" or not _ONLY.items() <= call.params.items():
        return False
    if is_symbolic(call.params["c"]) or _size(call, "c") % _C0 or _size(call, "c") > MAX_CHANNELS:
        return False
    return is_exact(call.src[_W], call.src[_W_ZERO])


def is_exact(w: Value | None, w_zero: Value | None) -> bool:
    """Whether sums by these weights, [M, C, 3, 3], with zero points of one or M, have at most 2^26 values."""
    if w is None or w.tensor is None or (w_zero is not None and w_zero.tensor is None):
        return False
    zeros = np.zeros(1, np.int16) if w_zero is None else w_zero.array.astype(np.int16).reshape(-1)
    differences = w.array.astype(np.int16) - zeros.reshape(-1, 1, 1, 1)
    return int(np.abs(differences).sum(axis=(1, 2, 3), dtype=np.int64).max()) * _BYTE < _SUMS


def as_winograd(call: KernelCall) -> KernelCall:
    """Return the launch of `qwinograd2d` that computes what one of `qgemm` does: by the definition where the size of a
    picture or of the batch is open and turns out to be small.
    """
    params = {name: value for name, value in call.params.items() if name not in {*_ONLY, "cg", "mg"}}
    is_open = any(is_symbolic(call.params[name]) for name in ("n", "oh", "ow"))
    return replace(call, family=WINOGRAD, params=params | {"falls_back": int(is_open)})


def gain(call: KernelCall) -> float:
    """Estimate how many times faster Winograd is: for pictures of the example's size if that is open, and for many
    pictures if the size of the batch is.
    """
    c, m, oh, ow = (example(_size(call, name)) for name in ("c", "m", "oh", "ow"))
    n = MANY_PICTURES if is_symbolic(_size(call, "n")) else _size(call, "n")
    tiles = n * -(-oh // _TILE) * -(-ow // _TILE)
    c_blocks, m_blocks = c // _C0, -(-m // _C0)
    products = _OF_PRODUCTS * tiles * c * m_blocks
    filters = _OF_FILTERS * c * m_blocks * (1 if c * m <= _KEPT else -(-tiles // _CHUNK))
    borders = tiles * (_OF_INPUTS * c_blocks + _OF_RESULTS * m_blocks)
    return 9 / 4 * n * oh * ow * c * m_blocks / (products + filters + borders)


def _size(call: KernelCall, name: str) -> int:
    size = call.params[name]
    assert isinstance(size, int)
    return size
