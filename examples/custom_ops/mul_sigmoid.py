"""MulSigmoid(x, y) = x·y / (1 + e^−y), a fused Mul and Sigmoid: x · (y · σ(y)).

It has no kernel and no decomposition: numpy computes it on HOST_CPU.
"""

import numpy as np

import atcpy
from atcpy.ir.pattern import op, var

GATE = op("Sigmoid", var("y"))


@atcpy.register_operator("MulSigmoid", inplace=(0,))
class MulSigmoid:
    """A product with y · Sigmoid(y)."""

    pattern = (
        op("Mul", var("x"), op("Mul", var("y"), GATE, commutative=True, name="silu"), commutative=True),
        op("Mul", op("Mul", var("x"), var("y"), commutative=True, name="product"), GATE, commutative=True),
    )

    @staticmethod
    def infer(ctx, x, y):
        return x.with_shape(ctx.broadcast(x.shape, y.shape))

    @staticmethod
    def forward(ctx, x, y):
        gate = 1 / (1 + np.exp(-y))
        ctx.save(x, y, gate)
        return x * y * gate

    @staticmethod
    def backward(ctx, grad):
        x, y, gate = ctx.saved
        return grad * y * gate, grad * x * gate * (1 + y * (1 - gate))
