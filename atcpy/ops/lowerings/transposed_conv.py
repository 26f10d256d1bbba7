"""Transposed convolutions to a given size: the gradient of the data of a convolution with steps."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import Builder, Value


def cut_conv_transpose(
    b: Builder, y: Value, w: Value, begins: Value, sizes: Value, *, strides: Sequence[int], **attrs: object
) -> Value:
    """Return ConvTranspose of y with all that the last steps may skip, cut to `sizes` elements from `begins` on;
    both are lists with a number for each spatial dim.
    """
    beyond = tuple(stride - 1 for stride in strides)
    whole = b.op("ConvTranspose", y, w, strides=tuple(strides), output_padding=beyond, **attrs)
    axes = b.const([*range(2, len(strides) + 2)])
    return b.op("Slice", whole, begins, b.op("Add", begins, sizes), axes)
