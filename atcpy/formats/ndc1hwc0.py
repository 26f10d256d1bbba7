"""NDC1HWC0: NC1HWC0 of every slice along the depth, for 3-D convolutions.

[N, C, D, H, W]  →  [N, D, C1, H, W, C0],  C1 = ⌈C / C0⌉
"""

from __future__ import annotations

import numpy as np

from atcpy.formats.base import StorageFormat, ceil_div
from atcpy.ir.format import FormatKind
from atcpy.ir.shape import StaticShape
from atcpy.ir.tensor import Array


class NDC1HWC0(StorageFormat, kind=FormatKind.NDC1HWC0, c0=(16, 32)):
    """Blocked channels of volumes."""

    def accepts(self, shape: StaticShape) -> bool:
        return len(shape) == 5

    def storage_shape(self, shape: StaticShape) -> StaticShape:
        n, c, d, h, w = shape
        return (n, d, ceil_div(c, self.id.c0), h, w, self.id.c0)

    def pack(self, array: Array) -> Array:
        n, c, d, h, w = array.shape
        c1 = ceil_div(c, self.id.c0)
        padded = np.zeros((n, c1 * self.id.c0, d, h, w), array.dtype)
        padded[:, :c] = array
        return np.ascontiguousarray(padded.reshape(n, c1, self.id.c0, d, h, w).transpose(0, 3, 1, 4, 5, 2))

    def unpack(self, packed: Array, shape: StaticShape) -> Array:
        n, c, d, h, w = shape
        plain = packed.transpose(0, 2, 5, 1, 3, 4).reshape(n, packed.shape[2] * self.id.c0, d, h, w)
        return np.ascontiguousarray(plain[:, :c])

    def index(self, shape: StaticShape, position: StaticShape) -> int:
        _, depth, c1, h, w, c0 = self.storage_shape(shape)
        n, c, d, y, x = position
        return ((((n * depth + d) * c1 + c // c0) * h + y) * w + x) * c0 + c % c0
