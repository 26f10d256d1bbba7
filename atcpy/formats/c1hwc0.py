"""C1HWC0: depthwise weights, one filter a channel, channels in blocks of C0.

[C, 1, H, W]  →  [C1, H, W, C0]
"""

from __future__ import annotations

import numpy as np

from atcpy.formats.base import StorageFormat, ceil_div
from atcpy.ir.format import FormatKind
from atcpy.ir.shape import StaticShape
from atcpy.ir.tensor import Array


class C1HWC0(StorageFormat, kind=FormatKind.C1HWC0, c0=(16,)):
    """Depthwise weights."""

    def accepts(self, shape: StaticShape) -> bool:
        return len(shape) == 4 and shape[1] == 1

    def storage_shape(self, shape: StaticShape) -> StaticShape:
        c, _, h, w = shape
        return (ceil_div(c, self.id.c0), h, w, self.id.c0)

    def pack(self, array: Array) -> Array:
        c, _, h, w = array.shape
        c1 = ceil_div(c, self.id.c0)
        padded = np.zeros((c1 * self.id.c0, h, w), array.dtype)
        padded[:c] = array[:, 0]
        return np.ascontiguousarray(padded.reshape(c1, self.id.c0, h, w).transpose(0, 2, 3, 1))

    def unpack(self, packed: Array, shape: StaticShape) -> Array:
        c, _, h, w = shape
        plain = packed.transpose(0, 3, 1, 2).reshape(-1, 1, h, w)
        return np.ascontiguousarray(plain[:c])

    def index(self, shape: StaticShape, position: StaticShape) -> int:
        c, _, y, x = position
        _, h, w, c0 = self.storage_shape(shape)
        return ((c // c0 * h + y) * w + x) * c0 + c % c0
