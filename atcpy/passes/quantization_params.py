"""What passes ask of QuantizeLinear and DequantizeLinear: their steps and zero points, if these are constant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from atcpy.ir import DType, Node, Reject, Rewriter, Value
from atcpy.ir.tensor import Array

BYTES = frozenset({DType.UINT8, DType.INT8})


@dataclass(frozen=True, slots=True)
class Steps:
    """Float = (integer − zero) · scale; both are scalars, or have one element a channel."""

    scale: Array
    zero: Array

    def quantize(self, x: float | Array) -> Array:
        """The integers of floats, by the standard: halves to even, saturated; NaN is the least, as in the kernels."""
        info = np.iinfo(self.zero.dtype)
        with np.errstate(all="ignore"):
            rounded = np.rint(np.asarray(x, np.float32) / self.scale) + self.zero.astype(np.float32)
        bounded = np.where(np.isnan(rounded), info.min, np.clip(rounded, info.min, info.max))
        return np.asarray(bounded.astype(self.zero.dtype))

    def dequantize(self, integers: Array) -> Array:
        """The floats of integers of up to 16 bits, in float32."""
        return np.asarray((integers.astype(np.int32) - self.zero).astype(np.float32) * self.scale)

    @property
    def dtype(self) -> DType:
        """The integers' type."""
        return DType.from_numpy(self.zero.dtype)

    def same_as(self, other: Steps) -> bool:
        """True if the same integers mean the same floats."""
        return (
            self.zero.dtype == other.zero.dtype
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero, other.zero)
        )


def integers_of(node: Node) -> Value:
    """The quantised side of a QuantizeLinear or DequantizeLinear."""
    return node.output if node.op_type == "QuantizeLinear" else node.operand(0)


def rejects_steps(node: Node, axis: int | None = None) -> Iterator[Reject]:
    """Reasons against reading a node's steps: they are constant, of float32, positive, and one for all, or one
    for each index along `axis`.
    """
    scale, zero = node.operand(1), node.input(2)
    if scale.tensor is None or (zero is not None and zero.tensor is None):
        yield Reject("scales-not-constant", node.name)
        return
    if scale.desc.dtype is not DType.FLOAT32:
        yield Reject("scale-dtype", node.name, scale.desc.dtype.long)
    elif not (np.isfinite(scale.array).all() and (scale.array > 0).all()):
        yield Reject("scale-not-positive", node.name)
    if scale.desc.elements == 1 or _is_along(node, axis):
        return
    if axis is None:
        yield Reject("not-per-tensor", node.name)
    else:
        yield Reject("not-per-channel", node.name)


def rejects_bytes(node: Node) -> Iterator[Reject]:
    """A reason if the quantised side has not 8 bits."""
    dtype = integers_of(node).desc.dtype
    if dtype not in BYTES:
        yield Reject("dtype", node.name, dtype.long)


def _is_along(node: Node, axis: int | None) -> bool:
    shape = node.operand(0).desc.shape
    if axis is None or shape is None or len(node.operand(1).desc.static_shape) != 1 or node.int_attr("block_size", 0):
        return False
    return node.int_attr("axis", 1) % len(shape) == axis % len(shape)


def steps_of(node: Node) -> Steps:
    """The steps of a node that `rejects_steps` has nothing against."""
    scale, zero = node.operand(1).array, node.input(2)
    zeros = np.zeros(scale.shape, integers_of(node).desc.dtype.numpy) if zero is None else zero.array
    return Steps(_scalar(scale), _scalar(zeros))


def _scalar(array: Array) -> Array:
    return array.reshape(()) if array.size == 1 else array


def step_values(node: Node, rw: Rewriter) -> tuple[Value, Value]:
    """Scale and zero point of a node as the operands of an op that takes them."""
    steps = steps_of(node)
    zero = node.input(2)
    return rw.const(steps.scale, like=node.operand(1)), rw.const(steps.zero, like=zero, name=f"{node.name}_zero")
