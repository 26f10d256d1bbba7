"""Weights whose summed dim lies in pairs, for instructions that multiply and add two bfloat16 at once (VNNI factor 2).

    FRACTAL_NZ  [B…, N1, K1, 16, C0]        →  [B…, N1, K1, 8, C0, 2]
    N1C1HWC0N0  [N1, C1, H, W, C0, N0]      →  [N1, C1, H, W, C0 / 2, N0, 2]
                [N1, C, H, W, 1, N0]        →  [N1, C, H, ⌈W / 2⌉, N0, 2]

What such an instruction reads of one column, two neighbouring rows, lies side by side. Without blocks of channels,
pairs are neighbouring columns of a filter, whose last one is zero if there is an odd number of them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atcpy.formats.base import StorageFormat, find_format
from atcpy.ir.format import FormatKind
from atcpy.ir.shape import StaticShape
from atcpy.ir.tensor import Array


class FractalNzVnni2(StorageFormat, kind=FormatKind.FRACTAL_NZ_VNNI2, c0=(16,)):
    """FRACTAL_NZ in pairs of rows."""

    unpaired = FormatKind.FRACTAL_NZ

    def accepts(self, shape: StaticShape) -> bool:
        return self._unpaired.accepts(shape)

    def storage_shape(self, shape: StaticShape) -> StaticShape:
        *outer, rows, columns = self._unpaired.storage_shape(shape)
        return (*outer, rows // 2, columns, 2)

    def pack(self, array: Array) -> Array:
        packed = self._unpaired.pack(array)
        *outer, rows, columns = packed.shape
        return np.ascontiguousarray(packed.reshape(*outer, rows // 2, 2, columns).swapaxes(-1, -2))

    def unpack(self, packed: Array, shape: StaticShape) -> Array:
        return self._unpaired.unpack(packed.swapaxes(-1, -2).reshape(self._unpaired.storage_shape(shape)), shape)

    def index(self, shape: StaticShape, position: StaticShape) -> int:
        columns = self.storage_shape(shape)[-2]
        row, column = divmod(self._unpaired.index(shape, position), columns)
        return (row // 2 * columns + column) * 2 + row % 2

    @property
    def _unpaired(self) -> StorageFormat:
        return find_format(replace(self.id, kind=self.unpaired))


class N1C1HWC0N0Vnni2(FractalNzVnni2, kind=FormatKind.N1C1HWC0N0_VNNI2, c0=(16, 1), groups=(1, 2, 6)):
    """N1C1HWC0N0 in pairs of input channels, or of columns if C0 is 1."""

    unpaired = FormatKind.N1C1HWC0N0

    def storage_shape(self, shape: StaticShape) -> StaticShape:
        if self.id.c0 != 1:
            return super().storage_shape(shape)
        n1, c, h, columns, _, n0 = self._unpaired.storage_shape(_even(shape))
        return (n1, c, h, columns // 2, n0, 2)

    def pack(self, array: Array) -> Array:
        if self.id.c0 != 1:
            return super().pack(array)
        packed = self._unpaired.pack(np.pad(array, ((0, 0), (0, 0), (0, 0), (0, array.shape[3] % 2))))
        n1, c, h, columns, _, n0 = packed.shape
        return np.ascontiguousarray(packed.reshape(n1, c, h, columns // 2, 2, n0).swapaxes(-1, -2))

    def unpack(self, packed: Array, shape: StaticShape) -> Array:
        if self.id.c0 != 1:
            return super().unpack(packed, shape)
        wide = _even(shape)
        columns = packed.swapaxes(-1, -2).reshape(self._unpaired.storage_shape(wide))
        return np.ascontiguousarray(self._unpaired.unpack(columns, wide)[..., : shape[3]])

    def index(self, shape: StaticShape, position: StaticShape) -> int:
        return super().index(_even(shape) if self.id.c0 == 1 else shape, position)


def _even(shape: StaticShape) -> StaticShape:
    """The shape of filters with an even number of columns."""
    return (*shape[:3], shape[3] + shape[3] % 2)
