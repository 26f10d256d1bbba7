"""N1K1N0K0: 8-bit weights as instructions that sum four products take them; ours, not GE's.

    [N, C, H, W]  →  [G·N1, K1 + 1, 16, 4],   K = C1·H·W·C0 in this order, K1 = ⌈K / 4⌉, N1 = ⌈N / G / 16⌉

H · W stands for any number of spatial dims. The last row of a panel holds the sum of each of its 16
columns as an int32: what a zero point of the other operand is multiplied by. Only elements of 8 bits
have sums; of others these bytes stay zero.

N1K1N0K0_T is the same of a matrix [K, N].
"""

from __future__ import annotations

from math import prod

import numpy as np

from atcpy.formats.base import StorageFormat, ceil_div
from atcpy.ir.format import N0, Format, FormatKind
from atcpy.ir.shape import StaticShape
from atcpy.ir.tensor import Array

K0 = 4


class N1K1N0K0(StorageFormat, kind=FormatKind.N1K1N0K0, c0=(16, 4, 1), groups=(1, 2, 6)):
    """Weights of a convolution of integers."""

    def accepts(self, shape: StaticShape) -> bool:
        return len(shape) >= 3 and shape[0] % self.id.groups == 0

    def storage_shape(self, shape: StaticShape) -> StaticShape:
        n1, k = self._sizes(shape)
        return (self.id.groups * n1, ceil_div(k, K0) + 1, N0, K0)

    def pack(self, array: Array) -> Array:
        n1, k = self._sizes(array.shape)
        (n, c, *spatial), groups, c0 = array.shape, self.id.groups, self.id.c0
        c1, k1, taps = ceil_div(c, c0), ceil_div(k, K0), prod(spatial)
        padded = np.zeros((groups, n1 * N0, c1 * c0, taps), array.dtype)
        padded[:, : n // groups, :c] = array.reshape(groups, n // groups, c, taps)
        rows = padded.reshape(groups * n1, N0, c1, c0, taps).transpose(0, 1, 2, 4, 3).reshape(groups * n1, N0, k)
        packed = np.zeros(self.storage_shape(array.shape), array.dtype)
        blocks = np.zeros((groups * n1, N0, k1 * K0), array.dtype)
        blocks[:, :, :k] = rows
        packed[:, :k1] = blocks.reshape(groups * n1, N0, k1, K0).transpose(0, 2, 1, 3)
        if array.dtype.itemsize == 1:
            packed[:, k1] = rows.sum(axis=2, dtype="<i4")[:, :, None].view(array.dtype)
        return packed

    def unpack(self, packed: Array, shape: StaticShape) -> Array:
        n1, k = self._sizes(shape)
        (n, c, *spatial), groups, c0 = shape, self.id.groups, self.id.c0
        c1, k1, taps = ceil_div(c, c0), ceil_div(k, K0), prod(spatial)
        rows = packed[:, :k1].transpose(0, 2, 1, 3).reshape(groups * n1, N0, k1 * K0)[:, :, :k]
        split = rows.reshape(groups, n1 * N0, c1, taps, c0).transpose(0, 1, 2, 4, 3)
        plain = split.reshape(groups, n1 * N0, c1 * c0, taps)[:, : n // groups, :c]
        return np.ascontiguousarray(plain).reshape(shape)

    def index(self, shape: StaticShape, position: StaticShape) -> int:
        n1, k = self._sizes(shape)
        (n, c, *spatial), c0 = position, self.id.c0
        group, n = divmod(n, shape[0] // self.id.groups)
        tap = c // c0
        for at, size in zip(spatial, shape[2:], strict=True):
            tap = tap * size + at
        step = tap * c0 + c % c0
        row = (group * n1 + n // N0) * (ceil_div(k, K0) + 1) + step // K0
        return (row * N0 + n % N0) * K0 + step % K0

    def _sizes(self, shape: StaticShape) -> tuple[int, int]:
        """(N1, K)"""
        return ceil_div(shape[0] // self.id.groups, N0), ceil_div(shape[1], self.id.c0) * self.id.c0 * prod(shape[2:])


class N1K1N0K0T(StorageFormat, kind=FormatKind.N1K1N0K0_T, c0=(1,)):
    """The right operand of a product of integer matrices."""

    def __init__(self, form: Format) -> None:
        super().__init__(form)
        self._turned = N1K1N0K0(Format(FormatKind.N1K1N0K0, 1))

    def accepts(self, shape: StaticShape) -> bool:
        return len(shape) == 2

    def storage_shape(self, shape: StaticShape) -> StaticShape:
        return self._turned.storage_shape((*shape[::-1], 1, 1))

    def pack(self, array: Array) -> Array:
        return self._turned.pack(array.T[:, :, None, None])

    def unpack(self, packed: Array, shape: StaticShape) -> Array:
        return np.ascontiguousarray(self._turned.unpack(packed, (*shape[::-1], 1, 1))[:, :, 0, 0].T)

    def index(self, shape: StaticShape, position: StaticShape) -> int:
        return self._turned.index((*shape[::-1], 1, 1), (*position[::-1], 0, 0))
