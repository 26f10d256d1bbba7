"""FRACTAL_NZ: matrices in blocks of 16 rows by C0 columns, column blocks outermost.

    [B…, K, N]  →  [B…, N1, K1, 16, C0],  N1 = ⌈N / C0⌉, K1 = ⌈K / 16⌉

A block's row holds C0 columns side by side, and the rows of a column block follow each other:
just what a matrix product reads of its second operand.
"""

from __future__ import annotations

import numpy as np

from atcpy.formats.base import StorageFormat, ceil_div
from atcpy.ir.format import FormatKind
from atcpy.ir.shape import StaticShape
from atcpy.ir.tensor import Array

K0 = 16  # rows in a block


class FractalNz(StorageFormat, kind=FormatKind.FRACTAL_NZ, c0=(16, 32)):
    """Cube matrices."""

    def accepts(self, shape: StaticShape) -> bool:
        return len(shape) >= 2

    def storage_shape(self, shape: StaticShape) -> StaticShape:
        *batch, k, n = shape
        return (*batch, ceil_div(n, self.id.c0), ceil_div(k, K0), K0, self.id.c0)

    def pack(self, array: Array) -> Array:
        *batch, k, n = array.shape
        *_, n1, k1, _, c0 = self.storage_shape(array.shape)
        padded = np.zeros((*batch, k1 * K0, n1 * c0), array.dtype)
        padded[..., :k, :n] = array
        return np.ascontiguousarray(np.moveaxis(padded.reshape(*batch, k1, K0, n1, c0), -2, -4))

    def unpack(self, packed: Array, shape: StaticShape) -> Array:
        *batch, k, n = shape
        *_, n1, k1, _, c0 = packed.shape
        plain = np.moveaxis(packed, -4, -2).reshape(*batch, k1 * K0, n1 * c0)
        return np.ascontiguousarray(plain[..., :k, :n])

    def index(self, shape: StaticShape, position: StaticShape) -> int:
        *batch_shape, n1, k1, k0, c0 = self.storage_shape(shape)
        *batch, k, n = position
        outer = 0
        for size, at in zip(batch_shape, batch, strict=True):
            outer = outer * size + at
        return (((outer * n1 + n // c0) * k1 + k // k0) * k0 + k % k0) * c0 + n % c0
