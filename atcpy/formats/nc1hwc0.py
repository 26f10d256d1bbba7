"""NC1HWC0 (5HD): channels in blocks of C0, blocks outermost but for the batch.

[N, C, H, W]  →  [N, C1, H, W, C0],  C1 = ⌈C / C0⌉

A constant [C, H, W], broadcast over the batch, is stored as [1, C, H, W] is.
"""

from __future__ import annotations

import numpy as np

from atcpy.formats.base import StorageFormat, ceil_div
from atcpy.ir.format import FormatKind
from atcpy.ir.shape import StaticShape
from atcpy.ir.tensor import Array


class NC1HWC0(StorageFormat, kind=FormatKind.NC1HWC0, c0=(16, 32, 64)):
    """Blocked channels, for activations."""

    def accepts(self, shape: StaticShape) -> bool:
        return len(shape) in {3, 4}

    def storage_shape(self, shape: StaticShape) -> StaticShape:
        n, c, h, w = _with_batch(shape)
        return (n, ceil_div(c, self.id.c0), h, w, self.id.c0)

    def pack(self, array: Array) -> Array:
        n, c, h, w = _with_batch(array.shape)
        c1 = ceil_div(c, self.id.c0)
        padded = np.zeros((n, c1 * self.id.c0, h, w), array.dtype)
        padded[:, :c] = array.reshape(n, c, h, w)
        return np.ascontiguousarray(padded.reshape(n, c1, self.id.c0, h, w).transpose(0, 1, 3, 4, 2))

    def unpack(self, packed: Array, shape: StaticShape) -> Array:
        n, c, h, w = _with_batch(shape)
        plain = packed.transpose(0, 1, 4, 2, 3).reshape(n, packed.shape[1] * self.id.c0, h, w)
        return np.ascontiguousarray(plain[:, :c]).reshape(shape)

    def index(self, shape: StaticShape, position: StaticShape) -> int:
        _, c1, h, w, c0 = self.storage_shape(shape)
        n, c, y, x = (0,) * (4 - len(position)) + position
        return (((n * c1 + c // c0) * h + y) * w + x) * c0 + c % c0


def _with_batch(shape: StaticShape) -> StaticShape:
    return (1,) * (4 - len(shape)) + shape
