"""FusedAddReLU(x, y) = max(x + y, 0), the first fused operator of most libraries.

It replaces Add and Relu in a model, and decomposes into these two again for inference, so that graph-kernel fusion
can combine it with neighbouring ops into one kernel.
"""

import numpy as np

import atcpy
from atcpy.ir.pattern import op, var


@atcpy.register_operator("FusedAddReLU", inplace=(0, 1))
class FusedAddReLU:
    """ReLU of a sum."""

    pattern = op("Relu", op("Add", var("x"), var("y")))

    @staticmethod
    def infer(ctx, x, y):
        return x.with_shape(ctx.broadcast(x.shape, y.shape))

    @staticmethod
    def forward(ctx, x, y):
        total = x + y
        ctx.save(total > 0, x.shape, y.shape)
        return np.maximum(total, 0)

    @staticmethod
    def backward(ctx, grad):
        positive, x_shape, y_shape = ctx.saved
        through = grad * positive
        return _sum_to(through, x_shape), _sum_to(through, y_shape)

    @staticmethod
    def decompose(ops, x, y):
        return ops.Relu(ops.Add(x, y))


def _sum_to(grad, shape):
    """Sum a gradient over the broadcast dims of an operand."""
    grad = grad.sum(axis=tuple(range(grad.ndim - len(shape))))
    return grad.sum(axis=tuple(i for i, size in enumerate(shape) if size == 1), keepdims=True)
