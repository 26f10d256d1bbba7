"""Ops of ONNX Runtime's training graphs; importing a module registers its records."""

from atcpy.ops.contrib.training import (
    gradients,
    losses,
    movement_gradients,
    normalization,
    optimizers,
    window_gradients,
)

FAMILIES = (gradients, losses, movement_gradients, normalization, optimizers, window_gradients)
