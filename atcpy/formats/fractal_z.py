"""FRACTAL_Z: weights of GE's cube ops, in blocks of 16 output by C0 input channels.

    [N, C, H, W]  →  [C1·H·W, N1, 16, C0],  C1 = ⌈C / C0⌉, N1 = ⌈N / 16⌉

With groups, as many neighbouring groups as fill whole blocks (GE's E, see `merged_groups`) share
one matrix whose entries between them are zero: [⌈G / E⌉·C1·H·W, N1, 16, C0].

N1C1HWC0N0 holds the same blocks for the kernel `conv2d`, which reads them one output block
after another and wants the 16 output channels of an input channel side by side:

    [N, C, H, W]  →  [⌈G / E⌉·N1, C1, H, W, C0, 16]
"""

from __future__ import annotations

import numpy as np

from atcpy.formats.base import StorageFormat, ceil_div
from atcpy.ir.format import N0, Format, FormatKind, merged_groups
from atcpy.ir.shape import StaticShape
from atcpy.ir.tensor import Array


class FractalZ(StorageFormat, kind=FormatKind.FRACTAL_Z, c0=(16, 1), groups=(1, 2, 6)):
    """GE's format of convolution weights; no kernel of ours reads it."""

    def accepts(self, shape: StaticShape) -> bool:
        return len(shape) == 4 and shape[0] % self.id.groups == 0

    def storage_shape(self, shape: StaticShape) -> StaticShape:
        blocks, n1, c1, h, w = _dims(self.id, shape)
        return (blocks * c1 * h * w, n1, N0, self.id.c0)

    def pack(self, array: Array) -> Array:
        blocks, n1, c1, h, w = _dims(self.id, array.shape)
        dense = _block_diagonal(self.id, array)
        split = dense.reshape(blocks, n1, N0, c1, self.id.c0, h, w)
        return np.ascontiguousarray(split.transpose(0, 3, 5, 6, 1, 2, 4)).reshape(self.storage_shape(array.shape))

    def unpack(self, packed: Array, shape: StaticShape) -> Array:
        blocks, n1, c1, h, w = _dims(self.id, shape)
        split = packed.reshape(blocks, c1, h, w, n1, N0, self.id.c0).transpose(0, 4, 5, 1, 6, 2, 3)
        return _from_block_diagonal(self.id, split.reshape(blocks, n1 * N0, c1 * self.id.c0, h, w), shape)

    def index(self, shape: StaticShape, position: StaticShape) -> int:
        _, n1, c1, h, w = _dims(self.id, shape)
        block, n, c = _in_block(self.id, shape, position)
        y, x = position[2:]
        k = ((block * c1 + c // self.id.c0) * h + y) * w + x
        return ((k * n1 + n // N0) * N0 + n % N0) * self.id.c0 + c % self.id.c0


class N1C1HWC0N0(StorageFormat, kind=FormatKind.N1C1HWC0N0, c0=(16, 1), groups=(1, 2, 6)):
    """What the kernel `conv2d` reads; ours, not GE's."""

    def accepts(self, shape: StaticShape) -> bool:
        return len(shape) == 4 and shape[0] % self.id.groups == 0

    def storage_shape(self, shape: StaticShape) -> StaticShape:
        blocks, n1, c1, h, w = _dims(self.id, shape)
        return (blocks * n1, c1, h, w, self.id.c0, N0)

    def pack(self, array: Array) -> Array:
        blocks, n1, c1, h, w = _dims(self.id, array.shape)
        split = _block_diagonal(self.id, array).reshape(blocks * n1, N0, c1, self.id.c0, h, w)
        return np.ascontiguousarray(split.transpose(0, 2, 4, 5, 3, 1))

    def unpack(self, packed: Array, shape: StaticShape) -> Array:
        blocks, n1, c1, h, w = _dims(self.id, shape)
        split = packed.transpose(0, 5, 1, 4, 2, 3).reshape(blocks, n1 * N0, c1 * self.id.c0, h, w)
        return _from_block_diagonal(self.id, split, shape)

    def index(self, shape: StaticShape, position: StaticShape) -> int:
        _, n1, c1, h, w = _dims(self.id, shape)
        block, n, c = _in_block(self.id, shape, position)
        y, x = position[2:]
        outer = (((block * n1 + n // N0) * c1 + c // self.id.c0) * h + y) * w + x
        return (outer * self.id.c0 + c % self.id.c0) * N0 + n % N0


def _dims(form: Format, shape: StaticShape) -> tuple[int, int, int, int, int]:
    """(block matrices, N1, C1, H, W)"""
    n, c, h, w = shape
    merged = merged_groups(form.groups, c, n // form.groups, form.c0)
    return (
        ceil_div(form.groups, merged),
        ceil_div(n // form.groups * merged, N0),
        ceil_div(c * merged, form.c0),
        h,
        w,
    )


def _in_block(form: Format, shape: StaticShape, position: StaticShape) -> tuple[int, int, int]:
    """(block matrix, output channel in it, input channel in it) of an element"""
    n_group = shape[0] // form.groups
    merged = merged_groups(form.groups, shape[1], n_group, form.c0)
    group, n = divmod(position[0], n_group)
    block, slot = divmod(group, merged)
    return block, slot * n_group + n, slot * shape[1] + position[1]


def _block_diagonal(form: Format, array: Array) -> Array:
    """[blocks, N1·16, C1·C0, H, W] with the groups of a block on the diagonal."""
    blocks, n1, c1, h, w = _dims(form, array.shape)
    n_group, c_group = array.shape[0] // form.groups, array.shape[1]
    merged = merged_groups(form.groups, c_group, n_group, form.c0)
    dense = np.zeros((blocks, n1 * N0, c1 * form.c0, h, w), array.dtype)
    for group in range(form.groups):
        block, slot = divmod(group, merged)
        rows, columns = slice(slot * n_group, (slot + 1) * n_group), slice(slot * c_group, (slot + 1) * c_group)
        dense[block, rows, columns] = array[group * n_group : (group + 1) * n_group]
    return dense


def _from_block_diagonal(form: Format, dense: Array, shape: StaticShape) -> Array:
    n_group, c_group = shape[0] // form.groups, shape[1]
    merged = merged_groups(form.groups, c_group, n_group, form.c0)
    array = np.empty(shape, dense.dtype)
    for group in range(form.groups):
        block, slot = divmod(group, merged)
        rows, columns = slice(slot * n_group, (slot + 1) * n_group), slice(slot * c_group, (slot + 1) * c_group)
        array[group * n_group : (group + 1) * n_group] = dense[block, rows, columns]
    return array
