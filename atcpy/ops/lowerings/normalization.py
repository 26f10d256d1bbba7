"""BatchNormalization while it trains: by the statistics of the batch."""

from __future__ import annotations

from atcpy.ir import Builder, Value


def train_batch_norm(b: Builder, x: Value, scale: Value, bias: Value, epsilon: float) -> tuple[Value, Value, Value]:
    """Normalize x [N, C, …] by its own mean and variance, and return these two as well: [C], divided by the count."""
    axes = b.const([axis for axis in range(len(b.shape_of(x))) if axis != 1])
    centred = b.op("Sub", x, b.op("ReduceMean", x, axes, keepdims=1))
    mean, variance = (b.op("ReduceMean", value, axes, keepdims=0) for value in (x, b.op("Mul", centred, centred)))
    return b.op("BatchNormalization", x, scale, bias, mean, variance, epsilon=epsilon), mean, variance
