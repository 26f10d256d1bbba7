"""Gradients of operands that were broadcast."""

from __future__ import annotations

from atcpy.ir import Builder, Value


def sum_to(b: Builder, gradient: Value, operand: Value) -> Value:
    """Sum a gradient over the axes along which broadcasting repeated the operand. Raises Unsupported if a rank is not
    known.
    """
    shape, own = b.shape_of(gradient), b.shape_of(operand)
    if shape == own:
        return gradient
    if len(shape) > len(own):
        gradient = b.op("ReduceSum", gradient, b.const([*range(len(shape) - len(own))]), keepdims=0)
    if not own:
        return gradient
    repeated = b.op("Not", b.op("Equal", b.op("Shape", operand), b.op("Shape", gradient)))
    axes = b.squeeze(b.op("NonZero", repeated), 0)
    return b.op("ReduceSum", gradient, axes, keepdims=1, noop_with_empty_axes=1)


def division_gradients(b: Builder, dy: Value, x: Value, divisor: Value, y: Value) -> tuple[Value, Value]:
    """Return the gradients of x and of the divisor from dy, that of y = x / divisor."""
    dx = b.op("Div", dy, divisor)
    return sum_to(b, dx, x), sum_to(b, b.op("Neg", b.op("Mul", dx, y)), divisor)
