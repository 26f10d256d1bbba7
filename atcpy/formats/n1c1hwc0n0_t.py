"""N1C1HWC0N0_T: weights of a transposed convolution, as its kernel reads them; ours, not GE's.

    [C, N/G, H, W]  →  N1C1HWC0N0 of the same weights as [N, C/G, H, W]

ONNX stores the weights of ConvTranspose with the input channels outermost. Within each group they
change places with the output channels; then it is the format that the kernel `conv2d` reads.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atcpy.formats.base import StorageFormat
from atcpy.formats.fractal_z import N1C1HWC0N0
from atcpy.ir.format import Format, FormatKind
from atcpy.ir.shape import StaticShape
from atcpy.ir.tensor import Array


class N1C1HWC0N0T(StorageFormat, kind=FormatKind.N1C1HWC0N0_T, c0=(16,), groups=(1, 3)):
    """Weights of a transposed convolution."""

    def __init__(self, form: Format) -> None:
        super().__init__(form)
        self._direct = N1C1HWC0N0(replace(form, kind=FormatKind.N1C1HWC0N0))

    def accepts(self, shape: StaticShape) -> bool:
        return len(shape) == 4 and shape[0] % self.id.groups == 0

    def storage_shape(self, shape: StaticShape) -> StaticShape:
        return self._direct.storage_shape(_swapped(shape, self.id.groups))

    def pack(self, array: Array) -> Array:
        return self._direct.pack(_swap_channels(array, self.id.groups))

    def unpack(self, packed: Array, shape: StaticShape) -> Array:
        direct = self._direct.unpack(packed, _swapped(shape, self.id.groups))
        return np.ascontiguousarray(_swap_channels(direct, self.id.groups))

    def index(self, shape: StaticShape, position: StaticShape) -> int:
        c, n, h, w = position
        group, c = divmod(c, shape[0] // self.id.groups)
        return self._direct.index(_swapped(shape, self.id.groups), (group * shape[1] + n, c, h, w))


def _swapped(shape: StaticShape, groups: int) -> StaticShape:
    outer, inner, h, w = shape
    return (inner * groups, outer // groups, h, w)


def _swap_channels(array: Array, groups: int) -> Array:
    """[G·A, B, H, W] → [G·B, A, H, W]: its own inverse."""
    outer, inner, h, w = array.shape
    split = array.reshape(groups, outer // groups, inner, h, w)
    return split.swapaxes(1, 2).reshape(_swapped(array.shape, groups))
